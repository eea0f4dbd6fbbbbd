// Package dispatchertest makes claims, volumes and pods in a few words, for tests of the dispatcher's packages.
package dispatchertest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// UID is the claim's.
const UID = "11111111-2222-3333-4444-555555555555"

var (
	// Noon is when all happens.
	Noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	// Key signs records.
	Key = podspec.RecordKey(bytes.Repeat([]byte{1}, podspec.MinRecordKey))
)

// Mounts are what a pod has of claim exports, which is nfs://a/e1.
const Mounts = `[{"claim":"exports","source":"nfs://a/e1","path":"/export"}]`

// Has reports whether the words have this one. Words that are not known panic: a misspelled one would say nothing.
func Has(words, word string, known []string) bool {
	fields := strings.Fields(words)
	for _, w := range fields {
		if !slices.Contains(known, w) {
			panic(fmt.Sprintf("no such word: %q; there are %q", w, known))
		}
	}

	return slices.Contains(fields, word)
}

// Volume is pvc-UID of class silver and claim team-a/data, an hour old. Words: fits (says nothing), small, misclassed,
// stray (another claim's), unclaimed, bare (without finalizers and annotations), unprotected (without finalizers);
// bound, released, available, unreclaimed (kube-controller-manager failed to), deleting; retain; foreign (another
// provisioner made it); restored (from a backup), old (more than a day), young (two seconds), allowed (its deletion); forged (a pod wrote
// another identity than the dispatcher signed), garbled (one that is no JSON), unsigned (the class's own), trusted (by
// an administrator); placed (its record says that it was made with claim exports of nfs://a/e1); node-gone (for half an hour, it says),
// node-of-another (as it says of an earlier volume), node-gone-early (from before the volume).
func Volume(words string) *corev1.PersistentVolume {
	has := func(word string) bool {
		return Has(words, word, []string{"fits", "small", "misclassed", "stray", "unclaimed", "bare", "bound",
			"released", "available", "unreclaimed", "deleting", "retain", "restored", "old", "young", "allowed",
			"forged", "garbled", "unsigned", "trusted", "foreign", "unprotected", "placed",
			"node-gone", "node-of-another", "node-gone-early"})
	}
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + UID, UID: "volume-UID",
			Finalizers:  []string{contract.VolumeFinalizer},
			Annotations: map[string]string{contract.ProvisionedBy: "p", podspec.Verified: "true"}},
		Spec: corev1.PersistentVolumeSpec{StorageClassName: "silver",
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			ClaimRef:                      &corev1.ObjectReference{Namespace: "team-a", Name: "data", UID: UID}},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumePending},
	}
	if has("small") {
		v.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("1Mi")
	}

	if has("misclassed") {
		v.Spec.StorageClassName = "gold"
	}

	if has("deleting") {
		v.DeletionTimestamp = &metav1.Time{Time: Noon}
	}

	if has("stray") {
		v.Spec.ClaimRef.UID = "another"
	}

	v.CreationTimestamp.Time = Noon.Add(-time.Hour)
	v.Annotations[contract.AnnMadeBefore] = "2026-11-21T11:30:00Z"
	annotate(v.Annotations, has, []annotation{
		{"restored", contract.AnnMadeBefore, "2026-11-21T10:30:00Z"},
		{"allowed", contract.AnnAllowDelete, "true"},
		{"placed", contract.AnnMounts, Mounts},
		{"trusted", contract.AnnRecord, contract.RecordTrusted},
		{"node-gone", contract.AnnNodeGone, "volume-UID/2026-11-21T11:30:00Z"},
		{"node-of-another", contract.AnnNodeGone, "earlier-volume/2026-11-21T11:30:00Z"},
		{"node-gone-early", contract.AnnNodeGone, "volume-UID/2026-11-20T10:00:00Z"},
		{"foreign", contract.ProvisionedBy, "csi.example.com"},
	})
	switch {
	case has("old"):
		v.CreationTimestamp.Time = Noon.Add(-25 * time.Hour)
	case has("young"):
		v.CreationTimestamp.Time = Noon.Add(-2 * time.Second)
		v.Annotations[contract.AnnMadeBefore] = "2026-11-21T12:30:00Z"
	}

	for word, identity := range map[string]string{"forged": `{"properties":{"zone":"mine"}}`, "garbled": "{",
		"unsigned": `{"properties":{"zone":"west"}}`} {
		if has(word) {
			v.Annotations[contract.AnnIdentity] = identity
			delete(v.Annotations, podspec.Verified)
		}
	}

	if has("bare") {
		v.Finalizers, v.Annotations = nil, nil
	}

	if has("unprotected") {
		v.Finalizers = nil
	}

	if has("unclaimed") {
		v.Spec.ClaimRef = nil
	}

	if has("retain") {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	}

	for word, phase := range map[string]corev1.PersistentVolumePhase{"bound": corev1.VolumeBound,
		"released": corev1.VolumeReleased, "available": corev1.VolumeAvailable, "unreclaimed": corev1.VolumeFailed} {
		if has(word) {
			v.Status.Phase = phase
		}
	}

	return v
}

// annotation is what a word stands for.
type annotation struct{ word, key, value string }

func annotate(annotations map[string]string, has func(word string) bool, all []annotation) {
	for _, a := range all {
		if has(a.word) {
			annotations[a.key] = a.value
		}
	}
}

// exitCodes are those of containers that ended in a state.
var exitCodes = map[string]int32{"done": 0, "failed": 1, "refused": contract.ExitRefused,
	"nothere": contract.ExitNotHere, "busy": contract.ExitTryAgain, "killed": 137}

// Pod is "prov-0 STATE", with STATE one of pending, unschedulable, pulling, running, hanging (past its deadline),
// done, failed, refused, nothere, busy, evicted, killed, unstarted; then words: old (created an hour ago), ahead or
// behind (its node's clock, by an hour), suspect, late (one before it was killed half a minute ago), for-node1 or
// for-node2 (bound to it), full (no node took it), early (an undo that was ordered before the attempts ended), undo
// (a delete without a volume), misfit (a delete for an unfit volume), other (a delete of an earlier volume), seen (a
// volume was seen beside it),
// deleting, lost (deleted two minutes ago, and its node is gone), kept (its outcome has been acted on), retry (an
// administrator asked for the next attempt), allowed or refused-delete (an administrator's answer about what it
// made), placed (it had claim exports of nfs://a/e1). For observedtest: saving and saved (it is being deleted, and
// its record is five seconds or a minute old), gone (saved, and it does not exist).
func Pod(words string, created, ended time.Time) *corev1.Pod {
	fields := strings.Fields(words)
	has := func(word string) bool {
		return Has(strings.Join(fields[2:], " "), word,
			[]string{"old", "early", "ahead", "behind", "suspect", "late", "for-node1", "for-node2", "full", "undo",
				"misfit", "other", "deleting", "lost", "kept", "retry", "allowed", "refused-delete", "placed", "seen", "saving", "saved", "gone"})
	}
	prefix, number, _ := strings.Cut(fields[0], "-")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns",
		Name: prefix + "-" + UID + "-" + number, UID: types.UID(fields[0]),
		CreationTimestamp: metav1.Time{Time: created}, Finalizers: []string{contract.PodFinalizer},
		Annotations: map[string]string{contract.AnnConfig: "cm/1@d1",
			contract.AnnRequest: `{"properties":{"zone":"west"}}`, contract.AnnVolumeUID: "volume-UID"}}}
	pod.Spec.NodeName = "node1"
	if has("old") {
		pod.CreationTimestamp.Time = Noon.Add(-time.Hour)
	}

	switch { // the node's clock
	case has("ahead"):
		ended = ended.Add(time.Hour)
	case has("behind"):
		ended = ended.Add(-time.Hour)
	}

	if prefix == "del" && !has("early") { // an early undo was ordered before the attempts ended
		pod.Annotations[contract.AnnUndoes] = "prov-0,prov-1,prov-2,prov-3,prov-4,prov-5"
	}

	annotate(pod.Annotations, has, []annotation{
		{"suspect", contract.AnnSuspect, "true"},
		{"late", contract.AnnSuspect, Noon.Add(30 * time.Second).Format(time.RFC3339)}, // one was killed half a minute ago
		{"for-node1", contract.AnnNode, "node1"},
		{"for-node2", contract.AnnNode, "node2"},
		{"undo", contract.AnnVolumeUID, ""},
		{"misfit", contract.AnnUndo, "true"},
		{"seen", contract.AnnVolumeSeen, "volume-UID"},
		{"other", contract.AnnVolumeUID, "earlier-volume"},
		{"allowed", contract.AnnAllowDelete, "true"},
		{"refused-delete", contract.AnnAllowDelete, "false"},
		{"placed", contract.AnnRequest, `{"properties":{"zone":"west"},"mounts":` + Mounts + `}`},
		{"retry", contract.AnnRetry, "true"},
	})

	if has("deleting") || has("saving") || has("saved") || has("gone") {
		pod.DeletionTimestamp = &metav1.Time{Time: Noon}
	}

	if has("lost") { // its node is gone, and it was deleted a while ago
		pod.DeletionTimestamp = &metav1.Time{Time: Noon.Add(-2 * time.Minute)}
	}

	state := corev1.ContainerState{}
	end := func(code int32) {
		pod.Status.Phase = corev1.PodFailed
		if code == 0 {
			pod.Status.Phase = corev1.PodSucceeded
		}

		state.Terminated = &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.Time{Time: ended}}
	}
	pod.Status.Phase = corev1.PodPending
	switch fields[1] {
	case "pending":
	case "unschedulable":
		pod.Spec.NodeName = ""
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Message: "0/1 nodes"}}
	case "pulling":
		state.Waiting = &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}
	case "hanging": // past its deadline
		pod.Spec.ActiveDeadlineSeconds, pod.Status.StartTime = new(int64), &metav1.Time{Time: Noon.Add(-time.Second)}
		pod.Status.Phase = corev1.PodRunning
		state.Running = &corev1.ContainerStateRunning{}
	case "running":
		pod.Status.Phase = corev1.PodRunning
		state.Running = &corev1.ContainerStateRunning{}
	case "evicted":
		end(137)
		pod.Status.Reason = "Evicted"
	case "unstarted":
		pod.Spec.NodeName = ""
		if has("full") {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
				Message: "0/1 nodes"}}
		}

		pod.DeletionTimestamp = &metav1.Time{Time: Noon}
	default:
		code, known := exitCodes[fields[1]]
		if !known {
			panic("no such state: " + words)
		}

		end(code)
	}

	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: podspec.ContainerName, Image: "i", State: state}}

	return pod
}
