package cache

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unique"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// transformer keeps of each object what somebody here reads, and lets objects share what is the same in many: a cluster
// has fifty thousand bound volumes of a few classes and sizes. Nobody may change an object of a cache, so that sharing
// is safe. Nothing from a cache is written back whole, so that what is missing is not lost: the library and the
// controller patch finalizers and single fields.
//
// Tenants and images write these objects. So the work for an object is linear in its size, and what is shared is either
// weak, as texts are, or in a table of bounded size.
type transformer struct {
	key podspec.RecordKey
	// namespace is that of the pods, which mount claims of it.
	namespace string
	// driver is that of the VolumeAttachments that are served.
	driver string

	sizes internTable[size, corev1.ResourceList]
	maps  internTable[string, map[string]string] // annotations, by a text of all keys and values
}

func (t *transformer) transform(obj any) (any, error) {
	if object, ok := obj.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}

	switch o := obj.(type) {
	case *corev1.Pod:
		t.pod(o)
	case *corev1.PersistentVolumeClaim:
		t.claim(o)
	case *corev1.PersistentVolume:
		t.volume(o)
	case *corev1.Event:
		t.event(o)
	case *appsv1.ControllerRevision:
		saved(o)
	case *storagev1.VolumeAttachment:
		t.attachment(o)
	}

	return obj, nil
}

// saved decodes a saved pod once. Of one that cannot be read nothing is kept: the audit finds it.
func saved(revision *appsv1.ControllerRevision) {
	if _, isPod := revision.Labels[contract.LabelClaimUID]; isPod {
		_ = podspec.DecodeSaved(revision)
	}
}

// event keeps what says why a pod does not start. The API server keeps events for an hour, whatever became of their
// pods.
func (t *transformer) event(e *corev1.Event) {
	kept := corev1.Event{ObjectMeta: metav1.ObjectMeta{
		Namespace: intern(e.Namespace), Name: e.Name, UID: e.UID, ResourceVersion: e.ResourceVersion,
	}}
	if observed.IsStartProblem(e) {
		kept.Reason, kept.Message = intern(e.Reason), podspec.Clip(e.Message, podspec.MaxEvent)
		kept.LastTimestamp = e.LastTimestamp
		kept.InvolvedObject = corev1.ObjectReference{Name: e.InvolvedObject.Name, UID: e.InvolvedObject.UID}
	}

	*e = kept
}

// pod keeps what the attempt and its outcome are read from: the dispatcher's own annotations, among them the request,
// the finalizers, and the status. It keeps no labels. Those of the dispatcher say what the name says, and the others
// are the class's.
func (t *transformer) pod(pod *corev1.Pod) {
	pod.Labels = nil
	pod.Annotations = without(pod.Annotations, func(key string) bool {
		return !strings.HasPrefix(key, contract.Prefix) || key == contract.AnnVolume || key == contract.AnnScript
	})

	for _, key := range []string{contract.AnnClass, contract.AnnConfig} {
		if value, ok := pod.Annotations[key]; ok {
			pod.Annotations[key] = intern(value)
		}
	}

	pod.Namespace = intern(pod.Namespace)
	pod.Finalizers = internAll(pod.Finalizers)
	spec := corev1.PodSpec{
		NodeName: intern(pod.Spec.NodeName), ActiveDeadlineSeconds: pod.Spec.ActiveDeadlineSeconds,
	}
	if spec.NodeName == "" { // which nodes can take it is of interest until one does
		spec.Affinity = pod.Spec.Affinity
		if podspec.OnlyNode(pod) != "" {
			spec.NodeSelector, spec.Tolerations = pod.Spec.NodeSelector, pod.Spec.Tolerations
		}
	}

	pod.Spec = spec

	s := &pod.Status
	pod.Status = corev1.PodStatus{
		Phase: intern(s.Phase), Reason: s.Reason, Message: s.Message, StartTime: s.StartTime, Conditions: s.Conditions,
		InitContainerStatuses: s.InitContainerStatuses, ContainerStatuses: s.ContainerStatuses,
	}
	for _, statuses := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for i, c := range statuses {
			statuses[i] = corev1.ContainerStatus{
				Name: intern(c.Name), State: c.State, LastTerminationState: c.LastTerminationState,
				RestartCount: c.RestartCount, ContainerID: c.ContainerID,
				ImageID: intern(c.ImageID), Image: intern(c.Image),
			}
		}
	}
}

// read are the annotations, beside our own, by which somebody here or the library knows volumes.
var read = []string{contract.ProvisionedBy, contract.AnnCloneOf, contract.AnnCloneRequest,
	corev1.BetaStorageClassAnnotation,
	podspec.Verified, podspec.SourceText, "pv.kubernetes.io/migrated-to"}

func unread(key string) bool {
	return key == contract.AnnClaimUID || // as the volume's name says
		!strings.HasPrefix(key, contract.Prefix) && !slices.Contains(read, key)
}

// readOfClaim are the annotations by which somebody here or the library knows a claim, and readOfWaiting those by
// which they know one that is not bound. The creator of a claim is read from the API server, with all else of a claim
// that a pod is made for.
var (
	readOfClaim   = []string{contract.AnnCloneOf, contract.AnnCloneRequest, corev1.BetaStorageClassAnnotation}
	readOfWaiting = append([]string{
		"volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner",
		observed.AnnSelectedNode, "alpha.kubernetes.io/selected-node"}, readOfClaim...)
)

// anySelector stands for a selector, of which it only counts that there is one.
var anySelector metav1.LabelSelector

// claim keeps what is read of a claim, less of it once the claim is bound. Every tenant can make claims of any class,
// of which this dispatcher hears. So what a claim takes here is bounded, whatever is in it.
func (t *transformer) claim(claim *corev1.PersistentVolumeClaim) {
	bound := claim.Spec.VolumeName != "" && claim.Status.Phase == corev1.ClaimBound
	annotations := readOfWaiting
	if bound {
		claim.UID = tail(claim.Spec.VolumeName, claim.UID)
		annotations = readOfClaim
	}

	claim.ObjectMeta = metav1.ObjectMeta{
		Namespace: intern(claim.Namespace), Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
		CreationTimestamp: claim.CreationTimestamp, DeletionTimestamp: claim.DeletionTimestamp,
		Annotations: t.annotations(clipped(claim.Annotations, annotations)),
	}

	s := claim.Spec
	claim.Spec = corev1.PersistentVolumeClaimSpec{
		VolumeName: clip(s.VolumeName), VolumeAttributesClassName: s.VolumeAttributesClassName,
		VolumeMode: sharedMode(s.VolumeMode), AccessModes: DistinctModes(s.AccessModes),
		Resources: corev1.VolumeResourceRequirements{Requests: t.size(s.Resources.Requests)},
	}
	if class := s.StorageClassName; class != nil {
		claim.Spec.StorageClassName = new(intern(clip(*class)))
	}

	if s.Selector != nil {
		claim.Spec.Selector = &anySelector
	}

	if from := s.DataSource; from != nil {
		claim.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: clipIn(from.APIGroup),
			Kind: clip(from.Kind), Name: clip(from.Name)}
	}

	if from := s.DataSourceRef; from != nil {
		claim.Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: clipIn(from.APIGroup), Kind: clip(from.Kind),
			Name: clip(from.Name), Namespace: clipIn(from.Namespace)}
	}

	claim.Status.Phase = intern(claim.Status.Phase)
	claim.Status.AccessModes = DistinctModes(claim.Status.AccessModes)
	claim.Status.Capacity = t.size(claim.Status.Capacity)
}

// clip shortens a text that is longer than any name, so that it stays a name of nothing.
func clip(text string) string { return podspec.Clip(text, longestName) }

func clipIn(text *string) *string {
	if text == nil {
		return nil
	}

	return new(clip(*text))
}

// longestName in bytes is more than a namespace and a name take.
const longestName = 512

// clipped are those of the annotations that are read, nil for none.
func clipped(all map[string]string, keys []string) map[string]string {
	var kept map[string]string
	for _, key := range keys {
		if value, found := all[key]; found {
			if kept == nil {
				kept = make(map[string]string)
			}

			kept[key] = clip(value)
		}
	}

	return kept
}

// volume loses its source, of which only the kind stays, and where it can be reached from. Who needs them reads the
// volume from the API server. Of the few whose claims pods mount, and of those that no pod made, the source stays as
// text.
func (t *transformer) volume(v *corev1.PersistentVolume) {
	t.key.Mark(v)
	s := &v.Spec
	mounted := s.ClaimRef != nil && s.ClaimRef.Namespace == t.namespace
	if mounted || observed.StorageByHand(v) != "" {
		annotations := maps.Clone(v.Annotations)
		if annotations == nil {
			annotations = map[string]string{}
		}

		annotations[podspec.SourceText] = podspec.MountSource(v)
		v.Annotations = annotations
	}

	s.PersistentVolumeSource = kindOf(s.PersistentVolumeSource)
	s.NodeAffinity, s.MountOptions = nil, nil

	told := podspec.Restored(v) || !podspec.Recorded(v)
	v.Annotations, v.Labels = t.annotations(without(v.Annotations, func(key string) bool {
		// Each volume was made before another time; without that none that is recorded counts as restored.
		return unread(key) || key == contract.AnnMadeBefore && !told
	})), nil

	v.Finalizers = internAll(v.Finalizers)
	s.StorageClassName = intern(s.StorageClassName)
	s.PersistentVolumeReclaimPolicy = intern(s.PersistentVolumeReclaimPolicy)
	s.AccessModes, s.VolumeMode, s.Capacity = DistinctModes(s.AccessModes), sharedMode(s.VolumeMode), t.size(s.Capacity)
	v.Status.Phase = intern(v.Status.Phase)

	if ref := s.ClaimRef; ref != nil {
		s.ClaimRef = &corev1.ObjectReference{
			Namespace: intern(ref.Namespace), Name: ref.Name, UID: tail(v.Name, ref.UID),
		}
	}
}

// kindOf is a source of the same kind with nothing in it.
func kindOf(s corev1.PersistentVolumeSource) (kind corev1.PersistentVolumeSource) {
	switch {
	case s.CSI != nil:
		kind.CSI = &emptySource.csi
	case s.NFS != nil:
		kind.NFS = &emptySource.nfs
	case s.HostPath != nil:
		kind.HostPath = &emptySource.hostPath
	case s.Local != nil:
		kind.Local = &emptySource.local
	case s.ISCSI != nil:
		kind.ISCSI = &emptySource.iscsi
	case s.FC != nil:
		kind.FC = &emptySource.fc
	}

	return kind
}

var emptySource struct {
	csi      corev1.CSIPersistentVolumeSource
	nfs      corev1.NFSVolumeSource
	hostPath corev1.HostPathVolumeSource
	local    corev1.LocalVolumeSource
	iscsi    corev1.ISCSIPersistentVolumeSource
	fc       corev1.FCVolumeSource
}

// tail is the UID as the end of the volume's name, so that both share one text. A UID that does not end the name stays
// as it is.
func tail[UID ~string](volumeName string, uid UID) UID {
	if strings.HasSuffix(volumeName, string(uid)) {
		return UID(volumeName[len(volumeName)-len(uid):])
	}

	return uid
}

// without is what is left of annotations, nil for none. Its keys are interned. The map is not changed: a reflector that
// streams its list transforms objects twice, the second time with what they share by then.
func without(all map[string]string, drop func(key string) bool) map[string]string {
	var rest map[string]string
	for key, value := range all {
		if !drop(key) {
			if rest == nil {
				rest = make(map[string]string)
			}

			rest[intern(key)] = value
		}
	}

	return rest
}

// intern shares a text with equal ones that came since the last collection of garbage: nobody keeps the handle, by
// which package unique knows it for longer.
func intern[T ~string](s T) T {
	if len(s) > longest {
		return s
	}

	return T(unique.Make(string(s)).Value())
}

func internAll(list []string) []string {
	if len(list) == 0 {
		return nil
	}

	shared := make([]string, len(list))
	for i, s := range list {
		shared[i] = intern(s)
	}

	return shared
}

// single are the lists of one access mode, which most claims and volumes have.
var single = map[corev1.PersistentVolumeAccessMode][]corev1.PersistentVolumeAccessMode{
	corev1.ReadWriteOnce: {corev1.ReadWriteOnce}, corev1.ReadOnlyMany: {corev1.ReadOnlyMany},
	corev1.ReadWriteMany: {corev1.ReadWriteMany}, corev1.ReadWriteOncePod: {corev1.ReadWriteOncePod},
}

// manyModes is more access modes than there are.
const manyModes = 8

// DistinctModes are the access modes, each once. The API server takes a list of 40,000 that are all the same.
func DistinctModes(list []corev1.PersistentVolumeAccessMode) []corev1.PersistentVolumeAccessMode {
	var modes []corev1.PersistentVolumeAccessMode
	for _, mode := range list {
		if len(modes) < manyModes && !slices.Contains(modes, mode) {
			modes = append(modes, intern(mode))
		}
	}

	if len(modes) == 1 && single[modes[0]] != nil {
		return single[modes[0]]
	}

	return modes
}

var filesystem, block = corev1.PersistentVolumeFilesystem, corev1.PersistentVolumeBlock

func sharedMode(mode *corev1.PersistentVolumeMode) *corev1.PersistentVolumeMode {
	switch {
	case mode == nil:
		return nil
	case *mode == filesystem:
		return &filesystem
	case *mode == block:
		return &block
	}

	return mode
}

// size is a list of sizes that has the size of the storage alone.
type size struct {
	bytes  int64
	format resource.Format
}

// aSize and aMap are about what a list of one size, and annotations beside their texts, take in bytes.
const aSize, aMap = 700, 350

func (t *transformer) size(list corev1.ResourceList) corev1.ResourceList {
	storage, found := list[corev1.ResourceStorage]
	if !found {
		return nil
	}

	only := list
	if len(list) > 1 {
		only = corev1.ResourceList{corev1.ResourceStorage: storage}
	}

	bytes, whole := storage.AsInt64()
	if !whole {
		return only
	}

	return t.sizes.share(size{bytes, storage.Format}, aSize, only)
}

func (t *transformer) annotations(list map[string]string) map[string]string {
	size := aMap
	for key, value := range list {
		size += len(key) + len(value)
	}

	if len(list) == 0 || size > longest {
		return list
	}

	var all strings.Builder
	for _, key := range slices.Sorted(maps.Keys(list)) {
		fmt.Fprintf(&all, "%d %s%d %s", len(key), key, len(list[key]), list[key])
	}

	return t.maps.share(all.String(), size+all.Len(), list)
}
