package dispatcher

import (
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// removals are the delete pods that dispatchers create.
func (p tenants) removals() func() []string {
	var mu sync.Mutex
	var names []string
	p.server.Changed = func(resource string, before, after apiserver.Object) {
		if resource != apiserver.Pods || before != nil || after == nil || !strings.HasPrefix(after.GetName(), "del-") {
			return
		}

		mu.Lock()
		defer mu.Unlock()

		names = append(names, after.GetName())
	}

	return func() []string {
		mu.Lock()
		defer mu.Unlock()

		return names
	}
}

func (p tenants) onlyVolume() *corev1.PersistentVolume {
	p.t.Helper()
	list := apiserver.List[*corev1.PersistentVolume](p.server, apiserver.Volumes)
	if len(list) != 1 {
		p.t.Fatalf("%d volumes", len(list))
	}

	return list[0]
}

func (p tenants) editVolume(change func(v *corev1.PersistentVolume)) {
	p.t.Helper()
	p.server.Mutate(apiserver.Volumes, "", p.onlyVolume().Name, func(o apiserver.Object) { change(o.(*corev1.PersistentVolume)) })
}

// retain is what administrators do to keep the storage of a claim that goes, and free to use it again.
func (p tenants) retain() {
	p.t.Helper()
	p.editVolume(func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	})
	p.remove(apiserver.Claims, "team", "data")
	p.server.Mutate(apiserver.Claims, "team", "data", func(o apiserver.Object) { o.SetFinalizers(nil) })
	p.bind(p.onlyVolume())
	if phase := p.onlyVolume().Status.Phase; phase != corev1.VolumeReleased {
		p.t.Fatalf("the volume is %s", phase)
	}
}

func free(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil }

func freeByRestoreMD(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "" }

// TestRetainedVolumeThatIsFreed: an administrator retains a volume and frees it, while the pod that made it is still there. The pod proves
// nothing: no storage is removed, and the volume stays.
func TestRetainedVolumeThatIsFreed(t *testing.T) {
	for _, c := range []struct {
		name string
		free func(v *corev1.PersistentVolume)
		// away says that no dispatcher runs meanwhile, and burst that another claim of the class waits, so that pods stay.
		away, burst bool
	}{
		{name: "at once", free: free},
		{name: "after an outage", free: free, away: true},
		{name: "in a burst", free: free, burst: true},
		{name: "by restore.md", free: freeByRestoreMD},
		{name: "by restore.md, after an outage", free: freeByRestoreMD, away: true},
		{name: "by restore.md, in a burst", free: freeByRestoreMD, burst: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(p tenants) {
				removals := p.removals()
				stop := p.dispatch()
				p.class("silver", nil)
				if c.burst {
					p.claim("refused", "silver")
					p.server.Mutate(apiserver.Claims, "team", "refused", func(o apiserver.Object) {
						o.(*corev1.PersistentVolumeClaim).Spec.VolumeAttributesClassName = new("fast")
					})
				}

				p.claim("data", "silver")
				time.Sleep(time.Second)
				pods := apiserver.List[*corev1.Pod](p.server, apiserver.Pods)
				if len(pods) != 1 {
					t.Fatalf("%d pods", len(pods))
				}

				if c.away {
					stop()
				}

				p.run(pods[0])
				p.bind(p.onlyVolume())
				p.retain()
				p.editVolume(c.free)
				p.bind(p.onlyVolume())
				if c.away {
					stop = p.dispatch()
				}

				defer stop()

				time.Sleep(time.Hour)
				if got := removals(); len(got) > 0 {
					t.Errorf("storage is removed by %q", got)
				}

				if v := p.onlyVolume(); v.DeletionTimestamp != nil || v.Status.Phase != corev1.VolumeAvailable {
					t.Errorf("the volume is %s, deleted at %v", v.Status.Phase, v.DeletionTimestamp)
				}

				if left := apiserver.List[*corev1.Pod](p.server, apiserver.Pods); len(left) > 0 && !c.burst {
					t.Errorf("%d pods are left", len(left))
				}
			})
		})
	}
}
