// Package observedtest makes observed claims in a few words, for tests of the packages that decide by them.
package observedtest

import (
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// Scene is a cluster in a few words.
type Scene struct {
	// Claim is waiting, bound (to ours), elsewhere, deleting or none, or bound deleting. Default waiting.
	Claim string
	// Volume is empty for none, else words of dispatchertest.Volume. Pods are of dispatchertest.Pod, oldest first.
	Volume string
	Pods   []string
	// Also is unwanted, no-config, new-config, new-properties, new-parameters, node-local, other-provisioner (the
	// class's), uncontained (a policy is missing), another-has (another claim has the volume, and asks for 2Gi), copied
	// (the volume, into a clone), stopped (all deletions), limited (three old volumes are to go, and two may),
	// successor (another claim asks for the volume), just-wanted (for a second), rescheduled (after the last pod); of
	// the claim selector, attributes (a VolumeAttributesClass), selected (a node, and the class waits for the first
	// consumer), selected-early (the class does not wait). Of claim exports, which pods mount: mounted (the class
	// mounts it, and it is nfs://a/e1), moved (it is nfs://a/e2), unmounted (it does not exist), unbound-mount (it
	// waits for its first pod). Of the node of a released volume, where it was asked for: no-node, has-node; gives-up
	// and gives-up-late (the class gives its storage up after 20 minutes, or an hour). The others are for Growth.
	Also string
}

var (
	claimWords = []string{"", "waiting", "bound", "elsewhere", "deleting", "none"}
	alsoWords  = []string{"unwanted", "no-config", "new-config", "new-properties", "new-parameters", "node-local",
		"selected", "selected-early", "selector", "copied",
		"stopped", "limited", "successor", "uncontained", "unable", "deleting", "unbound", "released", "no-volume",
		"other-provisioner", "another-has", "attributes", "rescheduled", "just-wanted",
		"mounted", "moved", "unmounted", "unbound-mount", "no-node", "has-node", "gives-up", "gives-up-late"}
)

func (s Scene) has(word string) bool { return dispatchertest.Has(s.Also, word, alsoWords) }

// Observed is what is known of the claim at dispatchertest.Noon.
func (s Scene) Observed() *observed.Claim {
	f := &observed.Claim{Now: dispatchertest.Noon, UID: dispatchertest.UID, ClassName: "silver",
		Wanted: !s.has("unwanted"), Provisioner: "p", Class: &storagev1.StorageClass{Provisioner: "p"},
		Config: &configmaps.Config{Name: "cm", Digest: "d1", StorageClass: "silver",
			StartTimeout: 5 * time.Minute, NodeLocal: s.has("node-local"),
			Properties:  map[string]string{"zone": "west"},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			VolumeModes: []corev1.PersistentVolumeMode{corev1.PersistentVolumeFilesystem}}}
	if s.has("no-config") {
		f.Config, f.ConfigProblem = nil, "no ConfigMap"
	}

	if s.has("just-wanted") {
		f.WantedSince = dispatchertest.Noon.Add(-time.Second)
	}

	if s.has("new-parameters") {
		f.Class.Parameters = map[string]string{"pool": "b"}
	}

	if s.has("other-provisioner") {
		f.Class.Provisioner = "csi.example.com"
	}

	if s.has("uncontained") {
		f.PoliciesMissing = "a policy is missing"
	}

	if s.has("new-config") || s.has("new-properties") {
		f.Config.Digest = "d2"
	}

	if s.has("new-properties") {
		f.Config.Properties = map[string]string{"zone": "east"}
	}

	if s.has("stopped") {
		f.DeletionsStopped = "ConfigMap ns/stop-deletes stops all deletions"
	}

	for word, after := range map[string]time.Duration{"gives-up": 20 * time.Minute, "gives-up-late": time.Hour} {
		if s.has(word) {
			f.Config.GiveUpAfter = after
		}
	}

	for word, node := range map[string]observed.NodeState{"no-node": observed.NodeGone, "has-node": observed.NodeExists} {
		if s.has(word) {
			f.Node = node
		}
	}

	if s.has("limited") {
		f.DeleteLimit, f.RecentDeletions = 2, 3
	}

	if s.has("copied") {
		f.CopiedBy = "pod ns/prov-clone-0 for claim team-a/clone"
	}

	for word, place := range map[string]observed.Place{"mounted": {Source: "nfs://a/e1"},
		"moved": {Source: "nfs://a/e2"}, "unmounted": {Problem: "claim ns/exports does not exist"},
		"unbound-mount": {Problem: "claim ns/exports is not bound", FirstPod: true}} {
		if s.has(word) && f.Config != nil {
			f.Places = map[string]observed.Place{"exports": place}
			f.Config.MountClaims = []configmaps.ClaimMount{{Claim: "exports", Path: "/export"}}
		}
	}

	f.Claim = s.makeClaim()
	if s.has("selected") {
		wait := storagev1.VolumeBindingWaitForFirstConsumer
		f.Class.VolumeBindingMode = &wait
	}

	if s.Volume != "" {
		f.SetVolume(dispatchertest.Volume(s.Volume))
	}

	if s.has("successor") {
		f.Successor = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "data",
			UID: "later"},
			Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pvc-" + dispatchertest.UID}}
	}

	if s.has("another-has") {
		f.Other = Scene{Claim: "bound"}.makeClaim()
		f.Other.Name, f.Other.UID = "filled", "another"
		f.Other.Spec.Resources.Requests = sizes("2Gi")
		f.Other.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: sizes("1Gi")}
		f.Volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "team-a", Name: "filled", UID: "another"}
		f.Volume.Spec.NFS, f.Config.Expandable = &corev1.NFSVolumeSource{}, true
	}

	for i, words := range s.Pods {
		created, ended := dispatchertest.Noon.Add(time.Duration(i-len(s.Pods))*time.Minute),
			dispatchertest.Noon.Add(-500*time.Millisecond)
		if i < len(s.Pods)-1 {
			ended = created.Add(10 * time.Second)
		}

		pod := dispatchertest.Pod(words, created, ended)
		if a := recorded(observed.NewAttempt(pod, ""), words); slices.Contains(strings.Fields(words), "kept") {
			f.Retained = append(f.Retained, a)
		} else {
			f.Attempts = append(f.Attempts, a)
		}
	}

	if s.has("rescheduled") {
		f.Rescheduled = f.Attempts[len(f.Attempts)-1].Pod.UID
	}

	f.Sort()

	return f
}

// recorded is the attempt with the record that the words say it has.
func recorded(a observed.Attempt, words string) observed.Attempt {
	for word, age := range map[string]time.Duration{"saving": 5 * time.Second, "saved": time.Minute, "gone": time.Minute} {
		if slices.Contains(strings.Fields(words), word) {
			a.Saved = &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
				CreationTimestamp: metav1.NewTime(dispatchertest.Noon.Add(-age))}}
			a.Gone = word == "gone"
		}
	}

	return a
}

func (s Scene) makeClaim() *corev1.PersistentVolumeClaim {
	class := "silver"
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "data",
			UID: dispatchertest.UID, Annotations: map[string]string{}},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class,
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: sizes("1Gi")}},
	}
	if s.has("selected") || s.has("selected-early") {
		claim.Annotations[observed.AnnSelectedNode] = "node1"
	}

	if s.has("selector") {
		claim.Spec.Selector = &metav1.LabelSelector{}
	}

	if s.has("attributes") {
		name := "fast"
		claim.Spec.VolumeAttributesClassName = &name
	}

	has := func(word string) bool { return dispatchertest.Has(s.Claim, word, claimWords) }
	if has("none") {
		return nil
	}

	if has("bound") {
		claim.Spec.VolumeName = "pvc-" + dispatchertest.UID
	}

	if has("elsewhere") {
		claim.Spec.VolumeName = "another"
	}

	if has("deleting") {
		claim.DeletionTimestamp = &metav1.Time{Time: dispatchertest.Noon}
	}

	return claim
}
