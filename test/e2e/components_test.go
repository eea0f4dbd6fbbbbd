//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// ctl kills and starts components of the cluster.
func (s *scope) ctl(args ...string) {
	s.Helper()
	_, err := command(s.Context(), append([]string{"test/cluster/ctl.sh"}, args...)...)
	s.ok(err)
}

// kill ends components by SIGKILL, and sees to it that they run again when the test ends, whatever becomes of it.
func (s *scope) kill(components ...string) {
	s.Helper()
	for _, component := range components {
		s.Cleanup(func() {
			if _, err := command(context.Background(), "test/cluster/ctl.sh", "pid", component); err != nil {
				if _, err := command(context.Background(), "test/cluster/ctl.sh", "start", component); err != nil {
					s.Errorf("start %s: %v", component, err)
				}
			}
		})
		s.ctl("kill", component)
	}
}

// newDispatcher replaces the dispatcher after a test in which it lost its Lease, which ends it with exit code 1: what
// looks for crashes after all tests would take that for one.
func newDispatcher(ctx context.Context) error {
	for _, verb := range []string{"restart", "status"} {
		if _, err := kubectl(ctx, "-n", contract.SystemNamespace, "rollout", verb, "deployment/flex-provisioner"); err != nil {
			return err
		}
	}
	return nil
}

// freshDispatcher replaces the dispatcher before it is killed: with each kill of a container the kubelet waits longer until it starts it
// again.
func (s *scope) freshDispatcher() {
	s.Helper()
	s.ok(newDispatcher(s.Context()))
	s.rolledOut()
}

// TestComponentsKilled kills parts of Kubernetes by SIGKILL while two pods provision and two delete, lets these go on
// meanwhile, and starts the parts again. Everything comes to its end, and nothing runs twice.
func TestComponentsKilled(t *testing.T) {
	for _, c := range []struct {
		name       string
		components []string
		// goesOn says that pods reach the API server while the components are dead.
		goesOn bool
	}{
		{"kubelet", []string{"kubelet"}, true},
		{"API server", []string{"kube-apiserver"}, false},
		{"etcd", []string{"etcd"}, false},
		{"everything but the node's containers", []string{"kubelet", "kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := begin(t)
			s.later(newDispatcher)
			class := s.class("a", setting{provision: gate + makeDir + makeVolume, remove: gate + "rmdir \"$dir\"\n"})
			old := []*claim{class.claim("old-0"), class.claim("old-1")}
			for _, claim := range old {
				class.open(contract.Provision, claim.volumeName())
				claim.bound(patient)
				claim.delete()
			}
			made := []*claim{class.claim("new-0"), class.claim("new-1")}
			s.running(contract.Delete, old)
			s.running(contract.Provision, made)

			s.kill(c.components...)
			for i := range 2 {
				class.open(contract.Delete, old[i].volumeName())
				class.open(contract.Provision, made[i].volumeName())
			}
			s.wait(patient, "scripts go on", func() string {
				for i := range 2 {
					if exists(old[i].directory()) || !exists(made[i].directory()) {
						return "they wait"
					}
				}
				return ""
			})
			if c.goesOn {
				s.wait(patient, "claims bound all the same", func() string { return first(made, (*claim).unbound) })
			}
			for _, component := range slices.Backward(c.components) {
				s.ctl("start", component)
			}
			took := s.wait(2*patient, "claims bound", func() string { return first(made, (*claim).unbound) })
			s.wait(2*patient, "claims gone", func() string { return first(old, (*claim).left) })
			s.wait(patient, "pods acted on", func() string { return first(made, (*claim).busy) })
			t.Logf("bound %.1f s after the start of the %s", took.Seconds(), c.name)
			for i := range 2 {
				old[i].ran(contract.Delete, 1)
				// An API server that has just started may forbid what it will allow a second later: then a second pod follows.
				if c.goesOn {
					made[i].ran(contract.Provision, 1)
				}
			}
			class.once()
			if n := len(class.volumes()); n != len(made) {
				t.Errorf("there are %d pieces of storage for %d claims", n, len(made))
			}
			for _, claim := range made {
				class.open(contract.Delete, claim.volumeName())
			}
		})
	}
}

// running waits until a pod of the operation runs for every claim.
func (s *scope) running(operation contract.Operation, claims []*claim) {
	s.Helper()
	s.wait(patient, fmt.Sprintf("%s pods run", operation), func() string {
		return first(claims, func(c *claim) string {
			for _, p := range c.livePods() {
				if p.Labels[contract.LabelOperation] == string(operation) && p.Status.Phase == corev1.PodRunning {
					return ""
				}
			}
			return "no pod runs for claim " + c.Name
		})
	})
}

// once fails if a script of the class ran twice in a pod of one name.
func (c *class) once() {
	c.s.Helper()
	runs := c.runs()
	slices.Sort(runs)
	if n := len(runs); len(slices.Compact(runs)) != n {
		c.s.Errorf("a script ran twice: %v", runs)
	}
}

// TestTwoDispatchers installs a second dispatcher. The other one takes over when the leading one is cut off from the API server, and when
// it is killed.
func TestTwoDispatchers(t *testing.T) {
	s := begin(t)
	gated := s.class("a", setting{provision: gate + "mkdir \"$dir\"\nchmod 0777 \"$dir\"\n" + makeVolume, remove: "rmdir \"$dir\"\n"})
	plain := s.class("b", setting{})
	_, err := kubectl(t.Context(), "apply", "--server-side", "--force-conflicts", "-k", "deploy/overlays/ha")
	s.ok(err)
	s.later(oneDispatcher)
	s.later(newDispatcher)
	_, err = kubectl(t.Context(), "-n", contract.SystemNamespace, "rollout", "status", "deployment/flex-provisioner", "--timeout=90s")
	s.ok(err)
	s.twoReady()
	s.cutOff(gated)
	s.twoReady()
	s.takenOver(plain)
}

func (s *scope) twoReady() {
	s.Helper()
	s.wait(patient, "two dispatchers", func() string {
		if n := len(dispatchers()); n != 2 {
			return fmt.Sprintf("%d are ready", n)
		}
		return ""
	})
}

// cutOff cuts the leading dispatcher off from the API server, while two pods run and until another one leads. The one that was cut off
// makes nothing meanwhile or afterwards that would be made twice.
func (s *scope) cutOff(class *class) {
	s.Helper()
	claims := []*claim{class.claim("claim-0"), class.claim("claim-1")}
	s.running(contract.Provision, claims)
	cut, was := s.leader(), holder()
	address := cut.Status.PodIP + "/32"
	mend := func() {
		_, _ = command(context.Background(), "test/cluster/enter.sh", "ip", "route", "del", "blackhole", address)
	}
	s.Cleanup(mend)
	_, err := command(s.Context(), "test/cluster/enter.sh", "ip", "route", "add", "blackhole", address)
	s.ok(err)
	later := class.claim("meanwhile")
	class.open(contract.Provision, claims[0].volumeName())
	took := s.wait(patient, "another leads", func() string {
		if holder() == was || holder() == "" || strings.HasPrefix(holder(), cut.Name+"_") {
			return "the Lease is held by " + holder()
		}
		return ""
	})
	s.Logf("another led %.1f s after the cut", took.Seconds())
	s.running(contract.Provision, []*claim{later})
	mend()
	class.open(contract.Provision, claims[1].volumeName())
	class.open(contract.Provision, later.volumeName())
	all := append(claims, later)
	s.wait(patient, "claims bound", func() string { return first(all, (*claim).unbound) })
	s.wait(patient, "pods acted on", func() string { return first(all, (*claim).busy) })
	for _, c := range all {
		c.ran(contract.Provision, 1)
		c.delete()
	}
	s.wait(patient, "claims gone", s.left)
	for _, c := range all {
		c.ran(contract.Delete, 1)
	}
	class.once()
}

// takenOver kills the dispatcher that leads, until another one does.
func (s *scope) takenOver(class *class) {
	s.Helper()
	leader := s.leader()
	// Killed once, its container is back before the Lease ends and may win it. Each time the kubelet waits longer.
	for range 3 {
		was := holder()
		s.ok(killed(s.Context(), s.leader()))
		took := s.newLeader(was)
		s.Logf("%s led after %.1f s", holder(), took.Seconds())
		if s.leader().UID != leader.UID {
			break
		}
	}
	if s.leader().UID == leader.UID {
		s.Errorf("%s still leads", leader.Name)
	}
	class.claim("the-other-leads").bound(patient)
}

// TestUninstalled: without a dispatcher volumes cannot be deleted, until the commands of docs/operations.md have been run;
// their storage stays.
func TestUninstalled(t *testing.T) {
	s := begin(t)
	c := s.class("a", setting{}).claim("data")
	c.bound(soon)
	s.wait(patient, "pods acted on", c.busy)
	scale := func(ctx context.Context, replicas int) error {
		if _, err := kubectl(ctx, "-n", contract.SystemNamespace, "scale", "deployment/flex-provisioner", fmt.Sprintf("--replicas=%d", replicas)); err != nil {
			return err
		}
		_, err := kubectl(ctx, "-n", contract.SystemNamespace, "rollout", "status", "deployment/flex-provisioner", "--timeout=90s")
		return err
	}
	s.Cleanup(func() {
		if err := scale(context.Background(), 1); err != nil {
			t.Error(err)
		}
	})
	s.ok(scale(t.Context(), 0))
	s.wait(patient, "no dispatcher", func() string {
		if left := all(shared.pods, isDispatcher); len(left) > 0 {
			return left[0].Name + " is there"
		}
		return ""
	})
	c.delete()
	_, err := kubectl(t.Context(), "delete", "pv", c.volumeName(), "--wait=false")
	s.ok(err)
	s.wait(patient, "claim gone", c.present)
	if v := c.volume(); v == nil || !slices.Contains(v.Finalizers, contract.VolumeFinalizer) {
		t.Fatalf("the volume does not wait for a dispatcher: %v", v)
	}
	s.follow(s.commands("docs/operations.md", "## Removing it")[0])
	s.wait(patient, "volume gone", c.left)
	if !exists(c.directory()) {
		t.Error("its storage is gone")
	}
	s.ok(os.RemoveAll(c.directory()))
}
