package dispatcher

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// A claim that waits for its turn is looked at once more, to be told, and not before it has waited for a while.
func TestAwaitTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Dispatcher{lanes: newLanes(1, nil), slots: newSlots(func(string) {})}
		wait := func(uid, namespace string) plan {
			d.lanes.know("silver", namespace, uid)
			f := &facts{now: time.Now(), uid: uid, class: "silver", claim: &corev1.PersistentVolumeClaim{}, config: &configmaps.Config{MaxConcurrent: 2}}
			p := plan{confirm: true, create: &order{op: contract.Provision}}
			d.awaitTurn(f, &p)
			return p
		}
		took := func(uid string) bool {
			return d.slots.take("silver", d.lanes.namespace(uid), uid, podspec.Name(contract.Provision, uid, 0), 2)
		}
		for _, uid := range []string{"1", "2"} {
			if p := wait(uid, "a"); p.create == nil || !p.confirm || !took(uid) {
				t.Fatalf("claim %s has to wait: %+v", uid, p)
			}
		}
		begin := time.Now()
		for i, c := range []struct {
			uid, namespace string
			after          time.Duration
		}{
			{"3", "a", 10 * time.Second},
			{"4", "a", 10100 * time.Millisecond},
			{"5", "a", 10200 * time.Millisecond},
			{"6", "b", 10100 * time.Millisecond},
			{"7", "b", 10200 * time.Millisecond},
			{"8", "a", 10500 * time.Millisecond},
		} {
			if p := wait(c.uid, c.namespace); p.create != nil || p.confirm || len(p.reports) > 0 || !p.again.Equal(begin.Add(c.after)) {
				t.Errorf("claim number %d that waits is looked at again after %s, want %s; %+v", i, p.again.Sub(begin), c.after, p)
			}
		}
		time.Sleep(tellWaitAfter)
		want := report{on: onClaim, reason: ReasonConcurrency, key: "ConcurrencyLimitReached",
			message: "waiting for other provisioner pods of StorageClass silver to end: 2 of at most 2 (max-concurrent) are running or starting; namespaces take turns, and no action is needed"}
		if p := wait("3", "a"); len(p.reports) != 1 || p.reports[0] != want || !p.again.IsZero() {
			t.Errorf("it is told %+v, want %+v", p, want)
		}
	})
}

// Whoever waits is told where it looks: see docs/events.md.
func TestWaitsForTurn(t *testing.T) {
	claim, volume, record := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, &corev1.Pod{}
	for _, c := range []struct {
		name string
		f    facts
		o    order
		want target
	}{
		{"a claim without a volume", facts{claim: claim}, order{op: contract.Provision}, onClaim},
		{"a volume to be removed", facts{volume: volume}, order{op: contract.Delete}, onVolume},
		{"an unfit volume to be removed", facts{claim: claim, volume: volume}, order{op: contract.Delete}, onVolume},
		{"a volume to be expanded", facts{claim: claim, volume: volume}, order{op: contract.Expand}, onClaim},
		{"an undo for a claim that waits", facts{claim: claim}, order{op: contract.Delete, record: record}, onClaim},
		{"an undo for a claim that is gone", facts{}, order{op: contract.Delete, record: record}, onPod},
	} {
		if r := c.f.waitsForTurn(&c.o, 2, 2); r.on != c.want || r.pod != c.o.record || r.warning {
			t.Errorf("%s: told %+v, want it on the %s", c.name, r, c.want)
		}
	}
}
