//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/cluster"
)

// TestNodesInTrouble: nodes that are full, refuse, are under pressure, have another label than their name, or are gone. What a claim or volume
// waits for is told, and what can be done works. TestStorageOfNodes has a cordoned node.
func TestNodesInTrouble(t *testing.T) {
	if os.Getenv("FLEX_E2E_NODES") == "" {
		t.Skip("takes ten minutes, and nodes for itself: make test-nodes")
	}
	for _, c := range []struct {
		name string
		show func(*scope)
	}{
		{"a script fills its tmp", fillsTmp},
		{"the consumer fills the node", consumerFillsNode},
		{"a node refuses", nodeRefuses},
		{"a node refuses, and the scheduler knows", nodeLeftOut},
		{"a label that is not the name", labelIsNotName},
		{"a full disk", fullDisk},
		{"the node is gone for ever", goneForEver},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := begin(t)
			s.needSpareNodes()
			c.show(s)
		})
	}
}

// makeLocal makes a volume that only pods on the script's node can mount.
const makeLocal = "echo \"nfs: {server: $SERVER, path: $EXPORT/$FOLDER/volumes/$FLEX_PV_NAME}\" | flexctl create-pv --node-affinity self\n"

// localClass is a node-local class of the spare nodes, whose claims wait for their consumers.
func (s *scope) localClass(suffix string, want setting) *class {
	s.Helper()
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	want.terms.VolumeBindingMode = &wait
	data := map[string]string{"node-local": "true"}
	merge(data, want.data)
	want.data = data
	if want.provision == "" {
		want.provision = makeDir + makeLocal
	}
	return s.spareClass(suffix, want)
}

// onNamed makes a pod run on the spare node of that name, whatever its labels are.
func onNamed(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		onSpare("")(p)
		named := corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{named}}}}}}
	}
}

// fillsTmp: the kubelet evicts each attempt, and the delays between them grow.
func fillsTmp(s *scope) {
	class := s.spareClass("a", setting{provision: "head -c 50000000 /dev/zero > /tmp/fill || true\nsleep 300 & wait $!\n"})
	c := class.claim("fills")
	c.told(patient, "ProvisionerEvicted", "*(pod {pod})*")
	const attempts = 4
	s.wait(2*patient, "four attempts", func() string {
		if n := len(shared.ran(contract.Provision, c.UID)); n < attempts {
			return fmt.Sprintf("there were %d", n)
		}
		return ""
	})
	pods := shared.ran(contract.Provision, c.UID)
	for i := 1; i < attempts; i++ {
		ended := endOf(pods[i-1])
		delay, least := pods[i].CreationTimestamp.Sub(ended), time.Second<<(i-1)-time.Second // times are whole seconds
		if ended.IsZero() || delay < least {
			s.Errorf("attempt %d came %s after the end of the one before, at %s; want %s at least", i, delay, ended, least)
		}
	}
}

// endOf is when an evicted pod ended. Of a container that the kubelet does not find any more it says no time.
func endOf(pod *corev1.Pod) time.Time {
	for _, status := range pod.Status.ContainerStatuses {
		if t := status.State.Terminated; t != nil && !t.FinishedAt.IsZero() {
			return t.FinishedAt.Time
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.ContainersReady {
			return condition.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// consumerFillsNode: the pod that uses the claim leaves no room for the one that makes its volume.
func consumerFillsNode(s *scope) {
	node, err := shared.admin.CoreV1().Nodes().Get(s.Context(), "node2", metav1.GetOptions{})
	s.ok(err)
	half := node.Status.Allocatable.Cpu().MilliValue() / 2
	class := s.localClass("a", setting{data: map[string]string{"resources": fmt.Sprintf("{requests: {cpu: %dm}}", half)}})
	asking := func(millis int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			onSpare("node2")(p)
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(millis, resource.DecimalSI)}
		}
	}
	c := class.claim("filled")
	large := c.consumer(shared.admin, asking(half*3/2))
	c.told(patient, "ProvisionerUnschedulable", "*Insufficient cpu*it has to run on node node2, which was selected for the pod that uses the claim: leave room for it there*")

	s.ok(shared.admin.CoreV1().Pods(s.name).Delete(s.Context(), large.Name, metav1.DeleteOptions{}))
	s.finished(c.consumer(shared.admin, asking(half/4)), "hello from filled\n")
	if on := c.ranOn(contract.Provision); on != "node2" {
		s.Errorf("the pods ran on %q", on)
	}
}

// nodeRefuses: the scheduler prefers a node that cannot serve the claim, and does not know why it is asked again.
func nodeRefuses(s *scope) {
	class := s.localClass("a", setting{provision: "[ \"$FLEX_NODE\" != node2 ] || flexctl fail --not-here \"no room on $FLEX_NODE\"\n" + makeDir + makeLocal})
	c := class.claim("refused")
	prefers := c.consumer(shared.admin, onSpare(""), func(p *corev1.Pod) {
		likes := corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"node2"}}
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
			{Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{likes}}}}}}
	})
	c.told(patient, "ProvisionerNotHere", "no room on node2*the scheduler selected node node2 again: keep the pod that uses the claim off it, or let the node serve the claim*")

	s.ok(shared.admin.CoreV1().Pods(s.name).Delete(s.Context(), prefers.Name, metav1.DeleteOptions{}))
	s.finished(c.consumer(shared.admin, onSpare("node3")), "hello from refused\n")
	if on := c.ranOn(contract.Provision); on != "node2 node3" {
		s.Errorf("the pods ran on %q", on)
	}
}

// labelIsNotName: a volume selects its node by the label, and so does the pod that removes its storage.
func labelIsNotName(s *scope) {
	label := func(ctx context.Context, hostname string) error {
		_, err := kubectl(ctx, "label", "--overwrite", "node", "node3", corev1.LabelHostname+"="+hostname)
		return err
	}
	s.later(func(ctx context.Context) error { return label(ctx, "node3") })
	s.ok(label(s.Context(), "third.example.com"))
	c := s.localClass("a", setting{}).claim("labeled")
	s.finished(c.consumer(shared.admin, onNamed("node3")), "hello from labeled\n")
	requires := c.volume().Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]
	if got := fmt.Sprint(requires.Key, requires.Values); got != "kubernetes.io/hostname[third.example.com]" {
		s.Errorf("the volume requires %s", got)
	}
	c.delete()
	c.gone(patient)
	if on := c.ranOn(contract.Delete); on != "node3" {
		s.Errorf("the delete ran on %q", on)
	}
}

// fullDisk: by the kubelet's own threshold. The delete waits, and says for what; then the class may run it all the same.
func fullDisk(s *scope) {
	class := s.localClass("a", setting{data: map[string]string{"flexctl": "in-image"}})
	c := class.claim("full")
	s.finished(c.consumer(shared.admin, onSpare("node2")), "hello from full\n")
	end := s.pressed("node2")
	c.delete()
	s.told(patient, c.volume().UID, "ProvisionerUnschedulable", "the pod has to run on node node2, which does not take it: *untolerated taint*the pod does not tolerate what node node2 has: node.kubernetes.io/disk-pressure:NoSchedule; *give the storage up: kubectl patch pv *")

	class.grant(map[string]string{"privileges": "node-critical"})
	class.edit(map[string]string{"delete-under-pressure": "true"})
	c.gone(2 * patient)
	if on := c.ranOn(contract.Delete); on != "node2" {
		s.Errorf("the deletes ran on %q", on)
	}
	if n := len(shared.ran(contract.Delete, c.UID)); n > 4 {
		s.Errorf("there were %d delete pods", n)
	}
	s.ok(end(s.Context()))
	s.wait(patient, "node2 is as it was", func() string { return s.notReady("node2") })
}

// pressed makes the kubelet of a spare node take its disk for full, until end. It removes images, but for those that are in use: a pod that it
// does not evict uses the one of the scripts.
func (s *scope) pressed(node string) (end func(context.Context) error) {
	s.Helper()
	pods := shared.admin.CoreV1().Pods(metav1.NamespaceSystem)
	holder := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: s.name + "-holder"}, Spec: corev1.PodSpec{PriorityClassName: "system-node-critical",
		Containers: []corev1.Container{{Name: "holder", Image: shellImage, Command: []string{"/bin/sh", "-c", "sleep 3600 & wait $!"}}}}}
	onSpare(node)(holder)
	holder.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	holder, err := pods.Create(s.Context(), holder, metav1.CreateOptions{})
	s.ok(err)
	s.later(func(ctx context.Context) error { return pods.Delete(ctx, holder.Name, metav1.DeleteOptions{}) })
	s.podRuns(holder)

	const threshold, full = "nodefs.available: 1%", "nodefs.available: 99%"
	file := filepath.Join(repository, ".cluster", "state", node, "kubelet.yaml")
	text, err := os.ReadFile(file)
	s.ok(err)
	if !strings.Contains(string(text), threshold) {
		s.Fatalf("%s has no %s", file, threshold)
	}
	restart := func(ctx context.Context, config string) error {
		if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
			return err
		}
		_, err := command(ctx, "test/cluster/ctl.sh", "restart", "kubelet@"+node)
		return err
	}
	ended := false
	end = func(ctx context.Context) error {
		if ended {
			return nil
		}
		ended = true
		if err := restart(ctx, string(text)); err != nil {
			return err
		}
		return cluster.LoadImages(ctx, repository, "*", "--node", node)
	}
	s.later(end)
	s.ok(restart(s.Context(), strings.Replace(string(text), threshold, full, 1)))
	s.wait(patient, "taint of "+node, func() string {
		now, err := shared.admin.CoreV1().Nodes().Get(s.Context(), node, metav1.GetOptions{})
		s.ok(err)
		if slices.ContainsFunc(now.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeDiskPressure }) {
			return ""
		}
		return fmt.Sprintf("it has %v", now.Spec.Taints)
	})
	return end
}

// goneForEver: the class says after how long the storage of such a node is given up.
func goneForEver(s *scope) {
	c := s.localClass("a", setting{data: map[string]string{"give-up-after": "1m"}}).claim("given-up")
	s.finished(c.consumer(shared.admin, onSpare("node2")), "hello from given-up\n")
	s.kill("node2")
	_, err := kubectl(s.Context(), "delete", "node", "node2")
	s.ok(err)
	c.delete()
	uid := c.volume().UID
	s.told(patient, uid, "ProvisionerUnschedulable", "the pod has to run on node node2, which does not take it: *give the storage up: kubectl patch pv "+c.volumeName()+" *")
	s.told(2*patient, uid, "StorageGivenUp", "the volume is deleted without its storage, nfs://*"+c.volumeName()+
		": no Node with kubernetes.io/hostname In (node2) has existed since * (give-up-after); if its disk comes back, remove the storage by hand")
	if !exists(c.directory()) {
		s.Error("the storage is gone, too")
	}
	s.ok(os.RemoveAll(c.directory()))
	c.gone(patient)
	s.powered("node2")
}
