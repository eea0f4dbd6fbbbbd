package dispatcher

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// TestUndoneRepairs: while a provisioner runs, somebody takes the finalizer off its volume as often as the dispatcher gives it back.
func TestUndoneRepairs(t *testing.T) {
	inBubble(t, func(p tenants) {
		var undone atomic.Int32
		var gone atomic.Bool // the one who undoes them
		p.server.Changed = func(resource string, _, after apiserver.Object) {
			if gone.Load() || resource != apiserver.Volumes || after == nil || !slices.Contains(after.GetFinalizers(), contract.VolumeFinalizer) {
				return
			}

			undone.Add(1)
			time.AfterFunc(time.Millisecond, func() {
				p.server.Mutate(apiserver.Volumes, "", after.GetName(), func(o apiserver.Object) { o.SetFinalizers(nil) })
			})
		}
		defer p.dispatch()()

		p.class("silver", nil)
		p.claim("data", "silver")
		time.Sleep(10 * time.Second)
		pods := apiserver.List[*corev1.Pod](p.server, apiserver.Pods)
		if len(pods) != 1 {
			t.Fatalf("%d pods", len(pods))
		}

		volume := &corev1.PersistentVolume{}
		if err := yaml.Unmarshal([]byte(pods[0].Annotations[contract.AnnVolume]), volume); err != nil {
			t.Fatal(err)
		}

		volume.Spec.NFS = &corev1.NFSVolumeSource{Server: "s", Path: "/data"}
		p.create(apiserver.Volumes, volume)
		time.Sleep(time.Minute)
		if n := undone.Load(); n < 5 || n > 7 { // with the one that the volume was made with
			t.Errorf("%d repairs were undone in a minute, want one every ten seconds", n)
		}

		gone.Store(true)
		time.Sleep(20 * time.Second)
		if v, _ := apiserver.Get[*corev1.PersistentVolume](p.server, apiserver.Volumes, "", volume.Name); !slices.Contains(v.Finalizers, contract.VolumeFinalizer) {
			t.Errorf("the volume has the finalizers %q", v.Finalizers)
		}
	})
}
