package dispatcher

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// placed reports whether a node without taints has the host name that the pod requires. Otherwise the scheduler says so on the pod.
func (p tenants) placed(pod *corev1.Pod) bool {
	terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for _, node := range apiserver.List[*corev1.Node](p.server, apiserver.Nodes) {
		named := slices.Contains(terms[0].MatchExpressions[0].Values, node.Labels[corev1.LabelHostname])
		if named && len(node.Spec.Taints) == 0 {
			return true
		}
	}

	p.server.Mutate(apiserver.Pods, pod.Namespace, pod.Name, func(o apiserver.Object) {
		o.(*corev1.Pod).Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available", LastTransitionTime: metav1.Now()}}
	})

	return false
}

func (p tenants) node(name, hostname string) {
	p.create(apiserver.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: hostname}}})
}

// TestNodeGone: the node of a volume goes for ever, while the volume's storage is to be removed. The claim's event has the command that gives
// the storage up. Where the class says so, the volume goes without its storage after the time that the class says, whatever becomes of the
// dispatcher meanwhile; but not while the node exists.
func TestNodeGone(t *testing.T) {
	none := func(tenants) {}
	for _, c := range []struct {
		name string
		data map[string]string
		// after five minutes
		then     func(tenants)
		restarts bool
		// the volume is left after nine and a half minutes, and after eleven and a half
		before, after bool
		givenUp       bool
	}{
		{name: "for ever", data: map[string]string{"give-up-after": "10m"}, then: none, before: true, givenUp: true},
		{name: "for ever, with restarts", data: map[string]string{"give-up-after": "10m"}, then: none, restarts: true, before: true, givenUp: true},
		{name: "without a limit", then: none, before: true, after: true},
		{name: "it comes back", data: map[string]string{"give-up-after": "10m"}, then: func(p tenants) { p.node("node1", "node1") }},
		{name: "it comes back with another label", data: map[string]string{"give-up-after": "10m"},
			then: func(p tenants) { p.node("node1", "another") }, before: true, after: true},
		{name: "it comes back with another name", data: map[string]string{"give-up-after": "10m"},
			then: func(p tenants) { p.node("another", "node1") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(p tenants) {
				stop := p.dispatch()
				p.node("node1", "node1")
				p.class("a.local", map[string]string{"node-local": "true", "failed-pod-ttl": "0s"})
				p.edit("a.local", c.data)
				p.claim("data", "a.local")
				p.play(10 * time.Second)
				name := p.onlyVolume().Name
				p.remove(apiserver.Nodes, "", "node1")
				p.remove(apiserver.Claims, "team", "data")
				p.play(5 * time.Minute)

				said := p.said("ProvisionerUnschedulable")
				want := name + ": the pod has to run on node node1, which does not take it: 0/1 nodes are available; its storage is on the node with " +
					"kubernetes.io/hostname In (node1): if that never comes back, give the storage up: kubectl patch pv " + name +
					` --type=merge -p '{"metadata":{"finalizers":null}}' && kubectl delete pv ` + name + " (pod ns/del-" + strings.TrimPrefix(name, "pvc-") + "-0)"
				if len(said) == 0 || said[0] != want {
					t.Errorf("told %q, want %q", said, want)
				}

				c.then(p)
				for range 3 {
					if c.restarts {
						stop()
						stop = p.dispatch()
					}

					p.play(90 * time.Second)
				}

				if left := p.remaining(apiserver.Volumes) > 0; left != c.before {
					t.Errorf("after 9.5 minutes the volume is left: %t", left)
				}

				p.play(2 * time.Minute)
				if left := p.remaining(apiserver.Volumes) > 0; left != c.after {
					t.Errorf("after 11.5 minutes the volume is left: %t", left)
				}

				stop()
				var told []string
				if c.givenUp {
					told = p.said("StorageGivenUp")
					prefix, suffix := name+": the volume is deleted without its storage, local:/data@node1: no Node with kubernetes.io/hostname In (node1) has existed since ",
						" (give-up-after); if its disk comes back, remove the storage by hand"
					if len(told) != 1 || !strings.HasPrefix(told[0], prefix) || !strings.HasSuffix(told[0], suffix) {
						t.Errorf("told %q", told)
					}
				}

				if all := p.said("StorageGivenUp"); len(all) != len(told) {
					t.Errorf("told %q", all)
				}

				if left := p.said("StorageLeftBehind"); len(left) > 0 {
					t.Errorf("told %q", left)
				}

				pods := apiserver.List[*corev1.Pod](p.server, apiserver.Pods)
				if !c.after && len(pods)+len(p.records()) > 0 {
					t.Errorf("left are %+v and %q", pods, p.records())
				}

				if volumes := p.objects(apiserver.Volumes); c.name == "it comes back with another label" && volumes[0].GetAnnotations()[contract.AnnNodeGone] != "" {
					t.Errorf("the volume says %q of its node", volumes[0].GetAnnotations()[contract.AnnNodeGone])
				}
			})
		})
	}
}

// TestTaintNamed: the scheduler does not say for which taint the node of a volume takes no pod, so the event does.
func TestTaintNamed(t *testing.T) {
	inBubble(t, func(p tenants) {
		stop := p.dispatch()
		defer stop()

		p.node("node1", "node1")
		p.class("a.local", map[string]string{"node-local": "true"})
		p.claim("data", "a.local")
		p.play(10 * time.Second)

		p.server.Mutate(apiserver.Nodes, "", "node1", func(o apiserver.Object) {
			o.(*corev1.Node).Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeDiskPressure, Effect: corev1.TaintEffectNoSchedule}}
		})
		p.remove(apiserver.Claims, "team", "data")
		p.play(10 * time.Second)

		const want = ": the pod has to run on node node1, which does not take it: 0/1 nodes are available; the pod does not tolerate what node node1 has: " +
			"node.kubernetes.io/disk-pressure:NoSchedule; its storage is on the node with"
		if said := p.said("ProvisionerUnschedulable"); len(said) != 1 || !strings.Contains(said[0], want) {
			t.Errorf("told %q, want %q", said, want)
		}
	})
}

// TestNodeLabel: a volume selects its node by a label, which may not be the node's name. The provisioner is told the label. Where the node has
// none, the claim is told the node and the remedy before anything is made.
func TestNodeLabel(t *testing.T) {
	for _, c := range []struct{ name, label, want string }{
		{"the name", "node1", ""},
		{"another", "host1.example.com", "host1.example.com"},
		{"none", "", "data: node node1 has no label kubernetes.io/hostname, by which a volume selects it: " +
			"kubectl label node node1 kubernetes.io/hostname=node1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(p tenants) {
				defer p.dispatch()()

				p.node("node1", c.label)
				p.class("a.local", map[string]string{"node-local": "true"})
				wait := storagev1.VolumeBindingWaitForFirstConsumer
				p.server.Mutate(apiserver.Classes, "", "a.local", func(o apiserver.Object) { o.(*storagev1.StorageClass).VolumeBindingMode = &wait })
				p.play(5 * time.Second)
				p.claim("data", "a.local")
				p.server.Mutate(apiserver.Claims, "team", "data", func(o apiserver.Object) {
					o.GetAnnotations()["volume.kubernetes.io/selected-node"] = "node1"
				})
				p.play(20 * time.Second)

				if c.label == "" {
					if said := p.said("ProvisionerUnschedulable"); len(said) != 1 || said[0] != c.want || len(p.ran) > 0 {
						t.Errorf("told %q, want %q; ran %v", said, c.want, p.ran)
					}

					p.server.Mutate(apiserver.Nodes, "", "node1", func(o apiserver.Object) { o.SetLabels(map[string]string{corev1.LabelHostname: "node1"}) })
					p.play(6 * time.Minute)
				}

				pod := p.ran["prov-"+strings.TrimPrefix(p.onlyVolume().Name, "pvc-")+"-0"]
				got := ""
				for _, v := range pod.Spec.Containers[0].Env {
					if v.Name == "FLEX_NODE_HOSTNAME" {
						got = v.Value
					}
				}

				if want := strings.TrimPrefix(c.want, "data: "); c.label != "" && got != want || c.label == "" && got != "" {
					t.Errorf("FLEX_NODE_HOSTNAME is %q", got)
				}
			})
		})
	}
}
