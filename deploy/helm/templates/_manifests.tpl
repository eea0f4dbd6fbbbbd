{{/*
The objects of a file below manifests/, which are those of deploy/, as a YAML document each. For another dispatcher they
are changed as deploy/another.sh does.
*/}}
{{- define "flex.manifests" -}}
{{- $text := .root.Files.Get .file | replace "PROVISIONER-NAME" .root.Values.provisionerName -}}
{{- $name := .root.Values.name -}}
{{- $another := ne $name "flex" -}}
{{- if $another -}}
{{- $text = $text | replace "flex-system" (printf "%s-system" $name) | replace "flex-provisioners" (printf "%s-provisioners" $name) -}}
{{- end -}}
{{- range $document := regexSplit "(?m)^---$" $text -1 -}}
{{- $policy := regexMatch "(?m)^kind: (Validating|Mutating)AdmissionPolicy" $document -}}
{{- if and $another $policy -}}
{{- $document = $document | replace "flex-provisioner.io/dispatcher" $.root.Values.provisionerName -}}
{{- end -}}
{{- $object := fromYaml $document -}}
{{- $_ := set $object.metadata "labels" (merge (default (dict) $object.metadata.labels) (dict "app.kubernetes.io/part-of" "flex-provisioner")) -}}
{{- if $another -}}
{{- include "flex.rename" (dict "object" $object "policy" $policy "name" $name "lease" (include "flex.lease" $.root)) -}}
{{- end -}}
{{- /* The namespaces outlive the release, and so does what guards them. Other dispatchers use the ClusterRoles. */ -}}
{{- /* The stamp of claims goes: what requires it would refuse every claim of the cluster. */ -}}
{{- $guard := and (hasPrefix "ValidatingAdmissionPolicy" $object.kind) (not (contains "/creator-stamp/" $.file)) -}}
{{- if or (eq $object.kind "Namespace" "Secret" "ClusterRole") (eq $object.metadata.name "flex-pv-policy") $guard -}}
{{- $_ := set $object.metadata "annotations" (merge (default (dict) $object.metadata.annotations) (dict "helm.sh/resource-policy" "keep")) -}}
{{- end -}}
{{- if eq $object.kind "Deployment" -}}
{{- include "flex.deployment" (dict "root" $.root "deployment" $object) -}}
{{- else if eq $object.kind "Service" -}}
{{- include "flex.service" (dict "root" $.root "service" $object) -}}
{{- end -}}
{{- $own := and (eq $object.kind "Namespace") (eq $object.metadata.name $.root.Release.Namespace) -}}
{{- $shared := and $another (eq $object.kind "ClusterRole") -}}
{{- if not (or $own $shared) }}
---
{{ toYaml $object }}
{{ end -}}
{{- end -}}
{{- end -}}

{{- define "flex.rename" -}}
{{- $object := .object -}}
{{- if or .policy (eq $object.kind "ClusterRoleBinding") -}}
{{- $_ := set $object.metadata "name" (regexReplaceAll "^flex-" $object.metadata.name (printf "%s-" .name)) -}}
{{- end -}}
{{- if and .policy (hasKey $object.spec "policyName") -}}
{{- $_ := set $object.spec "policyName" (regexReplaceAll "^flex-" $object.spec.policyName (printf "%s-" .name)) -}}
{{- end -}}
{{- if eq $object.kind "Role" -}}
{{- range $rule := $object.rules -}}
{{- if has "flex-provisioner" (default (list) $rule.resourceNames) -}}
{{- $_ := set $rule "resourceNames" (list $.lease) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The Lease of a dispatcher, which has the provisioner's name in its own. */}}
{{- define "flex.lease" -}}
flex-provisioner-{{ regexReplaceAll "[./]" .Values.provisionerName "-" }}
{{- end -}}
