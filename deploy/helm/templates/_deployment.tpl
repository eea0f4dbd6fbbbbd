{{/* The Deployment of deploy/base becomes that of the values. It is changed in place. */}}
{{- define "flex.deployment" -}}
{{- $values := .root.Values -}}
{{- if gt (int $values.replicas) 1 -}}
{{- $ha := fromYaml (.root.Files.Get "manifests/components/ha/deployment.yaml") -}}
{{- $_ := mustMergeOverwrite .deployment.spec $ha.spec -}}
{{- end -}}
{{- $_ := set .deployment.spec "replicas" (int $values.replicas) -}}
{{- $template := .deployment.spec.template -}}
{{- $pod := $template.spec -}}
{{- $container := first $pod.containers -}}
{{- $_ := set $container "image" (required "images.dispatcher is empty: name the image of the dispatcher in your registry; the chart of a release has it by digest" $values.images.dispatcher) -}}
{{- $flexctl := required "images.flexctl is empty: name the image of flexctl in your registry; the chart of a release has it by digest" $values.images.flexctl -}}
{{- $args := list (printf "--flexctl-image=%s" $flexctl) -}}
{{- if ne $values.name "flex" -}}
{{- $args = concat $args (list (printf "--provisioner-name=%s" $values.provisionerName) (printf "--namespace=%s-provisioners" $values.name) (printf "--lease-namespace=%s-system" $values.name)) -}}
{{- else if ne $values.provisionerName "flex-provisioner.io/dispatcher" -}}
{{- fail (printf "provisionerName is %s: give the dispatcher a name of its own as well" $values.provisionerName) -}}
{{- end -}}
{{- range $option, $value := $values.options -}}
{{- if kindIs "float64" $value }}{{ $value = ternary (int64 $value) $value (eq (float64 (int64 $value)) $value) }}{{ end -}}
{{- $args = append $args (printf "--%s=%v" (kebabcase $option) $value) -}}
{{- end -}}
{{- $_ := set $container "args" $args -}}
{{- $_ := set (first $container.ports) "containerPort" (int (include "flex.port" .root)) -}}
{{- with $values.imagePullSecrets }}{{ $_ := set $pod "imagePullSecrets" . }}{{ end -}}
{{- $of := $values.pod -}}
{{- with $of.resources }}{{ $_ := set $container "resources" . }}{{ end -}}
{{- with $of.volumeMounts }}{{ $_ := set $container "volumeMounts" . }}{{ end -}}
{{- with $of.labels }}{{ $_ := set $template.metadata "labels" (merge $template.metadata.labels .) }}{{ end -}}
{{- with $of.annotations }}{{ $_ := set $template.metadata "annotations" . }}{{ end -}}
{{- with $of.nodeSelector }}{{ $_ := set $pod "nodeSelector" (merge $pod.nodeSelector .) }}{{ end -}}
{{- range $field := list "tolerations" "affinity" "topologySpreadConstraints" "priorityClassName" "volumes" -}}
{{- with index $of $field }}{{ $_ := set $pod $field . }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "flex.service" -}}
{{- $port := include "flex.port" .root -}}
{{- $_ := set .service.metadata.annotations "prometheus.io/port" $port -}}
{{- $_ := set (first .service.spec.ports) "port" (int $port) -}}
{{- end -}}

{{/* The port of --http-address. */}}
{{- define "flex.port" -}}
{{- regexFind "[0-9]+$" (default ":8080" .Values.options.httpAddress) -}}
{{- end -}}
