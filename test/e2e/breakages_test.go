//go:build e2e

package e2e

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// waits is what waits in a cluster of which a part is broken: its name, as kubectl flex why takes it, and its UID.
type waits struct {
	name string
	uid  types.UID
}

// TestBreakages breaks parts of Kubernetes. Events and kubectl flex why say what is broken.
func TestBreakages(t *testing.T) {
	if os.Getenv("FLEX_E2E_NODES") == "" {
		t.Skip("takes minutes, and nodes for itself: make test-nodes")
	}
	for _, c := range []struct {
		name   string
		breaks func(*scope) waits
	}{
		{"the kubelet dies while the pod runs", whileRunning("kubelet@node2")},
		{"the runtime dies while the pod runs", whileRunning("containerd@node2")},
		{"the node dies while the pod runs", whileRunning("node2")},
		{"the node dies and is deleted while the pod runs", nodeDeleted},
		{"the kubelet dies before the pod starts", beforeStart("kubelet@node2")},
		{"the runtime dies before the pod starts", beforeStart("containerd@node2")},
		{"the only node is cordoned", cordoned},
		{"the scheduler is away, and the claim waits for nothing", immediately("kube-scheduler")},
		{"the scheduler is away, and the claim waits for its consumer", consumerWithout("kube-scheduler")},
		{"the controller-manager is away", immediately("kube-controller-manager")},
		{"the controller-manager is away, and the claim was made before", whileBinding},
		{"the controller-manager is away, and the claim is deleted", deletedWithout("kube-controller-manager")},
		{"the dispatcher is away", dispatcherAway},
		{"the node of the storage dies", storageNodeDies},
		{"the snapshot-controller is away", snapshotControllerAway},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := begin(t)
			s.needSpareNodes()
			w := c.breaks(s)
			s.discover(w)
		})
	}
}

func (s *scope) discover(w waits) {
	s.Helper()
	began := time.Now()
	seen := map[string]bool{}
	last := ""
	for time.Since(began) < 80*time.Second {
		for _, e := range eventsOn(w.uid) {
			if line := e.Type + " " + e.Reason + ": " + e.Message; !seen[line] {
				seen[line] = true
				s.Logf("EVENT %5.1f s %s", time.Since(began).Seconds(), line)
			}
		}
		out, code := s.flex(kubeconfig(), "why", w.name, "-n", s.name)
		lines := strings.Split(out, "\n")
		kept := ""
		for _, l := range lines {
			if strings.HasPrefix(l, "Cause") || strings.HasPrefix(l, "Next") || strings.HasPrefix(l, "State") {
				kept += " | " + l
			}
		}
		if kept == "" {
			kept = out
		}
		if kept != last {
			last = kept
			s.Logf("WHY   %5.1f s code %d %s", time.Since(began).Seconds(), code, kept)
		}
		time.Sleep(2 * time.Second)
	}
}

func of(c *claim) waits { return waits{c.Name, c.UID} }

func onNode2(s *scope, want setting) *class {
	if want.data == nil {
		want.data = map[string]string{}
	}
	want.data["node-selector"] = corev1.LabelHostname + "=node2"
	return s.spareClass("a", want)
}

func whileRunning(component string) func(*scope) waits {
	return func(s *scope) waits {
		c := onNode2(s, setting{provision: makeDir + gate + makeVolume}).claim("running")
		c.atGate()
		s.later(func(context.Context) error { c.class.open(contract.Provision, c.volumeName()); return nil })
		s.kill(component)
		return of(c)
	}
}

func nodeDeleted(s *scope) waits {
	w := whileRunning("node2")(s)
	_, err := kubectl(s.Context(), "delete", "node", "node2")
	s.ok(err)
	return w
}

func beforeStart(component string) func(*scope) waits {
	return func(s *scope) waits {
		class := onNode2(s, setting{})
		s.kill(component)
		return of(class.claim("starting"))
	}
}

func cordoned(s *scope) waits {
	s.later(func(ctx context.Context) error { _, err := kubectl(ctx, "uncordon", "node2"); return err })
	_, err := kubectl(s.Context(), "cordon", "node2")
	s.ok(err)
	return of(onNode2(s, setting{}).claim("cordoned"))
}

func immediately(component string) func(*scope) waits {
	return func(s *scope) waits {
		class := s.class("a", setting{})
		s.kill(component)
		return of(class.claim("immediate"))
	}
}

func consumerWithout(component string) func(*scope) waits {
	return func(s *scope) waits {
		wait := storagev1.VolumeBindingWaitForFirstConsumer
		class := s.class("a", setting{terms: storagev1.StorageClass{VolumeBindingMode: &wait}})
		s.kill(component)
		c := class.claim("consumed")
		c.consumer(shared.admin)
		return of(c)
	}
}

func whileBinding(s *scope) waits {
	class := s.class("a", setting{provision: gate + makeDir + makeVolume})
	c := class.claim("binding")
	s.running(contract.Provision, []*claim{c})
	s.kill("kube-controller-manager")
	class.open(contract.Provision, c.volumeName())
	return of(c)
}

func deletedWithout(component string) func(*scope) waits {
	return func(s *scope) waits {
		c := s.class("a", setting{}).claim("deleted")
		c.bound(patient)
		s.kill(component)
		c.delete()
		return waits{c.volumeName(), c.volume().UID}
	}
}

func dispatcherAway(s *scope) waits {
	class := s.class("a", setting{})
	scale := func(ctx context.Context, n string) error {
		_, err := kubectl(ctx, "-n", contract.SystemNamespace, "scale", "deployment/flex-provisioner", "--replicas", n)
		return err
	}
	s.later(func(ctx context.Context) error { return scale(ctx, "1") })
	s.ok(scale(s.Context(), "0"))
	c := class.claim("alone")
	s.T.Cleanup(func() { _ = scale(context.Background(), "1") })
	return of(c)
}

func storageNodeDies(s *scope) waits {
	c := s.localClass("a", setting{}).claim("stored")
	s.finished(c.consumer(shared.admin, onSpare("node2")), "hello from stored\n")
	s.kill("node2")
	c.delete()
	return waits{c.volumeName(), c.volume().UID}
}

func snapshotControllerAway(s *scope) waits {
	s.needSnapshots()
	class := s.scriptClass("a", "")
	c := class.claim("snapshotted")
	c.bound(patient)
	of := s.snapshotClass("of", snapshotv1.VolumeSnapshotContentDelete)
	s.kill("snapshot-controller")
	o := c.snapshot("taken", of)
	return waits{o.Name, o.UID}
}
