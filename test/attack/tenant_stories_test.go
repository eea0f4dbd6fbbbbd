//go:build e2e

package attack

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/cluster"
	"github.com/flex-provisioner/flex-provisioner/test/request"
)

// claimBy makes a claim as tenant, with "patch" applied to an ordinary one.
func (s *story) claimBy(name string, patch map[string]any) *corev1.PersistentVolumeClaim {
	s.Helper()
	text, err := json.Marshal(request.Merged(map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": map[string]any{"name": name, "namespace": s.tenant},
		"spec": map[string]any{"storageClassName": className, "accessModes": []any{"ReadWriteMany"}, "resources": map[string]any{"requests": map[string]any{"storage": "64Mi"}}},
	}, patch))
	s.ok(err)
	claim := &corev1.PersistentVolumeClaim{}
	s.ok(s.clients["tenant"].CoreV1().RESTClient().Post().Namespace(s.tenant).Resource("persistentvolumeclaims").
		SetHeader("Content-Type", "application/json").Body(text).Do(s.ctx).Into(claim))
	s.Cleanup(func() { s.remove(claim) })
	return claim
}

// refusedClaim makes a claim that the dispatcher has to refuse, in the words of the case, before a pod of it runs.
func refusedClaim(s *story) {
	claim := s.claimBy(s.name, s.object("patch"))
	s.told(claim.UID)
	if pods := s.pods(s.ctx, claim.UID); len(pods) > 0 {
		s.Errorf("went through: pod %s was made", pods[0].Name)
	}
}

// costlyClaim makes a claim with very many access modes and changes it, and looks at what that costs the dispatcher: "seconds"
// of processor time are the limit for all of it.
func costlyClaim(s *story) {
	var modes []any
	for range s.number("modes") {
		modes = append(modes, "ReadWriteMany")
	}
	began := s.metric("process_cpu_seconds_total")
	claim := s.claimBy(s.name, map[string]any{"spec": map[string]any{"accessModes": modes, "storageClassName": s.text("class")}})
	for i := range 3 {
		_, err := s.admin.CoreV1().PersistentVolumeClaims(s.tenant).Patch(s.ctx, claim.Name, types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{"change":"%d"}}}`, i), metav1.PatchOptions{})
		s.ok(err)
	}
	s.served(patient) // by now it has seen all of them
	took := s.metric("process_cpu_seconds_total") - began
	s.Logf("a claim with %d access modes and three changes of it took %.2f s of the dispatcher's processor time", len(modes), took)
	if took > float64(s.number("seconds")) {
		s.Errorf("went through: %.1f s of the dispatcher's processor time, want at most %d", took, s.number("seconds"))
	}
}

// lastingText makes claims with much text of their own, deletes them, and waits until the dispatcher's memory is what it was,
// but for "kibibytes".
func lastingText(s *story) {
	claims := s.clients["tenant"].CoreV1().PersistentVolumeClaims(s.tenant)
	before := s.settledHeap()
	for i := range s.number("claims") {
		claim := s.claimBy(fmt.Sprintf("%s-%d", s.name, i), map[string]any{
			"metadata": map[string]any{"finalizers": longNames(i, s.number("names"))}, "spec": map[string]any{"storageClassName": "attack-none"}})
		s.Cleanup(func() { s.loosen(claim.Name) })
	}
	s.served(patient) // by now it has seen all of them
	for i := range s.number("claims") {
		name := fmt.Sprintf("%s-%d", s.name, i)
		s.ok(claims.Delete(s.ctx, name, metav1.DeleteOptions{}))
		s.loosen(name)
	}
	least := -1.0
	s.await(soon, "its memory is given back", func() string {
		now := s.metric("go_memstats_heap_alloc_bytes")
		if least < 0 || now < least {
			least = now
		}
		if grown := (least - before) / 1024; grown > float64(s.number("kibibytes")) {
			return fmt.Sprintf("the heap had %.0f KiB before and %.0f KiB at least since: %.0f KiB stay, want at most %d", before/1024, least/1024, grown, s.number("kibibytes"))
		}
		return ""
	})
}

// settledHeap is the least that the heap has while its collector runs a few times.
func (s *story) settledHeap() float64 {
	least := s.metric("go_memstats_heap_alloc_bytes")
	for range 100 {
		least = min(least, s.metric("go_memstats_heap_alloc_bytes"))
	}
	return least
}

// loosen takes the finalizers off a claim.
func (s *story) loosen(name string) {
	_, _ = s.admin.CoreV1().PersistentVolumeClaims(s.tenant).Patch(s.ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
}

func longNames(claim, count int) []any {
	var names []any
	for i := range count {
		names = append(names, fmt.Sprintf("attack.example.com/%04d-%06d-%s", claim, i, strings.Repeat("x", 40)))
	}
	return names
}

// poisonedCache takes the stamp away that names claims' creators, and makes a claim whose annotations read like other
// claims'. Another claim has to be served all the same.
func poisonedCache(s *story) {
	for _, args := range [][]string{
		{"delete", "--ignore-not-found", "validatingadmissionpolicybinding", "flex-require-claim-creator"},
		{"delete", "--ignore-not-found", "mutatingadmissionpolicybinding", "flex-stamp-claim-creator"},
	} {
		_, err := cluster.Kubectl(s.ctx, args...)
		s.ok(err)
	}
	// The test's own context has ended when the installation is whole again.
	s.Cleanup(func() {
		ctx := context.Background()
		if _, err := cluster.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-k", cluster.Installation); err != nil {
			s.Error(err)
		}

		if err := s.wait(ctx, patient, func() string { return s.stampIs(ctx, true) }); err != nil {
			s.Errorf("claims are not stamped again, as the next cases need it: %v", err)
		}
	})

	s.await(soon, "no stamp", func() string { return s.stampIs(s.ctx, false) })
	s.claimBy(s.name, s.object("patch"))
	s.served(soon)
}

// stampIs says what keeps a claim from being made with, or without, the stamp that names its creator.
func (s *story) stampIs(ctx context.Context, there bool) string {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: s.name}, Spec: *s.data.Spec.DeepCopy()}
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

	made, err := s.admin.CoreV1().PersistentVolumeClaims(s.victim).Create(ctx, claim, dryRun)
	if err != nil {
		return err.Error()
	}

	if stamped := made.Annotations[contract.AnnCreatedBy] != ""; stamped != there {
		return fmt.Sprintf("that claims are stamped is %t", stamped)
	}
	return ""
}

// turns has one tenant make many claims of a class with max-concurrent, and another one claim. That has to be bound while
// most of the others still wait.
func turns(s *story) {
	class := "attack-turns"
	count := s.number("claims")
	change := func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = &class }
	var mine []*corev1.PersistentVolumeClaim
	for i := range count {
		mine = append(mine, s.claimBy(fmt.Sprintf("%s-%d", s.name, i), map[string]any{"spec": map[string]any{"storageClassName": class}}))
	}
	s.await(patient, "one of them bound", func() string {
		if waiting := s.waiting(mine); waiting == count {
			return fmt.Sprintf("all %d wait", count)
		}
		return ""
	})
	other := s.make(s.victim, change)
	s.await(patient, "the other's claim bound", func() string { return s.notBound(s.ctx, other) })
	waiting := s.waiting(mine)
	s.Logf("when the other's claim was bound %d of %d waited", waiting, count)
	if waiting < s.number("waiting") {
		s.Errorf("went through: %d of the tenant's %d claims wait when the other's is bound, want at least %d", waiting, count, s.number("waiting"))
	}
	s.told(append(uids(mine), other.UID)...)
}

func uids(claims []*corev1.PersistentVolumeClaim) (all []types.UID) {
	for _, c := range claims {
		all = append(all, c.UID)
	}
	return all
}

// waiting is how many of the claims are not bound.
func (s *story) waiting(claims []*corev1.PersistentVolumeClaim) (count int) {
	for _, c := range claims {
		if s.notBound(s.ctx, c) != "" {
			count++
		}
	}
	return count
}
