package dispatcher

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// TestFailedVolume: kube-controller-manager sets a volume Failed that lacks provisioned-by when its claim is deleted, and never changes that.
// With the annotation its storage is removed like that of a Released one.
func TestFailedVolume(t *testing.T) {
	inBubble(t, func(p tenants) {
		removals := p.removals()
		defer p.dispatch()()

		p.class("silver", nil)
		p.claim("data", "silver")
		p.play(5 * time.Second)
		p.editVolume(func(v *corev1.PersistentVolume) { delete(v.Annotations, contract.ProvisionedBy) })
		p.remove(apiserver.Claims, "team", "data")
		p.server.Mutate(apiserver.Claims, "team", "data", func(o apiserver.Object) { o.SetFinalizers(nil) })
		p.editVolume(func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeFailed })
		time.Sleep(time.Minute)
		if got := removals(); len(got) > 0 {
			t.Errorf("storage of a volume of nobody is removed by %q", got)
		}

		p.editVolume(func(v *corev1.PersistentVolume) { v.Annotations[contract.ProvisionedBy] = "p" })
		time.Sleep(10 * time.Second)
		if got := removals(); len(got) != 1 {
			t.Errorf("storage is removed by %q", got)
		}
	})
}

// TestCopiedVolume: the storage of a claim that is deleted stays until the pod has ended that copies it.
func TestCopiedVolume(t *testing.T) {
	inBubble(t, func(p tenants) {
		removals := p.removals()
		defer p.dispatch()()

		p.class("silver", nil)
		p.server.Mutate(apiserver.Classes, "", "silver", func(o apiserver.Object) {
			o.(*storagev1.StorageClass).Parameters = map[string]string{contract.ParameterSmartClone: "true"}
		})
		p.claim("data", "silver")
		p.play(5 * time.Second)
		p.claim("copy", "silver")
		p.server.Mutate(apiserver.Claims, "team", "copy", func(o apiserver.Object) {
			o.(*corev1.PersistentVolumeClaim).Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "data"}
		})
		time.Sleep(5 * time.Second)
		copying := apiserver.List[*corev1.Pod](p.server, apiserver.Pods)
		if len(copying) != 1 {
			t.Fatalf("%d pods", len(copying))
		}

		p.remove(apiserver.Claims, "team", "data")
		p.server.Mutate(apiserver.Claims, "team", "data", func(o apiserver.Object) { o.SetFinalizers(nil) })
		p.bind(p.onlyVolume())
		time.Sleep(30 * time.Second)
		if got := removals(); len(got) > 0 {
			t.Errorf("storage that is copied is removed by %q", got)
		}

		if said := p.said("CloneRunning"); len(said) != 1 || !strings.Contains(said[0], copying[0].Name) {
			t.Errorf("said %q", said)
		}

		p.run(copying[0])
		time.Sleep(10 * time.Second)
		if got := removals(); len(got) != 1 {
			t.Errorf("after the copy storage is removed by %q", got)
		}
	})
}

// conflicts answers the first patches of claims with a conflict.
type conflicts struct {
	http.RoundTripper
	mu   sync.Mutex
	left int
}

func (c *conflicts) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	conflict := r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/persistentvolumeclaims/data") && c.left > 0
	if conflict {
		c.left--
	}

	c.mu.Unlock()

	if !conflict {
		return c.RoundTripper.RoundTrip(r)
	}

	return &http.Response{StatusCode: http.StatusConflict, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}`))}, nil
}

// TestRescheduleRefused: a node refuses the pod, and the patch that asks the scheduler for another node meets a conflict. It is sent again, and
// no other pod goes to that node. The scheduler is told to leave the node out for ten minutes.
func TestRescheduleRefused(t *testing.T) {
	inBubble(t, func(p tenants) {
		api := &conflicts{RoundTripper: p.server, left: 2}
		p.api = api
		defer p.dispatch()()

		p.class("silver", map[string]string{"node-local": "true"})
		p.server.Mutate(apiserver.Classes, "", "silver", func(o apiserver.Object) {
			wait := storagev1.VolumeBindingWaitForFirstConsumer
			o.(*storagev1.StorageClass).VolumeBindingMode = &wait
		})
		p.claim("data", "silver")
		const selected = "volume.kubernetes.io/selected-node"
		p.server.Mutate(apiserver.Claims, "team", "data", func(o apiserver.Object) {
			o.SetAnnotations(map[string]string{selected: "node1", "volume.kubernetes.io/storage-provisioner": "p"})
		})
		time.Sleep(time.Second)
		for _, pod := range apiserver.List[*corev1.Pod](p.server, apiserver.Pods) {
			p.server.Mutate(apiserver.Pods, pod.Namespace, pod.Name, func(o apiserver.Object) {
				pod := o.(*corev1.Pod)
				pod.Spec.NodeName, pod.Status.Phase = "node1", corev1.PodFailed
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: podspec.ContainerName, State: corev1.ContainerState{
					Terminated: &corev1.ContainerStateTerminated{ExitCode: contract.ExitNotHere, FinishedAt: metav1.Now()}}}}
			})
		}

		time.Sleep(time.Minute)
		claim, _ := apiserver.Get[*corev1.PersistentVolumeClaim](p.server, apiserver.Claims, "team", "data")
		if node := claim.Annotations[selected]; node != "" || api.left > 0 {
			t.Errorf("the selected node is %q, and %d conflicts are left", node, api.left)
		}

		pods := apiserver.List[*corev1.Pod](p.server, apiserver.Pods)
		if len(pods) != 1 {
			t.Errorf("%d pods went to the node", len(pods))
		}

		p.mustHaveCapacity("silver", "node1")
		time.Sleep(10 * time.Minute)
		p.mustHaveCapacity("silver")
	})
}

// mustHaveCapacity fails unless the scheduler is told that the class has capacity on all nodes but those.
func (p tenants) mustHaveCapacity(class string, but ...string) {
	p.t.Helper()
	capacities := apiserver.List[*storagev1.CSIStorageCapacity](p.server, apiserver.Capacities)
	if len(capacities) != 1 || capacities[0].StorageClassName != class {
		p.t.Fatalf("the capacities are %v, want one of class %s", capacities, class)
	}

	on, err := metav1.LabelSelectorAsSelector(capacities[0].NodeTopology)
	if err != nil {
		p.t.Fatal(err)
	}

	for _, node := range []string{"node1", "node2"} {
		want := !slices.Contains(but, node)
		if got := on.Matches(labels.Set{corev1.LabelHostname: node}); got != want {
			p.t.Errorf("class %s has capacity on %s: %t, want %t", class, node, got, want)
		}
	}
}
