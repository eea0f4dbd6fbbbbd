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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// waits is what waits in a cluster of which a part is broken: its name, as kubectl flex why takes it, and its UID.
type waits struct {
	name string
	uid  types.UID
}

// TestBreakages breaks parts of Kubernetes. An event, or kubectl flex why, says what is broken within ten seconds from
// when the API server shows it.
func TestBreakages(t *testing.T) {
	if os.Getenv("FLEX_E2E_NODES") == "" {
		t.Skip("takes minutes, and nodes for itself: make test-nodes")
	}
	const notReady = "node node2 is not ready"
	for _, c := range []struct {
		name   string
		breaks func(*scope) waits
		says   string
		shown  func(*scope) string // says what lacks until the API server shows what is broken; nil if it does at once
	}{
		{"the kubelet dies while the pod runs", whileRunning("kubelet@node2"), notReady, node2NotReady},
		{"the runtime dies while the pod runs", whileRunning("containerd@node2"), notReady, node2NotReady},
		{"the node dies while the pod runs", whileRunning("node2"), notReady, node2NotReady},
		{"the node dies and is deleted while the pod runs", nodeDeleted, "node no longer exists", podGone},
		{"the kubelet dies before the pod starts", beforeStart("kubelet@node2"), "the kubelet of node node2 has said nothing", node2NotReady},
		{"the runtime dies before the pod starts", beforeStart("containerd@node2"), "containerd.sock: connect: connection refused", nil},
		{"the only node is cordoned", cordoned, "node.kubernetes.io/unschedulable", nil},
		{"the scheduler is away, and the claim waits for nothing", immediately("kube-scheduler"), "the scheduler has said nothing of the pod", nil},
		{"the scheduler is away, and the claim waits for its consumer", consumerWithout("kube-scheduler"), "uses the claim, and the scheduler has said nothing of it", nil},
		{"the controller-manager is away", immediately("kube-controller-manager"), "kube-controller-manager does so", nil},
		{"the controller-manager is away, and the claim was made before", whileBinding, "see whether kube-controller-manager runs", nil},
		{"the controller-manager is away, and the claim is deleted", deletedWithout("kube-controller-manager"), "see whether kube-controller-manager runs", nil},
		{"the dispatcher is away", dispatcherAway, "no dispatcher holds the Lease", nil},
		{"the node of the storage dies", storageNodeDies, notReady, node2NotReady},
		{"the snapshot-controller is away", snapshotControllerAway, "the snapshot-controller has not put its finalizer", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := begin(t)
			s.wait(patient, "the node of the breakage before is back", func() string { return first(spareNodes, s.notReady) })
			w := c.breaks(s)
			broken := time.Now()
			if c.shown != nil {
				s.wait(patient, "what is broken is shown", func() string { return c.shown(s) })
			}
			s.named(w, c.says, broken)
		})
	}
}

// node2NotReady says what lacks until the API server shows that node2 is not ready.
func node2NotReady(s *scope) string {
	node, err := shared.admin.CoreV1().Nodes().Get(s.Context(), "node2", metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return ""
		}
	}
	return "node2 is ready"
}

// podGone says what lacks until Kubernetes has removed the pods of a node that does not exist any more.
func podGone(s *scope) string {
	for _, pod := range s.pods() {
		if pod.Status.Phase != corev1.PodFailed {
			return pod.Name + " is " + string(pod.Status.Phase)
		}
	}
	return ""
}

// knownWithin is how long events and plugin may take to say what the API server shows. asking is what a look by the
// plugin takes on a busy machine.
const knownWithin, asking = 10 * time.Second, 3 * time.Second

// named waits until an event on what waits, or what kubectl flex why says of it, has the words.
func (s *scope) named(w waits, words string, broken time.Time) {
	s.Helper()
	var said string
	after := s.wait(8*knownWithin, "what is broken is named "+words, func() string {
		said = showEvents(eventsOn(w.uid))
		if !strings.Contains(said, words) {
			said, _ = s.flex(kubeconfig(), "why", w.name, "-n", s.name)
		}
		if !strings.Contains(said, words) {
			return said + showEvents(eventsOn(w.uid))
		}
		return ""
	})
	s.Logf("%.1f s after the breakage, %.1f s after the API server shows it: %s",
		time.Since(broken).Seconds(), after.Seconds(), said)
	if after > knownWithin+asking {
		s.Errorf("%q is said after %s, want %s", words, after, knownWithin)
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
		s.Cleanup(func() { c.class.open(contract.Provision, c.volumeName()) })
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
	s.Cleanup(func() {
		if err := scale(context.Background(), "1"); err != nil {
			s.Error(err)
		}
	})
	s.ok(scale(s.Context(), "0"))
	return of(class.claim("alone"))
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
	return waits{"vs/" + o.Name, o.UID}
}
