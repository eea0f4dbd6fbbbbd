package dispatcher

import (
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// lean keeps of what the caches hold what somebody here reads, and lets objects share what is the same in many: a cluster
// has fifty thousand bound volumes of a few classes and sizes. Nobody may change what came from a cache, so that sharing
// is safe; and nothing from a cache is written back whole, so that what is missing is not lost: the library and the
// dispatcher patch finalizers and single annotations.
type lean struct {
	key    podspec.RecordKey
	shared sync.Map
}

func (l *lean) transform(obj any) (any, error) {
	if object, ok := obj.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	switch o := obj.(type) {
	case *corev1.Pod:
		l.pod(o)
	case *corev1.PersistentVolumeClaim:
		l.claim(o)
	case *corev1.PersistentVolume:
		l.volume(o)
	case *corev1.Event:
		l.event(o)
	}
	return obj, nil
}

// event keeps what troubles read. The API server keeps events for an hour, whatever became of their pods.
func (l *lean) event(e *corev1.Event) {
	kept := corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: l.text(e.Namespace), Name: e.Name, UID: e.UID, ResourceVersion: e.ResourceVersion}}
	if startEvents[e.Reason] {
		kept.Reason, kept.Message = l.text(e.Reason), e.Message
		kept.InvolvedObject = corev1.ObjectReference{Name: e.InvolvedObject.Name, UID: e.InvolvedObject.UID}
	}
	*e = kept
}

// pod keeps the record and the outcome. Request and config of the attempt are read from its annotations, the rest of the
// spec is the kubelet's business.
func (l *lean) pod(pod *corev1.Pod) {
	delete(pod.Annotations, contract.AnnVolume)
	delete(pod.Annotations, contract.AnnScript)
	for _, key := range []string{contract.AnnClass, contract.AnnConfig} {
		if value, ok := pod.Annotations[key]; ok {
			pod.Annotations[key] = l.text(value)
		}
	}
	pod.Namespace = l.text(pod.Namespace)
	pod.Finalizers = l.texts(pod.Finalizers)
	pod.Spec = corev1.PodSpec{NodeName: l.text(pod.Spec.NodeName), ActiveDeadlineSeconds: pod.Spec.ActiveDeadlineSeconds}
	s := &pod.Status
	pod.Status = corev1.PodStatus{Phase: corev1.PodPhase(l.text(string(s.Phase))), Reason: s.Reason, Message: s.Message, StartTime: s.StartTime,
		Conditions: s.Conditions, InitContainerStatuses: s.InitContainerStatuses, ContainerStatuses: s.ContainerStatuses}
	for _, statuses := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for i, c := range statuses {
			statuses[i] = corev1.ContainerStatus{Name: l.text(c.Name), State: c.State, LastTerminationState: c.LastTerminationState,
				RestartCount: c.RestartCount, ContainerID: c.ContainerID, ImageID: l.text(c.ImageID), Image: l.text(c.Image)}
		}
	}
}

// read are the annotations, beside our own, by which somebody here or the library knows bound claims and their volumes.
var read = []string{contract.ProvisionedBy, contract.AnnCloneOf, contract.AnnCloneRequest, corev1.BetaStorageClassAnnotation,
	podspec.Verified, "pv.kubernetes.io/migrated-to"}

// rare says that a waiting claim's annotation is not one of those that Kubernetes gives to all of a class.
func rare(key string) bool {
	return key != "volume.kubernetes.io/storage-provisioner" && key != "volume.beta.kubernetes.io/storage-provisioner" && key != annSelectedNode
}

func unread(key string) bool {
	return key == contract.AnnClaimUID || // as the volume's name says
		!strings.HasPrefix(key, contract.Prefix) && !slices.Contains(read, key)
}

// claim is left whole until it is bound, but shares what it can.
func (l *lean) claim(claim *corev1.PersistentVolumeClaim) {
	claim.Annotations = without(claim.Annotations, func(key string) bool { return key == corev1.LastAppliedConfigAnnotation })
	if claim.Spec.VolumeName != "" && claim.Status.Phase == corev1.ClaimBound {
		claim.UID = tail(claim.Spec.VolumeName, claim.UID)
		claim.Annotations = without(claim.Annotations, unread)
		claim.Labels = nil
	} else if !slices.ContainsFunc(slices.Collect(maps.Keys(claim.Annotations)), rare) {
		claim.Annotations = l.pairs(claim.Annotations)
	}
	claim.Namespace = l.text(claim.Namespace)
	claim.Status.Phase = corev1.PersistentVolumeClaimPhase(l.text(string(claim.Status.Phase)))
	claim.Finalizers = l.texts(claim.Finalizers)
	if class := claim.Spec.StorageClassName; class != nil {
		claim.Spec.StorageClassName = of(l, "class/"+*class, class)
	}
	claim.Spec.AccessModes, claim.Status.AccessModes = l.modes(claim.Spec.AccessModes), l.modes(claim.Status.AccessModes)
	claim.Spec.VolumeMode = l.mode(claim.Spec.VolumeMode)
	claim.Spec.Resources.Requests = l.sizes(claim.Spec.Resources.Requests)
	claim.Status.Capacity = l.sizes(claim.Status.Capacity)
}

// volume loses its source, of which only the kind stays, and where it can be reached from. Who needs them reads the
// volume from the API server.
func (l *lean) volume(v *corev1.PersistentVolume) {
	l.key.Mark(v)
	s := &v.Spec
	s.PersistentVolumeSource = kindOf(s.PersistentVolumeSource)
	s.NodeAffinity, s.MountOptions = nil, nil
	restored := podspec.Restored(v)
	v.Annotations, v.Labels = l.pairs(without(v.Annotations, func(key string) bool {
		// Each volume was made before another time; without that none counts as restored.
		return unread(key) || key == contract.AnnMadeBefore && !restored
	})), nil
	v.Finalizers = l.texts(v.Finalizers)
	s.StorageClassName = l.text(s.StorageClassName)
	s.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimPolicy(l.text(string(s.PersistentVolumeReclaimPolicy)))
	s.AccessModes, s.VolumeMode, s.Capacity = l.modes(s.AccessModes), l.mode(s.VolumeMode), l.sizes(s.Capacity)
	v.Status.Phase = corev1.PersistentVolumePhase(l.text(string(v.Status.Phase)))
	if ref := s.ClaimRef; ref != nil {
		s.ClaimRef = &corev1.ObjectReference{Namespace: l.text(ref.Namespace), Name: ref.Name, UID: tail(v.Name, ref.UID)}
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

// tail is the UID as the end of a volume's name, which it nearly always is, so that both are one text.
func tail[UID ~string](volumeName string, uid UID) UID {
	if strings.HasSuffix(volumeName, string(uid)) {
		return UID(volumeName[len(volumeName)-len(uid):])
	}
	return uid
}

// of is the first value that came with the key. Keys are few: classes, sizes, modes, namespaces, images.
func of[V any](l *lean, key string, value V) V {
	if known, ok := l.shared.Load(key); ok {
		return known.(V)
	}
	known, _ := l.shared.LoadOrStore(strings.Clone(key), value)
	return known.(V)
}

func (l *lean) text(s string) string {
	if s == "" {
		return ""
	}
	return of(l, s, s)
}

func (l *lean) texts(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return of(l, "list/"+strings.Join(list, "\x00"), slices.Clip(list))
}

func (l *lean) modes(list []corev1.PersistentVolumeAccessMode) []corev1.PersistentVolumeAccessMode {
	key := "modes/"
	for _, mode := range list {
		key += string(mode) + "\x00"
	}
	return of(l, key, slices.Clip(list))
}

func (l *lean) mode(mode *corev1.PersistentVolumeMode) *corev1.PersistentVolumeMode {
	if mode == nil {
		return nil
	}
	return of(l, "mode/"+string(*mode), mode)
}

func (l *lean) sizes(list corev1.ResourceList) corev1.ResourceList {
	key := "sizes/"
	for _, name := range slices.Sorted(maps.Keys(list)) {
		quantity := list[name]
		key += string(name) + "=" + quantity.String() + "\x00"
	}
	return of(l, key, list)
}

// without is what is left of the annotations, nil for none. They are not changed: a reflector that streams its list
// transforms objects twice, the second time with what they share by then.
func without(annotations map[string]string, drop func(key string) bool) map[string]string {
	var rest map[string]string
	for key, value := range annotations {
		if !drop(key) {
			if rest == nil {
				rest = make(map[string]string, len(annotations))
			}
			rest[key] = value
		}
	}
	return rest
}

// pairs are few where they hold class, provisioner, config and identity.
func (l *lean) pairs(annotations map[string]string) map[string]string {
	if len(annotations) == 0 {
		return nil
	}
	key := "pairs/"
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		key += name + "=" + annotations[name] + "\x00"
	}
	return of(l, key, annotations)
}
