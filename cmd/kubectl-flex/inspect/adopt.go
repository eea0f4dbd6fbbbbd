package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/configmaps/allowlist"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// AdoptedFrom is what a volume had before it was adopted, as contract.AnnAdoptedFrom keeps it.
type AdoptedFrom struct {
	// Provisioner is the value of provisioned-by, nil where there was none.
	Provisioner *string `json:"provisioner,omitempty"`
	// StorageClass is the volume's.
	StorageClass string `json:"storageClass"`
	// Finalizer reports whether the volume had the dispatcher's finalizer already.
	Finalizer bool `json:"finalizer,omitempty"`
}

// Adoption has the objects that the adoption of a volume takes.
type Adoption struct {
	// Volume is the volume before the patch, and From has what the patch changes of it.
	Volume *corev1.PersistentVolume
	From   AdoptedFrom
	// Config is the class's. Pod runs the class's image to check that it finds the storage.
	Config *configmaps.Config
	Pod    *corev1.Pod
	// Patch is a JSON merge patch of the volume. The API server refuses it if the volume has changed since.
	Patch []byte
}

// AdoptionPod is the name of the pod that looks for a volume's storage. No pod of an attempt has such a name.
func AdoptionPod(uid string) string { return "adopt-" + uid }

// AdoptionOf prepares the adoption of a volume by a class. The error lists every reason against it.
func (o *Objects) AdoptionOf(name, class string) (*Adoption, error) {
	v := o.VolumeNamed(name)
	if v == nil {
		return nil, fmt.Errorf("there is no volume %s", name)
	}
	if class == "" {
		class = podspec.ClassOf(v)
	}
	if v.Annotations[contract.ProvisionedBy] == o.Dispatcher.Provisioner {
		return nil, errors.New("it is a volume of this dispatcher already")
	}
	if faults := append(o.volumeFaults(v), sourceFaults(v)...); len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	a := &Adoption{Volume: v, From: AdoptedFrom{StorageClass: v.Spec.StorageClassName, Finalizer: slices.Contains(v.Finalizers, contract.VolumeFinalizer)}}
	if by, found := v.Annotations[contract.ProvisionedBy]; found {
		a.From.Provisioner = &by
	}
	after := v.DeepCopy()
	after.Spec.StorageClassName = class
	s := o.observeWith(string(v.Spec.ClaimRef.UID), after)
	if err := o.classFaults(s, v); err != nil {
		return nil, err
	}
	a.Config = s.Config
	identity, err := json.Marshal(s.Identity())
	if err != nil {
		return nil, fmt.Errorf("encode identity: %w", err)
	}
	from, err := json.Marshal(a.From)
	if err != nil {
		return nil, fmt.Errorf("encode what the volume had: %w", err)
	}
	annotations := map[string]string{contract.ProvisionedBy: o.Dispatcher.Provisioner, contract.AnnIdentity: string(identity),
		contract.AnnRecord: contract.RecordTrusted, contract.AnnAdoptedFrom: string(from),
		contract.AnnMadeBefore: o.Now.Add(observed.ClockSkew).UTC().Format(time.RFC3339)} // a volume that is created later comes from a backup
	for key, value := range annotations {
		after.Annotations[key] = value
	}
	if a.Pod, err = o.adoptionPod(s, after); err != nil {
		return nil, err
	}
	finalizers := slices.Clone(v.Finalizers)
	if !a.From.Finalizer {
		finalizers = append(finalizers, contract.VolumeFinalizer)
	}
	a.Patch, err = json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": v.UID, "resourceVersion": v.ResourceVersion, "annotations": annotations, "finalizers": finalizers},
		"spec":     map[string]any{"storageClassName": class},
	})
	return a, err
}

// adoptionPod is the pod that the dispatcher would make to expand the volume to the size that it has.
func (o *Objects) adoptionPod(s *observed.Claim, after *corev1.PersistentVolume) (*corev1.Pod, error) {
	s.SetVolume(after)
	size := observed.Capacity(after)
	pod, err := s.Pod(observed.AttemptSpec{Op: contract.Expand, Size: size.Value()}, o.Dispatcher.Cluster)
	if err != nil {
		return nil, err
	}
	// Dispatchers ignore this pod, like the pod that lists: neither its name nor a finalizer is that of an attempt.
	pod.Name, pod.Finalizers = AdoptionPod(s.UID), nil
	delete(pod.Labels, contract.LabelClaimUID)
	delete(pod.Labels, contract.LabelAttempt)
	return pod, nil
}

// observeWith observes a claim with another version of its volume.
func (o *Objects) observeWith(uid string, v *corev1.PersistentVolume) *observed.Claim {
	with := *o
	with.index = nil
	with.Volumes = append(slices.DeleteFunc(slices.Clone(o.Volumes), func(other *corev1.PersistentVolume) bool { return other.Name == v.Name }), v)
	if v.Annotations == nil {
		v.Annotations = map[string]string{}
	}
	v.Annotations[contract.ProvisionedBy] = o.Dispatcher.Provisioner
	return with.observe(uid)
}

// volumeFaults are the reasons in a volume and its claim against an adoption.
func (o *Objects) volumeFaults(v *corev1.PersistentVolume) (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	ref := v.Spec.ClaimRef
	if ref == nil || v.Status.Phase != corev1.VolumeBound || v.DeletionTimestamp != nil {
		phase := string(v.Status.Phase)
		if v.DeletionTimestamp != nil {
			phase = "being deleted"
		}
		return []error{fmt.Errorf("it is %s: only a volume that is bound to its claim is adopted", phase)}
	}
	if _, ok := podspec.ClaimUIDOf(v.Name); !ok {
		fault("it is not named pvc-UID, after the UID of a claim: the dispatcher finds volumes by such names, and names cannot be changed")
	}
	claim := o.ClaimNamed(ref.Namespace, ref.Name)
	switch {
	case claim == nil || claim.UID != ref.UID:
		fault("its claim %s/%s with UID %s does not exist", ref.Namespace, ref.Name, ref.UID)
	case claim.DeletionTimestamp != nil:
		fault("its claim %s/%s is being deleted", ref.Namespace, ref.Name)
	case !podspec.Bound(claim, v):
		fault("its claim %s/%s is not bound to it", ref.Namespace, ref.Name)
	}
	if to := v.Annotations["pv.kubernetes.io/migrated-to"]; to != "" {
		fault("Kubernetes has the CSI driver %.64q serve it", to)
	}
	for _, key := range slices.Sorted(maps.Keys(v.Annotations)) {
		switch {
		case strings.HasPrefix(key, contract.Prefix): // the patch that gives the volume back would remove it
			fault("it has the annotation %s: another dispatcher of flex-provisioner made it, or somebody copied it", key)
		case key == corev1.BetaStorageClassAnnotation:
			fault("it has the annotation %s, which stands above spec.storageClassName: remove it", key)
		}
	}
	return faults
}

// sourceFaults are the reasons in a volume's source against an adoption.
func sourceFaults(v *corev1.PersistentVolume) []error {
	kind, place := placeOf(v)
	affinity := v.Spec.NodeAffinity
	switch {
	case kind == "":
		return []error{errors.New("its source is none of nfs, iscsi, fc, hostPath and local")}
	case (kind == "hostPath" || kind == "local") && (affinity == nil || affinity.Required == nil):
		return []error{fmt.Errorf("it is a %s volume without spec.nodeAffinity: nothing says on which node its storage is", kind)}
	case place != "" && path.Clean(pathOf(v)) != pathOf(v):
		return []error{fmt.Errorf("its path %q is not a clean one", place)}
	case strings.ContainsFunc(place, unicode.IsControl): // a script that loses a newline would remove another directory
		return []error{fmt.Errorf("its path %q has a control character", place)}
	}
	return nil
}

// placeOf is the type of a volume's source, and for types with a path the place that is compared with the allow-list.
func placeOf(v *corev1.PersistentVolume) (kind, place string) {
	switch s := v.Spec.PersistentVolumeSource; {
	case s.NFS != nil:
		return "nfs", s.NFS.Server + ":" + s.NFS.Path
	case s.HostPath != nil:
		return "hostPath", s.HostPath.Path
	case s.Local != nil:
		return "local", s.Local.Path
	case s.ISCSI != nil:
		return "iscsi", ""
	case s.FC != nil:
		return "fc", ""
	}
	return "", ""
}

// classFaults says why the observed class cannot adopt the volume.
func (o *Objects) classFaults(s *observed.Claim, v *corev1.PersistentVolume) error {
	switch {
	case s.Class == nil:
		return fmt.Errorf("StorageClass %s does not exist: name one by --class", s.ClassName)
	case s.Class.Provisioner != s.Provisioner:
		return fmt.Errorf("StorageClass %s has provisioner %s: name one of %s by --class", s.ClassName, s.Class.Provisioner, s.Provisioner)
	case s.Config == nil:
		return fmt.Errorf("class %s: %s", s.ClassName, s.ConfigProblem)
	case !s.Config.Expandable && s.Config.Expand == "":
		return fmt.Errorf("ConfigMap %s does not say expandable: only an image that expands can be asked whether it finds the storage", s.Config.Name)
	}
	if o.AllowList == nil {
		return fmt.Errorf("ConfigMap %s cannot be read: it says what the class's pods may do", allowlist.Name)
	}
	kind, place := placeOf(v)
	lines := allowlist.Of(o.AllowList.Data, s.Config.ServiceAccountName)
	lacks := lines.Refuses(s.ClassName, kind, place, v.Spec.MountOptions)
	var faults []error
	if v.Spec.ISCSI != nil && v.Spec.ISCSI.SecretRef != nil {
		secret := v.Spec.ISCSI.SecretRef
		lacks = append(lacks, lines.RefusesSecretOf(secret.Namespace)...)
		if secret.Namespace == o.Dispatcher.Namespace && secret.Name != v.Name {
			faults = append(faults, fmt.Errorf("its Secret %s/%s is not named after it: there lie the credentials of the storage", secret.Namespace, secret.Name))
		}
	}
	for _, lack := range lacks {
		faults = append(faults, fmt.Errorf("data[%s.%s] of ConfigMap %s %s", s.Config.ServiceAccountName, lack.Setting, allowlist.Name, lack.What))
	}
	var roots []string
	for _, root := range lines.Roots(kind, place) {
		roots = append(roots, strings.TrimPrefix(root, strings.TrimSuffix(place, pathOf(v))))
	}
	if err := o.overlap(v, roots); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// Reversal is a JSON merge patch that gives an adopted volume back to its former class. The error says why that is not possible.
func (o *Objects) Reversal(name string) (AdoptedFrom, []byte, error) {
	var from AdoptedFrom
	v := o.VolumeNamed(name)
	if v == nil {
		return from, nil, fmt.Errorf("there is no volume %s", name)
	}
	text, found := v.Annotations[contract.AnnAdoptedFrom]
	switch {
	case !found:
		return from, nil, errors.New("it was not adopted")
	case json.Unmarshal([]byte(text), &from) != nil:
		return from, nil, fmt.Errorf("its annotation %s is no record of an adoption", contract.AnnAdoptedFrom)
	case v.Status.Phase != corev1.VolumeBound || v.DeletionTimestamp != nil:
		return from, nil, errors.New("its claim is gone, and its storage may be removed already")
	}
	if v.Spec.ClaimRef != nil {
		if running, ok := observed.Unfinished(o.observe(string(v.Spec.ClaimRef.UID)).Attempts); ok {
			return from, nil, fmt.Errorf("pod %s works on it: wait until it has ended", running.Pod.Name)
		}
	}
	finalizers := slices.Clone(v.Finalizers)
	if !from.Finalizer {
		finalizers = slices.DeleteFunc(finalizers, func(f string) bool { return f == contract.VolumeFinalizer })
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": v.UID, "resourceVersion": v.ResourceVersion, "finalizers": finalizers, "annotations": map[string]any{
			contract.ProvisionedBy: from.Provisioner, contract.AnnIdentity: nil, contract.AnnRecord: nil, contract.AnnAdoptedFrom: nil, contract.AnnMadeBefore: nil,
		}},
		"spec": map[string]any{"storageClassName": from.StorageClass},
	})
	return from, patch, err
}

// VolumesOfClass lists the names of the volumes of a StorageClass that are not this dispatcher's, sorted.
func (o *Objects) VolumesOfClass(class string) []string {
	return slices.Sorted(slices.Values(namesOf(o.Volumes, func(v *corev1.PersistentVolume) bool {
		return podspec.ClassOf(v) == class && v.Annotations[contract.ProvisionedBy] != o.Dispatcher.Provisioner
	})))
}
