//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// TestDispatcherKilled kills the dispatcher while ten pods run. Half of them end while no dispatcher runs, half when it
// is there again. The same then for the ten pods that delete.
func TestDispatcherKilled(t *testing.T) {
	s := begin(t)
	class := s.class("a", setting{provision: gate + "mkdir \"$dir\"\nchmod 0777 \"$dir\"\n" + makeVolume, remove: gate + "rmdir \"$dir\"\n"})
	var claims []*claim
	for i := range 10 {
		claims = append(claims, class.claim(fmt.Sprintf("claim-%d", i)))
	}
	s.killWhile(contract.Provision, claims)
	s.wait(patient, "10 claims bound", func() string { return first(claims, (*claim).unbound) })
	s.wait(patient, "10 pods acted on", func() string { return first(claims, (*claim).busy) })
	for _, c := range claims {
		c.delete()
	}
	s.killWhile(contract.Delete, claims)
	s.wait(patient, "10 claims gone", s.left)
	for _, c := range claims {
		c.ran(contract.Provision, 1)
		c.ran(contract.Delete, 1)
	}
	runs := class.runs()
	slices.Sort(runs)
	if len(runs) != 20 || len(slices.Compact(runs)) != 20 {
		t.Errorf("%d runs of scripts, %d of them different: want 20\n%v", len(runs), len(slices.Compact(runs)), runs)
	}
}

// TestBrokenConfigOutlivesDispatcher breaks a ConfigMap and kills the dispatcher. Claims and deletions go on with what the ConfigMap said
// before, and so does the next dispatcher, which says that it does.
func TestBrokenConfigOutlivesDispatcher(t *testing.T) {
	s := begin(t)
	s.freshDispatcher()
	class := s.class("a", setting{data: map[string]string{"zone": "west"}})
	class.claim("before").bound(soon)
	served := func(name, zone string) {
		s.Helper()
		c := class.claim(name)
		c.bound(patient)
		if got := class.env(contract.Provision, c.volumeName())["ZONE"]; got != zone {
			t.Errorf("the pod of claim %s saw zone %q, want %s", name, got, zone)
		}
		c.delete()
		c.gone(patient)
	}
	outdated := fmt.Sprintf("flex_provisioner_config_outdated{class=%q}", class.name)
	uid := class.edit(map[string]string{"zone": "east", "timeout": "never"})
	s.told(soon, uid, "ConfigOutdated", fmt.Sprintf("class %q runs on version * of ConfigMap %s, the last valid one; version * has no effect until what is wrong is corrected", class.name, class.id))
	served("broken", "west")
	was := holder()
	s.ok(killed(t.Context(), s.leader()))
	s.newLeader(was)
	served("after", "west")
	if got := s.metric(outdated); got != "1" {
		t.Errorf("the metric of the class is %q", got)
	}
	class.edit(map[string]string{"timeout": ""})
	s.wait(soon, "the ConfigMap in force", func() string {
		if got := s.metric(outdated); got != "0" {
			return "the metric is " + got
		}
		return ""
	})
	served("mended", "east")
}

// killWhile kills the dispatcher while a pod of every claim waits at its gate.
func (s *scope) killWhile(operation contract.Operation, claims []*claim) {
	s.Helper()
	s.running(operation, claims)
	leader, was := s.leader(), holder()
	s.ok(killed(s.Context(), leader))
	for _, c := range claims[:5] {
		c.class.open(operation, c.volumeName())
	}
	took := s.newLeader(was)
	s.Logf("the dispatcher was killed while ten %s pods ran; another process led after %.1f s", operation, took.Seconds())
	for _, c := range claims[5:] {
		c.class.open(operation, c.volumeName())
	}
}

// busy says that a provisioner pod of the claim is there.
func (c *claim) busy() string {
	for _, p := range c.livePods() {
		return fmt.Sprintf("pod %s is %s", p.Name, p.Status.Phase)
	}
	return ""
}
