package dispatcher

import (
	"maps"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// intake is what the library handed over and is not finished. It is memory only: after a restart the library hands
// everything over again.
type intake struct {
	mu       sync.Mutex
	wanted   map[string]bool
	released map[string]types.UID // claim's UID -> volume's UID
	gone     map[types.UID]bool   // volumes whose storage is gone
	told     map[string]map[string]bool
}

func newIntake() *intake {
	return &intake{wanted: map[string]bool{}, released: map[string]types.UID{}, gone: map[types.UID]bool{}, told: map[string]map[string]bool{}}
}

// want takes in a claim to be provisioned.
func (d *Dispatcher) want(uid, class string) {
	d.intake.mu.Lock()
	d.intake.wanted[uid] = true
	d.intake.mu.Unlock()
	d.lanes.add(class, uid)
}

func (d *Dispatcher) isWanted(uid string) bool {
	d.intake.mu.Lock()
	defer d.intake.mu.Unlock()
	return d.intake.wanted[uid]
}

// release takes in a volume whose storage is to be deleted; gone says that this has been done.
func (d *Dispatcher) release(uid, class string, volume types.UID) (gone bool) {
	d.intake.mu.Lock()
	gone = d.intake.gone[volume]
	if !gone {
		d.intake.released[uid] = volume
	}
	d.intake.mu.Unlock()
	if !gone {
		d.lanes.add(class, uid)
	}
	return gone
}

func (i *intake) get(uid string) (wanted bool, released types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.wanted[uid], i.released[uid]
}

func (i *intake) storageGone(volume types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.gone[volume] = true
}

// unwant gives the claim back to the library, which hands it over again when the scheduler has chosen another node.
func (i *intake) unwant(uid string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.wanted, uid)
}

func (i *intake) forget(uid string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.gone, i.released[uid])
	delete(i.wanted, uid)
	delete(i.released, uid)
	delete(i.told, uid)
}

// first says whether the key was not told for the UID before.
func (i *intake) first(uid, key string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.told[uid][key] {
		return false
	}
	if i.told[uid] == nil {
		i.told[uid] = map[string]bool{}
	}
	i.told[uid][key] = true
	return true
}

// untell drops what was told about a pod that is gone, so that long retries do not fill the memory.
func (i *intake) untell(uid, pod string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	maps.DeleteFunc(i.told[uid], func(key string, _ bool) bool { return strings.HasPrefix(key, pod+"/") })
}

// clear drops all that was told for the UID.
func (i *intake) clear(uid string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.told, uid)
}
