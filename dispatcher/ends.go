package dispatcher

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// What a dispatcher remembers ends with what it is about: what is about a claim's UID in forget, about a class in endClass,
// about a ConfigMap when its class is judged, about a pod and its trouble when their end is heard of. What none of these ends
// goes by time, in expire. TestEverythingEnds looks into every field of the dispatcher.

// forget ends what is about a claim's UID, unless something was handed over since the facts were gathered.
func (d *Dispatcher) forget(f *facts) bool {
	d.intake.mu.Lock()
	defer d.intake.mu.Unlock()
	if d.intake.changes != f.seen {
		d.lanes.poke(f.uid)
		return false
	}
	delete(d.intake.wanted, f.uid)
	delete(d.intake.released, f.uid)
	delete(d.intake.told, f.uid)
	delete(d.intake.troubled, f.uid)
	delete(d.intake.dropped, f.uid)
	delete(d.intake.expected, f.uid)
	d.lanes.forget(f.uid)
	// A pod may have come since the facts were gathered, and have made the UID known just before it was forgotten. The look
	// that it asked for comes, but no later one would: its slot, its claim and its class would ask in vain.
	if pods, err := d.caches.pods.GetIndexer().ByIndex(byClaimUID, f.uid); err == nil && len(pods) > 0 {
		d.lanes.know(f.class, namespaceOf(pods[0].(*corev1.Pod)), f.uid)
	}
	d.slots.forget(f.class, f.uid)
	d.crowd.forget(f.class, f.uid)
	d.endClass(f.class)
	return true
}

// endClass ends what is about a class that is gone, unless something of it goes on. It is called when the class changes and when
// a UID is forgotten, of which either may be the last. Metrics stay for a while, so that they are read once more.
func (d *Dispatcher) endClass(class string) {
	if d.hasClass(class) || !d.lanes.end(class) {
		return
	}
	d.metrics.end(class, time.Now())
}

func (d *Dispatcher) hasClass(class string) bool {
	_, ok, _ := d.caches.classes.GetStore().GetByKey(class)
	return ok
}

// expiring lets go what goes by time, for ever.
func (d *Dispatcher) expiring(ctx context.Context) {
	ticker := time.NewTicker(expireEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			d.expire(time.Now())
		}
	}
}

const expireEvery = time.Minute

func (d *Dispatcher) expire(now time.Time) {
	d.guard.expire(now)
	d.metrics.expire(now, func(class string) bool { return d.hasClass(class) || d.lanes.has(class) })
}

// told are the keys of what was told of one object.
type told map[string]bool

// maxTold is how many keys are remembered. An object of which there is more to tell, since its author keeps changing it, may
// be told of once more.
const maxTold = 100

// first says whether the key was not told before. Of a key counts as much as an event shows of its message.
func (t told) first(key string) bool {
	key = podspec.Clip(key, maxEvent)
	if t[key] {
		return false
	}
	if len(t) >= maxTold {
		clear(t)
	}
	t[key] = true
	return true
}
