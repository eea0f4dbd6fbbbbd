package podspec

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// savedWithin is how long the creation of a saved pod may take. One that was created later is a copy: somebody restored
// it from a backup, perhaps long after the attempt came to a volume.
const savedWithin = time.Minute

// words are the annotations that are written on a pod after its creation. Those of a saved pod are on its
// ControllerRevision, whose data cannot be changed.
var words = []string{contract.AnnSettled, contract.AnnRetry, contract.AnnAllowDelete, contract.AnnVolumeSeen}

// Words are the annotations of a pod by which the dispatcher and administrators said something about it.
func Words(annotations map[string]string) map[string]string {
	said := map[string]string{}
	for _, key := range words {
		if value, ok := annotations[key]; ok {
			said[key] = value
		}
	}

	return said
}

// SavePod makes the ControllerRevision that keeps the record of an ended pod, so that the pod can go. It has the pod's
// name and finalizer, and of the pod what attempts and their outcomes are read from. now is the API server's time.
func SavePod(pod *corev1.Pod, now time.Time) (*appsv1.ControllerRevision, error) {
	_, uid, _, ok := ParseName(pod.Name)
	if !ok {
		return nil, fmt.Errorf("save pod %s/%s: it is no provisioner pod", pod.Namespace, pod.Name)
	}

	kept := recordOf(pod)
	kept.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}

	data, err := sorted(kept)
	if err != nil {
		return nil, fmt.Errorf("save pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}

	annotations := Words(pod.Annotations)
	annotations[contract.AnnMadeBefore] = now.Add(savedWithin).UTC().Format(time.RFC3339)

	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, Annotations: annotations,
			Labels:     map[string]string{contract.LabelClaimUID: uid},
			Finalizers: []string{contract.PodFinalizer},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: 1,
	}, nil
}

// sorted is the object's JSON with the names in order, as the API server writes it when it applies a strategic patch.
// It compares the data of a ControllerRevision byte by byte, and refuses patches of anything if they differ.
func sorted(object any) ([]byte, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}

	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}

	return json.Marshal(fields)
}

// recordOf is what the dispatcher reads of a pod: its own annotations, the finalizers, the node, and the status.
func recordOf(pod *corev1.Pod) *corev1.Pod {
	annotations := maps.Clone(pod.Annotations)
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		own := strings.HasPrefix(key, contract.Prefix)
		return !own || slices.Contains(words, key) || key == contract.AnnVolume || key == contract.AnnScript
	})

	s := pod.Status

	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			Annotations: annotations, Finalizers: pod.Finalizers,
			CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
		},
		Spec: corev1.PodSpec{
			NodeName: pod.Spec.NodeName, ActiveDeadlineSeconds: pod.Spec.ActiveDeadlineSeconds,
		},
		Status: corev1.PodStatus{
			Phase: s.Phase, Reason: s.Reason, Message: s.Message, StartTime: s.StartTime, Conditions: s.Conditions,
			InitContainerStatuses: s.InitContainerStatuses, ContainerStatuses: s.ContainerStatuses,
		},
	}
}

// DecodeSaved decodes the pod of a ControllerRevision in place, for SavedPod. The error says why there is none. To
// decode one twice changes nothing: a reflector that streams its list transforms objects twice.
func DecodeSaved(revision *appsv1.ControllerRevision) error {
	if SavedPod(revision) != nil {
		return nil
	}

	pod, err := decodeSaved(revision)
	revision.Data = runtime.RawExtension{}
	if err != nil {
		return fmt.Errorf("read ControllerRevision %s/%s: %w", revision.Namespace, revision.Name, err)
	}

	revision.Data.Object = pod

	return nil
}

func decodeSaved(revision *appsv1.ControllerRevision) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(revision.Data.Raw, pod); err != nil {
		return nil, err
	}

	madeBefore, err := time.Parse(time.RFC3339, revision.Annotations[contract.AnnMadeBefore])
	if err != nil {
		return nil, err
	}

	_, uid, _, ok := ParseName(pod.Name)
	same := pod.Namespace == revision.Namespace && pod.Name == revision.Name
	hasLabel := revision.Labels[contract.LabelClaimUID] == uid
	switch {
	case revision.CreationTimestamp.After(madeBefore):
		return nil, errors.New("it was created after it had been made: it was restored from a backup")
	case !ok || !same || !hasLabel || pod.UID == "":
		return nil, errors.New("its data is no provisioner pod of its name and label")
	case !slices.Contains(pod.Finalizers, contract.PodFinalizer) || !OutcomeOf(pod).Final():
		return nil, errors.New("the pod in its data had not ended")
	}

	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}

	maps.Copy(pod.Annotations, Words(revision.Annotations))

	return pod, nil
}

// SavedPod is the pod that DecodeSaved found, or nil.
func SavedPod(revision *appsv1.ControllerRevision) *corev1.Pod {
	pod, _ := revision.Data.Object.(*corev1.Pod)
	return pod
}
