package dispatcher

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// csiNode is a node that has flex-node.
func (p tenants) csiNode(name string) {
	p.create(apiserver.CSINodes, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: "other.example.com", NodeID: "other"}, {Name: contract.SnapshotDriver("p"), NodeID: "connector of " + name}}}})
}

// attachTo is what Kubernetes does when a pod with the claim is to run on the node.
func (p tenants) attachTo(node, claim string) string {
	volume, name := p.claimNamed(claim).Spec.VolumeName, "csi-"+node+"-"+claim
	p.create(apiserver.Attachments, &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: contract.SnapshotDriver("p"), NodeName: node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}}})

	return name
}

func (p tenants) attachment(name string) *storagev1.VolumeAttachment {
	va, _ := apiserver.Get[*storagev1.VolumeAttachment](p.server, apiserver.Attachments, "", name)
	return va
}

// attaches is what a pod that attaches or detaches comes to: its exit code. One for a node whose name says so fails twice,
// or is killed once.
func (p tenants) attaches(pod *corev1.Pod) int32 {
	request, err := podspec.RequestOf(pod)
	if err != nil {
		p.t.Fatal(err)
	}

	of := request.Attachment
	if of.Connector != "connector of "+of.Node {
		p.t.Errorf("%s of node %s: the connector is %q", request.Operation, of.Node, of.Connector)
	}

	switch {
	case strings.HasPrefix(of.Node, "troubled") && request.Attempt < 2:
		return 1
	case strings.HasPrefix(of.Node, "killing") && request.Attempt == 0:
		return 137
	}

	if request.Operation == contract.Attach {
		p.server.Mutate(apiserver.Attachments, "", of.Name, func(o apiserver.Object) {
			o.(*storagev1.VolumeAttachment).Status.AttachmentMetadata = map[string]string{"paths": "to " + request.VolumeName}
		})
	}

	return 0
}

// attached makes a claim of a class that attaches, and of one that does not.
func (p tenants) attached() {
	p.class("silver.attached", map[string]string{"attach": "true", "detach": "true"})
	p.class("silver.loop", nil)
	p.play(5 * time.Second)
	p.claim("data", "silver.attached")
	p.claim("file", "silver.loop")
	p.play(time.Minute)
}

// TestAttachment: a pod attaches the volume to the node, and another one detaches it, also from a node that is gone, and
// also if attempts fail. Kubernetes sees why.
func TestAttachment(t *testing.T) {
	for _, node := range []string{"node1", "troubled1"} {
		t.Run(node, func(t *testing.T) {
			inBubble(t, func(p tenants) {
				p.ran = map[string]*corev1.Pod{}
				stop := p.dispatch()
				defer stop()

				p.attached()
				p.csiNode(node)
				name := p.attachTo(node, "data")
				p.play(time.Second)
				p.play(time.Minute)

				va := p.attachment(name)
				volume := p.claimNamed("data").Spec.VolumeName
				if !va.Status.Attached || va.Status.AttachError != nil || va.Status.AttachmentMetadata["paths"] != "to "+volume {
					t.Fatalf("the attachment is %+v; events: %q", va.Status, apiserver.Told(p.server))
				}

				if !slices.Equal(va.Finalizers, []string{contract.AttachmentFinalizer}) {
					t.Errorf("the finalizers are %q", va.Finalizers)
				}

				p.remove(apiserver.CSINodes, "", node)
				p.remove(apiserver.Attachments, "", name)
				p.play(time.Minute)
				if va := p.attachment(name); va != nil {
					t.Errorf("the attachment is left: %+v; events: %q", va, apiserver.Told(p.server))
				}

				want := []string{"attach", "detach", "provision", "provision"}
				if node != "node1" {
					want = []string{"attach", "attach", "attach", "detach", "detach", "detach", "provision", "provision"}
				}

				if got := p.operations(); !slices.Equal(got, want) {
					t.Errorf("pods ran to %q, want %q", got, want)
				}

				p.play(2 * time.Minute)
				if pods := apiserver.List[*corev1.Pod](p.server, apiserver.Pods); len(pods) > 0 {
					t.Errorf("%d pods are left, as %s", len(pods), pods[0].Name)
				}
			})
		})
	}
}

// TestAttachmentOfLoop: nobody has to let a node reach an image.
func TestAttachmentOfLoop(t *testing.T) {
	inBubble(t, func(p tenants) {
		p.ran = map[string]*corev1.Pod{}
		stop := p.dispatch()
		defer stop()

		p.attached()
		name := p.attachTo("node1", "file")
		p.play(5 * time.Second)
		if va := p.attachment(name); !va.Status.Attached || len(va.Finalizers) > 0 {
			t.Errorf("the attachment is %+v, with the finalizers %q", va.Status, va.Finalizers)
		}

		p.remove(apiserver.Attachments, "", name)
		p.play(5 * time.Second)
		if got, want := p.operations(), []string{"provision", "provision"}; !slices.Equal(got, want) {
			t.Errorf("pods ran to %q, want %q", got, want)
		}
	})
}

// TestAttachmentWaits: what keeps a node from the volume is said in the status within ten seconds, and ends by itself.
func TestAttachmentWaits(t *testing.T) {
	inBubble(t, func(p tenants) {
		stop := p.dispatch()
		defer stop()

		p.attached()
		name := p.attachTo("node1", "data")
		p.play(10 * time.Second)

		const want = "node node1: its CSINode has no driver p: see that flex-node runs there"
		if va := p.attachment(name); va.Status.AttachError == nil || va.Status.AttachError.Message != want {
			t.Errorf("the status is %+v, want the error %q", va.Status, want)
		}

		if told := apiserver.Told(p.server); !slices.ContainsFunc(told, func(e string) bool { return strings.Contains(e, want) }) {
			t.Errorf("no event says so: %q", told)
		}

		p.csiNode("node1")
		p.play(20 * time.Second)
		if va := p.attachment(name); !va.Status.Attached {
			t.Errorf("the status is %+v", va.Status)
		}
	})
}

// TestAttachmentUnneeded: Kubernetes takes its order back before the volume is attached. A pod that may have attached it is
// followed by one that detaches.
func TestAttachmentUnneeded(t *testing.T) {
	inBubble(t, func(p tenants) {
		p.ran = map[string]*corev1.Pod{}
		stop := p.dispatch()
		defer stop()

		p.attached()
		p.csiNode("troubled1")
		name := p.attachTo("troubled1", "data")
		p.play(2 * time.Second)
		p.remove(apiserver.Attachments, "", name)
		p.play(2 * time.Minute)
		if va := p.attachment(name); va != nil {
			t.Errorf("the attachment is left: %+v", va)
		}

		got := p.operations()
		if !slices.Contains(got, "attach") || !slices.Contains(got, "detach") {
			t.Errorf("pods ran to %q", got)
		}
	})
}

// TestRemovalAfterDetach: the storage of a volume that a node still has is not removed.
func TestRemovalAfterDetach(t *testing.T) {
	for _, claim := range []string{"data", "file"} {
		t.Run(claim, func(t *testing.T) {
			inBubble(t, func(p tenants) {
				p.ran = map[string]*corev1.Pod{}
				stop := p.dispatch()
				defer stop()

				p.attached()
				p.csiNode("node1")
				name := p.attachTo("node1", claim)
				p.play(10 * time.Second)
				p.remove(apiserver.Claims, "team", claim)
				p.play(time.Minute)
				if got := p.operations(); slices.Contains(got, "delete") {
					t.Errorf("pods ran to %q beside the attachment", got)
				}

				const want = "the volume is attached to node node1"
				if told := apiserver.Told(p.server); !slices.ContainsFunc(told, func(e string) bool { return strings.Contains(e, want) }) {
					t.Errorf("no event says so: %q", told)
				}

				p.remove(apiserver.Attachments, "", name)
				p.play(time.Minute)
				if got := p.operations(); !slices.Contains(got, "delete") {
					t.Errorf("pods ran to %q after the attachment", got)
				}
			})
		})
	}
}

// TestAttachmentForced: somebody takes the finalizer off while detaches fail. They go on until one has succeeded.
func TestAttachmentForced(t *testing.T) {
	for name, others := range map[string][]string{"gone": nil, "kept by others": {"example.com/backup"}} {
		t.Run(name, func(t *testing.T) { forced(t, others) })
	}
}

func forced(t *testing.T, others []string) {
	inBubble(t, func(p tenants) {
		p.ran = map[string]*corev1.Pod{}
		stop := p.dispatch()
		defer stop()

		p.attached()
		p.csiNode("troubled1")
		name := p.attachTo("troubled1", "data")
		p.play(time.Minute)
		p.remove(apiserver.Attachments, "", name)
		for !slices.Contains(p.operations(), "detach") {
			p.play(time.Second)
		}

		p.server.Mutate(apiserver.Attachments, "", name, func(o apiserver.Object) { o.SetFinalizers(others) })
		p.play(time.Minute)
		if len(others) > 0 {
			p.server.Mutate(apiserver.Attachments, "", name, func(o apiserver.Object) { o.SetFinalizers(nil) })
			p.play(time.Minute)
		}

		want := []string{"attach", "attach", "attach", "detach", "detach", "detach", "provision", "provision"}
		if got := p.operations(); !slices.Equal(got, want) {
			t.Errorf("pods ran to %q, want %q", got, want)
		}

		p.play(2 * time.Minute)
		if pods := apiserver.List[*corev1.Pod](p.server, apiserver.Pods); len(pods) > 0 {
			t.Errorf("%d pods are left, as %s", len(pods), pods[0].Name)
		}
	})
}

// TestAttachmentLate: what a killed attempt asked for may come a minute later. Nothing that it would spoil comes before.
func TestAttachmentLate(t *testing.T) {
	inBubble(t, func(p tenants) {
		p.ran = map[string]*corev1.Pod{}
		stop := p.dispatch()
		defer stop()

		p.attached()
		p.csiNode("killing1")
		name := p.attachTo("killing1", "data")
		p.play(10 * time.Second)
		if va := p.attachment(name); !va.Status.Attached {
			t.Fatalf("the status is %+v", va.Status)
		}

		p.remove(apiserver.Attachments, "", name)
		p.play(40 * time.Second)
		if got := p.operations(); slices.Contains(got, "detach") {
			t.Errorf("pods ran to %q within a minute of a killed attach", got)
		}

		p.play(40 * time.Second)
		want := []string{"attach", "attach", "detach", "detach", "provision", "provision"}
		if got := p.operations(); !slices.Equal(got, want) || p.attachment(name) == nil {
			t.Errorf("pods ran to %q, want %q; the attachment is %+v", got, want, p.attachment(name))
		}

		p.play(time.Minute)
		if va := p.attachment(name); va != nil {
			t.Errorf("the attachment is left: %+v", va)
		}
	})
}

// TestAttachmentAgain: somebody takes the finalizer off, and Kubernetes wants the volume on the node again. What the first
// order has left to do does not undo that.
func TestAttachmentAgain(t *testing.T) {
	inBubble(t, func(p tenants) {
		p.ran = map[string]*corev1.Pod{}
		stop := p.dispatch()
		defer stop()

		p.attached()
		p.csiNode("troubled1")
		name := p.attachTo("troubled1", "data")
		p.play(time.Minute)
		p.remove(apiserver.Attachments, "", name)
		for !slices.Contains(p.operations(), "detach") {
			p.play(time.Second)
		}

		p.server.Mutate(apiserver.Attachments, "", name, func(o apiserver.Object) { o.SetFinalizers(nil) })
		p.attachTo("troubled1", "data")
		p.play(2 * time.Minute)
		if va := p.attachment(name); !va.Status.Attached {
			t.Errorf("the status is %+v", va.Status)
		}

		want := []string{"attach", "attach", "attach", "attach", "attach", "attach", "detach", "provision", "provision"}
		if got := p.operations(); !slices.Equal(got, want) {
			t.Errorf("pods ran to %q, want %q", got, want)
		}

		if pods := apiserver.List[*corev1.Pod](p.server, apiserver.Pods); len(pods) > 0 {
			t.Errorf("%d pods are left, as %s", len(pods), pods[0].Name)
		}
	})
}
