package podspec_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

const savedUID = "11111111-2222-3333-4444-555555555555"

var savedAt = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// endedPod is a provisioner pod that failed, with more than is kept of it.
func endedPod() *corev1.Pod {
	at := metav1.NewTime(savedAt.Add(-time.Minute).Local())
	deadline := int64(600)

	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "prov-" + savedUID + "-3", UID: "pod-UID", CreationTimestamp: at, DeletionTimestamp: &at,
			Labels: map[string]string{contract.LabelClaimUID: savedUID, "team": "a"}, Finalizers: []string{contract.PodFinalizer},
			Annotations: map[string]string{contract.AnnRequest: "{}", contract.AnnSuspect: "true", contract.AnnVolume: "large",
				contract.AnnScript: "large", "team/note": "x", contract.AnnSettled: "true"},
		},
		Spec: corev1.PodSpec{NodeName: "node1", ActiveDeadlineSeconds: &deadline, ServiceAccountName: "silver"},
		Status: corev1.PodStatus{
			Phase: corev1.PodFailed, Reason: "Evicted", Message: "no room", HostIP: "10.0.0.1", StartTime: &at,
			ContainerStatuses: []corev1.ContainerStatus{{Name: podspec.ContainerName, State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "full", FinishedAt: at}}}},
		},
	}
}

func saved(t *testing.T, pod *corev1.Pod) *appsv1.ControllerRevision {
	t.Helper()
	record, err := podspec.SavePod(pod, savedAt)
	if err != nil {
		t.Fatal(err)
	}

	record.CreationTimestamp = metav1.NewTime(savedAt.Add(time.Second))

	return record
}

// TestSavedPod: what is read of a pod comes back from its record, with what was said on the record since.
func TestSavedPod(t *testing.T) {
	pod := endedPod()
	record := saved(t, pod)
	record.Annotations[contract.AnnRetry] = "true"
	for range 2 { // a reflector that streams its list decodes it twice
		if err := podspec.DecodeSaved(record); err != nil {
			t.Fatal(err)
		}
	}

	back := podspec.SavedPod(record)
	want := endedPod()
	want.Labels, want.Spec.ServiceAccountName, want.Status.HostIP = nil, "", ""
	want.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	want.Annotations = map[string]string{contract.AnnRequest: "{}", contract.AnnSuspect: "true", contract.AnnSettled: "true", contract.AnnRetry: "true"}
	if !equality.Semantic.DeepEqual(back, want) {
		t.Errorf("got %+v\nwant %+v", back, want)
	}

	got, was := podspec.OutcomeOf(back), podspec.OutcomeOf(pod)
	got.Finished, was.Finished = got.Finished.UTC(), was.Finished.UTC()
	if got != was {
		t.Errorf("outcome %+v, want %+v", got, was)
	}
}

// TestSavedPodCountsForNothing: a copy from a backup, and what was not saved of a pod that had ended, is no record.
func TestSavedPodCountsForNothing(t *testing.T) {
	for _, c := range []struct {
		name, want string
		pod        func(*corev1.Pod)
		record     func(*appsv1.ControllerRevision)
	}{
		{name: "restored from a backup", want: "restored from a backup", record: func(r *appsv1.ControllerRevision) {
			r.CreationTimestamp = metav1.NewTime(savedAt.Add(61 * time.Second))
		}},
		{name: "of no known time", want: "cannot parse", record: func(r *appsv1.ControllerRevision) { delete(r.Annotations, contract.AnnMadeBefore) }},
		{name: "of another name", want: "no provisioner pod of its name", record: func(r *appsv1.ControllerRevision) { r.Name = "prov-" + savedUID + "-4" }},
		{name: "of another namespace", want: "no provisioner pod of its name", record: func(r *appsv1.ControllerRevision) { r.Namespace = "other" }},
		{name: "of another claim", want: "no provisioner pod of its name", record: func(r *appsv1.ControllerRevision) { r.Labels[contract.LabelClaimUID] = "x" }},
		{name: "no JSON", want: "invalid character", record: func(r *appsv1.ControllerRevision) { r.Data.Raw = []byte("x") }},
		{name: "a pod that runs", want: "had not ended", pod: func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodRunning} }},
		{name: "a pod without its finalizer", want: "had not ended", pod: func(p *corev1.Pod) { p.Finalizers = nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := endedPod()
			if c.pod != nil {
				c.pod(pod)
			}

			record := saved(t, pod)
			if c.record != nil {
				c.record(record)
			}

			err := podspec.DecodeSaved(record)
			if err == nil || !strings.Contains(err.Error(), c.want) || podspec.SavedPod(record) != nil {
				t.Errorf("error %v, want %q; pod %v", err, c.want, podspec.SavedPod(record))
			}
		})
	}

	if _, err := podspec.SavePod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, savedAt); err == nil {
		t.Error("a pod of another name was saved")
	}
}
