package dispatcher

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// origin is the claim that another one is to be a clone of, with its volume, as far as they are known.
type origin struct {
	claim  *corev1.PersistentVolumeClaim
	volume *corev1.PersistentVolume
}

// cloneOf is the name of the claim that this one asks to be a clone of, empty for none, and what is wrong with the wish.
func cloneOf(claim *corev1.PersistentVolumeClaim) (name, fault string) {
	if request, ok := claim.Annotations[contract.AnnCloneRequest]; ok {
		namespace, found := claim.Namespace, false
		if namespace, name, found = strings.Cut(request, "/"); !found {
			namespace, name = claim.Namespace, request
		}
		switch {
		case name == "" || namespace == "" || strings.Contains(name, "/"):
			return "", fmt.Sprintf("annotation %s is %q: it must be the name of a claim in the same namespace", contract.AnnCloneRequest, request)
		case namespace != claim.Namespace:
			return "", fmt.Sprintf("annotation %s is %q: only claims of namespace %s can be cloned into it", contract.AnnCloneRequest, request, claim.Namespace)
		}
	}
	source, fault := dataSource(claim)
	switch {
	case fault != "":
		return "", fault
	case name != "" && source != "" && name != source:
		return "", fmt.Sprintf("annotation %s asks for a clone of %s, and spec.dataSource for one of %s; remove one of them", contract.AnnCloneRequest, name, source)
	case source != "":
		name = source
	}
	switch {
	case name == claim.Name:
		return "", "the claim asks to be a clone of itself; name another one"
	case len(name) > validation.DNS1123SubdomainMaxLength: // it is kept in an index for as long as the claim waits
		return "", fmt.Sprintf("the claim asks to be a clone of one whose name has %d characters; names have at most %d", len(name), validation.DNS1123SubdomainMaxLength)
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
		source.APIGroup, source.Kind, source.Name = claim.Spec.DataSource.APIGroup, claim.Spec.DataSource.Kind, claim.Spec.DataSource.Name
	default:
		return "", ""
	}
	switch {
	case source.Kind != "PersistentVolumeClaim" || source.APIGroup != nil && *source.APIGroup != "":
		return "", fmt.Sprintf("spec.dataSourceRef is %s %q: a new volume is empty, or a clone of a PersistentVolumeClaim; remove it", source.Kind, source.Name)
	case source.Namespace != nil && *source.Namespace != claim.Namespace:
		return "", fmt.Sprintf("spec.dataSourceRef is of namespace %s: only claims of namespace %s can be cloned into it", *source.Namespace, claim.Namespace)
	}
	return source.Name, ""
}

// refusedClone says why the claim can never be the clone that it asks to be, empty where it can, or asks for none. A
// claim whose wish were passed over would get an empty volume that its user takes for a copy.
func (f *facts) refusedClone() string {
	name, fault := cloneOf(f.claim)
	switch {
	case name == "" || fault != "":
		return fault
	case f.terms.Parameters[contract.ParameterSmartClone] != "true":
		return fmt.Sprintf("the claim asks to be a clone of %s: class %s makes empty volumes only; its administrator can allow clones with parameter %s: \"true\" if its provisioner makes them",
			name, f.class, contract.ParameterSmartClone)
	}
	if !f.origin.bound() {
		return ""
	}
	size, has := f.claim.Spec.Resources.Requests[corev1.ResourceStorage], f.origin.volume.Spec.Capacity[corev1.ResourceStorage]
	if size.Cmp(has) < 0 {
		return fmt.Sprintf("spec.resources.requests.storage is %s: a clone of %s cannot be smaller than its %s", size.String(), name, has.String())
	}
	if mode, is := podspec.ModeOf(f.claim.Spec.VolumeMode), podspec.ModeOf(f.origin.volume.Spec.VolumeMode); mode != is {
		return fmt.Sprintf("spec.volumeMode is %s: a clone of %s has to be %s like it", mode, name, is)
	}
	return ""
}

// awaitedOrigin says what the clone waits for, empty where its source is there, or it is no clone.
func (f *facts) awaitedOrigin() string {
	name, _ := cloneOf(f.claim)
	switch {
	case name == "" || f.origin.bound():
		return ""
	case f.origin.claim == nil:
		return fmt.Sprintf("the claim asks to be a clone of %s, which does not exist; it waits for it", name)
	}
	return fmt.Sprintf("the claim asks to be a clone of %s, which is not bound; it waits for it", name)
}

// bound says that the volume is the claim's. spec.volumeName alone says nothing: its user can write any name there.
func (o origin) bound() bool {
	return o.claim != nil && o.claim.DeletionTimestamp == nil && o.claim.Status.Phase == corev1.ClaimBound &&
		o.volume != nil && o.volume.Spec.ClaimRef != nil && o.volume.Spec.ClaimRef.UID == o.claim.UID
}

// source is what the request says of the origin, nil for an empty volume.
func (f *facts) source() *contract.Source {
	if name, _ := cloneOf(f.claim); name == "" || !f.origin.bound() {
		return nil
	}
	return &contract.Source{Namespace: f.origin.claim.Namespace, Name: f.origin.claim.Name, VolumeName: f.origin.volume.Name}
}

func allowedTopologies(terms *storagev1.StorageClass) []map[string][]string {
	var list []map[string][]string
	for _, term := range terms.AllowedTopologies {
		keys := map[string][]string{}
		for _, e := range term.MatchLabelExpressions {
			keys[e.Key] = e.Values
		}
		list = append(list, keys)
	}
	return list
}

// byOrigin indexes claims without a volume by the claim that they are to be clones of.
const byOrigin = "origin"

func indexOrigin(obj any) ([]string, error) {
	claim := obj.(*corev1.PersistentVolumeClaim)
	if claim.Spec.VolumeName != "" {
		return nil, nil
	}
	if name, _ := cloneOf(claim); name != "" {
		return []string{claim.Namespace + "/" + name}, nil
	}
	return nil, nil
}

// gatherOrigin looks up what the claim is to be a clone of.
func (d *Dispatcher) gatherOrigin(f *facts) {
	f.origin = origin{}
	if f.claim == nil {
		return
	}
	name, _ := cloneOf(f.claim)
	if name == "" {
		return
	}
	if obj, ok, _ := d.caches.claims.GetStore().GetByKey(f.claim.Namespace + "/" + name); ok {
		f.origin.claim = obj.(*corev1.PersistentVolumeClaim)
		if obj, ok, _ := d.caches.volumes.GetStore().GetByKey(f.origin.claim.Spec.VolumeName); ok {
			f.origin.volume = obj.(*corev1.PersistentVolume)
		}
	}
}

// pokeClones lets the claims look again that wait to be clones of this one.
func (d *Dispatcher) pokeClones(namespace, name string) {
	waiting, _ := d.caches.claims.GetIndexer().ByIndex(byOrigin, namespace+"/"+name)
	for _, obj := range waiting {
		d.lanes.poke(string(obj.(*corev1.PersistentVolumeClaim).UID))
	}
}

// unansweredClone is what the volume that the attempts made is a clone of, empty where it is none or the claim says so.
func unansweredClone(claim *corev1.PersistentVolumeClaim, provisions []attempt) string {
	request, err := podspec.RequestOf(provisions[len(provisions)-1].pod)
	if err != nil || request.Source == nil {
		return ""
	}
	of := request.Source.Namespace + "/" + request.Source.Name
	if claim.Annotations[contract.AnnCloneOf] == of {
		return ""
	}
	return of
}

// answerClone writes on the claim what its volume is a clone of.
func (d *Dispatcher) answerClone(ctx context.Context, claim *corev1.PersistentVolumeClaim, of string) error {
	patch, err := patchOf(map[string]any{"uid": claim.UID, "annotations": map[string]any{contract.AnnCloneOf: of}})
	if err != nil {
		return fmt.Errorf("annotate claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	_, err = d.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("annotate claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}
