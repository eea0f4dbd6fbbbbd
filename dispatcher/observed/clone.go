package observed

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// CloneSource is the claim that another one asks to be a clone of, with its volume, as far as they are known.
type CloneSource struct {
	Claim  *corev1.PersistentVolumeClaim
	Volume *corev1.PersistentVolume
}

// Bound reports whether the volume is the claim's. spec.volumeName alone proves nothing, since the claim's user can
// write any name.
func (c CloneSource) Bound() bool {
	if c.Claim == nil || c.Volume == nil || c.Volume.Spec.ClaimRef == nil {
		return false
	}

	lives := c.Claim.DeletionTimestamp == nil && c.Claim.Status.Phase == corev1.ClaimBound

	return lives && c.Volume.Spec.ClaimRef.UID == c.Claim.UID
}

// SetSource finds the claim that this one asks to be a clone of, and its volume.
func (s *Claim) SetSource(
	claim func(namespace, name string) *corev1.PersistentVolumeClaim, volume func(name string) *corev1.PersistentVolume,
) {
	s.Source = CloneSource{}
	if s.Claim == nil {
		return
	}

	name, _ := CloneOf(s.Claim)
	if name == "" {
		return
	}

	s.Source.Claim = claim(s.Claim.Namespace, name)
	if s.Source.Claim != nil {
		s.Source.Volume = volume(s.Source.Claim.Spec.VolumeName)
	}
}

// requestSource is what the request says of the clone's source, nil for an empty volume.
func (s *Claim) requestSource() *contract.Source {
	if name, _ := CloneOf(s.Claim); name == "" || !s.Source.Bound() {
		return nil
	}

	return &contract.Source{Namespace: s.Source.Claim.Namespace, Name: s.Source.Claim.Name,
		VolumeName: s.Source.Volume.Name}
}

// CloneToRecord is the claim that the new volume is a clone of, as namespace/name; empty where it is none or the claim
// says so.
func (s *Claim) CloneToRecord(provisions []Attempt) string {
	request, err := podspec.RequestOf(provisions[len(provisions)-1].Pod)
	if err != nil || request.Source == nil {
		return ""
	}

	of := request.Source.Namespace + "/" + request.Source.Name
	if s.Claim.Annotations[contract.AnnCloneOf] == of {
		return ""
	}

	return of
}

// CopiedVolume is the volume that the pod copies into a clone, empty for a pod that copies none or has ended.
func CopiedVolume(pod *corev1.Pod) string {
	if podspec.OutcomeOf(pod).Final() {
		return ""
	}

	return SourceVolume(pod)
}

// SourceVolume is the volume that the pod was to copy into a clone, empty for a pod that copies none. Few pods do: the
// request of the others is not decoded.
func SourceVolume(pod *corev1.Pod) string {
	if !strings.Contains(pod.Annotations[contract.AnnRequest], `"source":`) {
		return ""
	}

	request, err := podspec.RequestOf(pod)
	if err != nil || request.Operation != contract.Provision || request.Source == nil {
		return ""
	}

	return request.Source.VolumeName
}

// CloneOf is the name of the claim that this one asks to be a clone of, empty for none. fault says what is wrong with
// the request.
func CloneOf(claim *corev1.PersistentVolumeClaim) (name, fault string) {
	name, fault = cloneRequest(claim)
	if fault != "" {
		return "", fault
	}

	source, fault := dataSource(claim)
	switch {
	case fault != "":
		return "", fault
	case name != "" && source != "" && name != source:
		return "", fmt.Sprintf("annotation %s asks for a clone of %s, and spec.dataSource for one of %s; remove "+
			"one of them", contract.AnnCloneRequest, name, source)
	case source != "":
		name = source
	}

	switch {
	case name == claim.Name:
		return "", "the claim asks to be a clone of itself; name another one"
	case len(name) > validation.DNS1123SubdomainMaxLength: // an index keeps the name for as long as the claim waits
		return "", fmt.Sprintf("the claim asks to be a clone of one whose name has %d characters; names have "+
			"at most %d", len(name), validation.DNS1123SubdomainMaxLength)
	}

	return name, ""
}

// cloneRequest is the claim that the annotation names, empty for none.
func cloneRequest(claim *corev1.PersistentVolumeClaim) (name, fault string) {
	request, found := claim.Annotations[contract.AnnCloneRequest]
	if !found {
		return "", ""
	}

	namespace, name, found := strings.Cut(request, "/")
	if !found {
		namespace, name = claim.Namespace, request
	}

	switch {
	case name == "" || namespace == "" || strings.Contains(name, "/"):
		return "", fmt.Sprintf("annotation %s is %q: it must be the name of a claim in the same namespace",
			contract.AnnCloneRequest, request)
	case namespace != claim.Namespace:
		return "", fmt.Sprintf("annotation %s is %q: only claims of namespace %s can be cloned into it",
			contract.AnnCloneRequest, request, claim.Namespace)
	}

	return name, ""
}

// dataSource is the claim that the standard field names. The API server keeps both spellings of it alike.
func dataSource(claim *corev1.PersistentVolumeClaim) (name, fault string) {
	source := corev1.TypedObjectReference{}
	switch {
	case claim.Spec.DataSourceRef != nil:
		source = *claim.Spec.DataSourceRef
	case claim.Spec.DataSource != nil:
		local := claim.Spec.DataSource
		source.APIGroup, source.Kind, source.Name = local.APIGroup, local.Kind, local.Name
	default:
		return "", ""
	}

	switch {
	case source.Kind != "PersistentVolumeClaim" || source.APIGroup != nil && *source.APIGroup != "":
		return "", fmt.Sprintf("spec.dataSourceRef is %s %q: a new volume is empty, or a clone of a "+
			"PersistentVolumeClaim; remove it, or wait for a populator of its kind", source.Kind, source.Name)
	case source.Namespace != nil && *source.Namespace != claim.Namespace:
		return "", fmt.Sprintf("spec.dataSourceRef is of namespace %s: only claims of namespace %s can be "+
			"cloned into it", *source.Namespace, claim.Namespace)
	}

	return source.Name, ""
}
