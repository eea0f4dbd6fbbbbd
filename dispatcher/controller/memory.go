package controller

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// memory is what a controller remembers beside its caches. It does not survive a restart, and need not: the library
// hands everything over again, all classes are synced, and the limit on deletions counts the volumes that wait.
//
// mu guards all fields. It is held while something is added to the queue or forgotten there, so that what is handed
// over meanwhile is not forgotten with it. The locks of the recorder and of the queue come after it, in this order.
type memory struct {
	mu sync.Mutex
	// claims by UID. An entry ends with forget.
	claims map[string]*claimMemory
	// revision counts the claims and volumes that were added to the queue because something is to be done for them.
	revision uint64
	// deletedPods, and saved ones, were deleted, and the cache still shows them. An entry ends with its pod.
	deletedPods map[types.UID]bool
	// deletions of old volumes that began within limitPeriod, by class and claim's UID. An entry ends with expire.
	deletions map[string]map[string]time.Time
	// deletedVolumes are those whose storage was removed, so that their objects may go. An entry ends with its volume,
	// or with expire.
	deletedVolumes map[types.UID]time.Time
	// namespaceUID is that of the pods' namespace, which owns them, and namespaceRead is when it was read.
	namespaceUID  types.UID
	namespaceRead time.Time
	// refusals are the nodes that could not serve a class, with when they are asked again. An entry ends with expire.
	refusals map[string]map[string]time.Time
	// configs are the configurations in force, by class. An entry ends with the class's last ConfigMap.
	configs map[string]classConfig
}

type claimMemory struct {
	// wanted reports whether the library handed the claim over, and since when it did so first.
	wanted bool
	since  time.Time
	// deleted is a volume that was deleted, which the cache may not show yet.
	deleted types.UID
	// repaired is a volume that was repaired, and repairedAt when.
	repaired   types.UID
	repairedAt time.Time
	// rescheduled is the pod after whose failure the scheduler was asked for another node.
	rescheduled types.UID
	// refusedSince is when the API server began to refuse the claim's pod for a reason that may be over soon, zero once
	// it was created.
	refusedSince time.Time
	// expected is a pod that was created and that the cache has not shown yet.
	expected podID
}

// podID distinguishes pods of one name. The UID is empty while the creation has not been answered.
type podID struct {
	name string
	uid  types.UID
}

type classConfig struct {
	inForce *configmaps.Config
	problem string
}

// namespacePeriod is how long the UID of the pods' namespace is remembered: it may be made anew.
const namespacePeriod = time.Minute

// limitPeriod is the period in which the limit on deletions counts.
const limitPeriod = time.Hour

func newMemory() *memory {
	return &memory{
		claims:         map[string]*claimMemory{},
		deletedPods:    map[types.UID]bool{},
		deletions:      map[string]map[string]time.Time{},
		deletedVolumes: map[types.UID]time.Time{},
		refusals:       map[string]map[string]time.Time{},
		configs:        map[string]classConfig{},
	}
}

// claim is a copy of what is remembered of a claim.
func (m *memory) claim(uid string) claimMemory {
	m.mu.Lock()
	defer m.mu.Unlock()

	if c := m.claims[uid]; c != nil {
		return *c
	}

	return claimMemory{}
}

// change changes what is remembered of a claim.
func (m *memory) change(uid string, change func(c *claimMemory)) {
	m.mu.Lock()
	defer m.mu.Unlock()

	m.changeLocked(uid, change)
}

func (m *memory) changeLocked(uid string, change func(c *claimMemory)) {
	c := m.claims[uid]
	if c == nil {
		c = &claimMemory{}
		m.claims[uid] = c
	}

	change(c)
	if *c == (claimMemory{}) {
		delete(m.claims, uid)
	}
}

// handOver changes what is remembered of a claim for which something is to be done, and adds it to the queue.
func (m *memory) handOver(uid string, change func(c *claimMemory), add func()) {
	m.mu.Lock()
	defer m.mu.Unlock()

	m.revision++
	m.changeLocked(uid, change)
	add()
}

// handedOver is the present revision. It is read before anything else of a state.
func (m *memory) handedOver() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()

	return m.revision
}

// forget ends what is remembered of a claim, unless something was handed over since the revision. end ends it
// elsewhere.
func (m *memory) forget(uid string, revision uint64, end func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()

	if m.revision != revision {
		return false
	}

	delete(m.claims, uid)
	end()

	return true
}

// expectCreation expects that the cache shows a pod: without a UID while the pod is being created, with it once that
// was answered.
func (m *memory) expectCreation(uid string, pod *corev1.Pod) {
	m.change(uid, func(c *claimMemory) { c.expected = podID{pod.Name, pod.UID} })
}

// expected are the names of the operation's pods that were created and that the cache has not shown yet.
func (m *memory) expected(op contract.Operation) (names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()

	for _, c := range m.claims {
		if of, _, _, ok := podspec.ParseName(c.expected.name); ok && of == op {
			names = append(names, c.expected.name)
		}
	}

	return names
}

// creationObserved ends the expectation of a pod. An earlier pod of its name does not.
func (m *memory) creationObserved(uid string, pod *corev1.Pod) {
	m.change(uid, func(c *claimMemory) {
		if c.expected == (podID{pod.Name, pod.UID}) {
			c.expected = podID{}
		}
	})
}

// expectDeletion expects that the cache shows a pod's deletion. already reports whether that was expected before.
func (m *memory) expectDeletion(pod types.UID) (already bool) {
	m.mu.Lock()
	defer m.mu.Unlock()

	already = m.deletedPods[pod]
	m.deletedPods[pod] = true

	return already
}

// deletionObserved ends the expectation of a pod's deletion.
func (m *memory) deletionObserved(pod types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()

	delete(m.deletedPods, pod)
}

// storageRemoved remembers that the storage of a volume was removed.
func (m *memory) storageRemoved(volume types.UID, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()

	m.deletedVolumes[volume] = now
}

// volumeDeleted forgets a volume. removed reports whether its storage was removed before.
func (m *memory) volumeDeleted(volume types.UID) (removed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()

	_, removed = m.deletedVolumes[volume]
	delete(m.deletedVolumes, volume)

	return removed
}

// deletionBegan remembers that the deletion of an old volume began.
func (m *memory) deletionBegan(class, uid string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()

	if m.deletions[class] == nil {
		m.deletions[class] = map[string]time.Time{}
	}

	if _, known := m.deletions[class][uid]; !known {
		m.deletions[class][uid] = now
	}
}

// recentDeletions are the claims' UIDs of the class's old volumes whose deletion began within limitPeriod.
func (m *memory) recentDeletions(class string, now time.Time) map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()

	uids := map[string]bool{}
	for uid, at := range m.deletions[class] {
		if now.Sub(at) < limitPeriod {
			uids[uid] = true
		}
	}

	return uids
}

// expire forgets deletions that no limit counts any more, and volumes that were gone before their removal was
// remembered.
func (m *memory) expire(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()

	over := func(at time.Time) bool { return now.Sub(at) >= limitPeriod }
	for class, uids := range m.deletions {
		maps.DeleteFunc(uids, func(_ string, at time.Time) bool { return over(at) })
		if len(uids) == 0 {
			delete(m.deletions, class)
		}
	}

	maps.DeleteFunc(m.deletedVolumes, func(_ types.UID, at time.Time) bool { return over(at) })

	for class, nodes := range m.refusals {
		maps.DeleteFunc(nodes, func(_ string, until time.Time) bool { return !now.Before(until) })
		if len(nodes) == 0 {
			delete(m.refusals, class)
		}
	}
}

// namespace is the UID of the pods' namespace as it was read last, and whether that counts.
func (m *memory) namespace(now time.Time) (uid types.UID, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()

	age := now.Sub(m.namespaceRead)

	return m.namespaceUID, age >= 0 && age < namespacePeriod
}

func (m *memory) setNamespace(uid types.UID, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()

	m.namespaceUID, m.namespaceRead = uid, now
}

// refusedFor is how long a node that could not serve a class is left out. A restart forgets it.
const refusedFor = 10 * time.Minute

func (m *memory) refused(class, node string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()

	if m.refusals[class] == nil {
		m.refusals[class] = map[string]time.Time{}
	}

	m.refusals[class][node] = now.Add(refusedFor)
}

// refusedBy are the nodes that are left out for the class, sorted. next is when the first of them is asked again, 0 for
// never.
func (m *memory) refusedBy(class string, now time.Time) (nodes []string, next time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()

	for node, until := range m.refusals[class] {
		if now.Before(until) {
			nodes, next = append(nodes, node), sooner(next, until.Sub(now))
		}
	}

	slices.Sort(nodes)

	return nodes, next
}

// config is the configuration in force for the class, or what is wrong with its ConfigMaps. A class without ConfigMaps
// has neither.
func (m *memory) config(class string) (*configmaps.Config, string) {
	m.mu.Lock()
	defer m.mu.Unlock()

	return m.configs[class].inForce, m.configs[class].problem
}

// setConfig puts a class's configuration in force, or what is wrong with its ConfigMaps.
func (m *memory) setConfig(class string, inForce *configmaps.Config, problem string) {
	m.mu.Lock()
	defer m.mu.Unlock()

	if inForce == nil && problem == "" {
		delete(m.configs, class)
		return
	}

	m.configs[class] = classConfig{inForce, problem}
}
