package dispatcher

import (
	"maps"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// intake is what the library handed over and is not finished, and what was done that the caches do not show yet. It is
// memory only: after a restart the library hands everything over again.
type intake struct {
	mu       sync.Mutex
	changes  uint64
	wanted   map[string]bool
	released map[string]types.UID // claim's UID -> volume's UID
	told     map[string]told
	troubled map[string]bool      // a warning was told since the UID came
	removed  map[types.UID]bool   // pods that were deleted and that the cache still has
	dropped  map[string]types.UID // claim's UID -> UID of a volume that was deleted
	expected map[string]podID     // claim's UID -> pod that was created
}

// podID tells pods of one name apart. The UID is empty while the creation has not been answered.
type podID struct {
	name string
	uid  types.UID
}

func newIntake() *intake {
	return &intake{wanted: map[string]bool{}, released: map[string]types.UID{},
		told: map[string]told{}, troubled: map[string]bool{}, dropped: map[string]types.UID{}, removed: map[types.UID]bool{}, expected: map[string]podID{}}
}

// want takes in a claim to be provisioned.
func (d *Dispatcher) want(uid, namespace, class string) {
	d.intake.mu.Lock()
	defer d.intake.mu.Unlock()
	d.intake.changes++
	d.intake.wanted[uid] = true
	d.lanes.add(class, namespace, uid)
}

func (d *Dispatcher) isWanted(uid string) bool {
	d.intake.mu.Lock()
	defer d.intake.mu.Unlock()
	return d.intake.wanted[uid]
}

// release takes in a volume whose storage is to be deleted.
func (d *Dispatcher) release(uid, namespace, class string, volume types.UID) {
	d.intake.mu.Lock()
	defer d.intake.mu.Unlock()
	d.intake.changes++
	d.intake.released[uid] = volume
	d.lanes.add(class, namespace, uid)
}

func (i *intake) get(uid string) (wanted bool, released types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.wanted[uid], i.released[uid]
}

// state changes whenever the library hands something over.
func (i *intake) state() uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.changes
}

// drop remembers that a volume was deleted, which the cache may not show for a while.
func (i *intake) drop(uid string, volume types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.dropped[uid] = volume
}

func (i *intake) isDropped(uid string, volume types.UID) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.dropped[uid] == volume
}

// remove remembers that a pod was deleted, until it is gone.
func (i *intake) remove(pod types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.removed[pod] = true
}

func (i *intake) isRemoved(pod types.UID) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.removed[pod]
}

// gone forgets a pod.
func (i *intake) gone(pod types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.removed, pod)
}

// unwant gives the claim back to the library, which hands it over again when the scheduler has chosen another node.
func (i *intake) unwant(uid string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.wanted, uid)
}

// expect remembers that a pod is being created, or, once it has a UID, that it was.
func (i *intake) expect(uid string, pod *corev1.Pod) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.expected[uid] = podID{pod.Name, pod.UID}
}

// awaited is the pod that was created for the UID and has not been seen, or empty.
func (i *intake) awaited(uid string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.expected[uid].name
}

// arrived ends the wait for the pod. One that had its name before it does not.
func (i *intake) arrived(uid string, pod *corev1.Pod) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.expected[uid] == (podID{pod.Name, pod.UID}) {
		delete(i.expected, uid)
	}
}

// first says whether the key was not told for the UID before.
func (i *intake) first(uid, key string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.told[uid] == nil {
		i.told[uid] = told{}
	}
	return i.told[uid].first(key)
}

// trouble notes that a warning was told.
func (i *intake) trouble(uid string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.troubled[uid] = true
}

func (i *intake) hadTrouble(uid string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.troubled[uid]
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
