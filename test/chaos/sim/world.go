package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// World is one run of a plan.
type World struct {
	plan    Plan
	options Options
	dice    *dice
	server  *apiserver.Server
	trace   *trace
	backend *backend
	cinder  *cinder // nil where no class is Cinder's
	turns   *turns
	// snapshots is nil where there are none.
	snapshots *snapshots
	// attachments is nil where no volume is flex-node's.
	attachments *attachments
	books       *books
	ctx         context.Context

	calm            chan struct{} // closed when everything is mended
	over, diedYoung atomic.Bool

	mu           sync.Mutex
	lags         map[string]time.Time
	counts       map[string]int
	violations   []string
	nodes        []*node
	dispatchers  []*dispatcherProcess
	started      int
	images       map[string]bool // classes whose image cannot be pulled
	noSecret     bool            // the Secret with Cinder's credentials is gone
	noQuota      bool
	placed       map[string]string // on which server pods were to work, by name
	mounts       string            // the claim that pods of classes that mount one mount
	away         bool              // no dispatcher is to run
	writes       int
	lastWrite    string
	stoppedSince time.Time                              // when all deletions were stopped; zero while they are not
	aged         map[string]time.Time                   // when a volume was made old
	oldDeletes   map[string]map[string]time.Time        // deletes of old volumes, by process and class, and by volume
	late         map[string]bool                        // volumes whose storage was asked for by a container that was killed
	refuses      map[string]bool                        // what admission refuses: "create pods", "patch pods"
	givenBack    map[string]time.Time                   // since when an administrator no longer retains volumes, by name
	freed        map[string]bool                        // volumes that an administrator took from their claims, by name
	said         map[string]int64                       // capacities that an administrator wrote, by volume
	edited       map[types.UID]*corev1.PersistentVolume // volumes as they were before an administrator edited them: another of a name is another volume
	kept         map[string]bool                        // storage whose volume an administrator keeps or dropped, by name
	withdrawn    map[types.UID]bool                     // claims that asked for less again

	restores      map[int]string  // the VolumeSnapshot that a claim that is being created asks for
	snapshotNames map[string]bool // which VolumeSnapshot had which snapshot: "HANDLE NAMESPACE/NAME"

	podMu sync.Mutex
	pods  map[types.UID]*podState
	// runningPods are those whose container runs.
	runningPods map[types.UID]*corev1.Pod
}

func newWorld(ctx context.Context, plan Plan, options Options) *World {
	w := &World{plan: plan, options: options, dice: newDice(plan.Seed), server: apiserver.New(), trace: &trace{start: time.Now()}, ctx: ctx,
		lags: map[string]time.Time{}, counts: map[string]int{}, images: map[string]bool{},
		aged: map[string]time.Time{}, oldDeletes: map[string]map[string]time.Time{}, refuses: map[string]bool{}, late: map[string]bool{}, givenBack: map[string]time.Time{}, kept: map[string]bool{}, freed: map[string]bool{}, said: map[string]int64{}, edited: map[types.UID]*corev1.PersistentVolume{}, withdrawn: map[types.UID]bool{}, placed: map[string]string{},
		pods: map[types.UID]*podState{}, runningPods: map[types.UID]*corev1.Pod{}}
	w.backend, w.calm, w.turns, w.books = newBackend(w), make(chan struct{}), newTurns(w), newBooks()
	w.server.Calm = w.calm
	w.restores, w.snapshotNames = map[int]string{}, map[string]bool{}
	if plan.Snapshots {
		w.snapshots = newSnapshots(w)
	}
	if slices.ContainsFunc(plan.Classes, func(c Class) bool { return c.Stager != "" }) {
		w.attachments = newAttachments(w)
	}
	if slices.ContainsFunc(plan.Classes, func(c Class) bool { return c.Cinder }) {
		w.cinder = newCinder(w, options.T)
	}
	w.server.Admit = w.admit
	w.server.Changed = w.changed
	for i := range plan.Nodes {
		w.nodes = append(w.nodes, newNode(w, fmt.Sprintf("node-%d", i)))
	}
	return w
}

// faulty reports whether things may go wrong now.
func (w *World) faulty() bool { return !isClosed(w.calm) }

func (w *World) drawn(fault string) {
	w.turns.disturbed(fault, 0)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[fault]++
}

// violate records that an invariant does not hold.
func (w *World) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.trace.add("INVARIANT", "%s", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.violations) < 10 {
		w.violations = append(w.violations, fmt.Sprintf("at %.3fs: %s", time.Since(w.trace.start).Seconds(), text))
	}
}

// later runs f after a while that is drawn for the actor and the object.
func (w *World) later(from, to time.Duration, f func(), name ...string) {
	time.AfterFunc(w.dice.between(from, to, name...), func() {
		if !w.over.Load() {
			f()
		}
	})
}

func (w *World) lagsUntil(resource string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lags[resource]
}

// admit is the quota.
func (w *World) admit(o apiserver.Object) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if pod, ok := o.(*corev1.Pod); ok && w.noQuota {
		return apiserver.Status(403, metav1.StatusReasonForbidden,
			fmt.Sprintf("pods %q is forbidden: exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0", pod.Name))
	}
	return nil
}

// changed is the watch of the stand-ins. It is called under the server's lock.
func (w *World) changed(resource string, before, after apiserver.Object) {
	object := after
	if object == nil {
		object = before
	}
	name := object.GetName()
	w.turns.changed(resource, before, after)
	switch resource {
	case apiserver.Pods:
		w.podChanged(before, after)
	case apiserver.Claims:
		w.books.changed(before, after)
		w.resized(before, after)
		w.later(time.Millisecond, 300*time.Millisecond, func() { w.syncClaim(name) }, "binder", "claim", name)
		if after != nil && after.GetDeletionTimestamp() != nil {
			w.later(time.Millisecond, 2*time.Second, func() { w.unprotectClaim(name) }, "protection", "claim", name)
			if w.attachments.uses(name) {
				w.later(time.Millisecond, 30*time.Second, func() { w.attachments.stop(name) }, "user", "workload", name)
			}
		}
		if after == nil {
			suffix := string(before.GetUID())
			w.later(time.Millisecond, 300*time.Millisecond, func() { w.syncVolume("pvc-" + suffix) }, "binder", "volume", suffix)
			if other := before.(*corev1.PersistentVolumeClaim).Spec.VolumeName; other != "" && other != "pvc-"+suffix {
				w.later(time.Millisecond, 300*time.Millisecond, func() { w.syncVolume(other) }, "binder", "volume", other)
			}
		}
		w.later(time.Millisecond, 500*time.Millisecond, func() { w.scheduleClaim(name) }, "scheduler", "claim", name)
	case apiserver.Volumes:
		w.books.changed(before, after)
		w.resized(before, after)
		if v, ok := before.(*corev1.PersistentVolume); ok && after == nil && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
			w.set(func() { w.kept[name] = true })
		}
		if v, ok := before.(*corev1.PersistentVolume); ok && after == nil {
			w.later(time.Millisecond, 2*time.Millisecond, func() { w.checkGivenUp(v) }, "admin", "given up", name)
		}
		if v, ok := before.(*corev1.PersistentVolume); ok && after == nil && v.Spec.ClaimRef != nil {
			claim := v.Spec.ClaimRef.Name
			w.later(time.Millisecond, 300*time.Millisecond, func() { w.syncClaim(claim) }, "binder", "claim of", name)
		}
		w.later(time.Millisecond, 300*time.Millisecond, func() { w.syncVolume(name) }, "binder", "volume", name)
	case apiserver.Snapshots:
		if before == nil {
			w.remember(podspec.SnapshotName(string(after.GetUID())), corev1.ObjectReference{Namespace: after.GetNamespace(), Name: name})
		}
		w.snapshots.changed(before, after)
	case apiserver.Attachments:
		w.attachments.changed(before, after)
	case apiserver.SnapshotContents:
		w.snapshots.changed(before, after)
	case apiserver.Classes:
		for _, i := range slices.Sorted(maps.Keys(w.claimNames())) {
			w.later(time.Millisecond, time.Second, func() { w.syncClaim(i) }, "binder", "claim", i)
		}
	}
}

func (w *World) claimNames() map[string]bool {
	names := map[string]bool{}
	for i := range w.plan.Claims {
		names[claimName(i)] = true
	}
	return names
}

func claimName(i int) string { return fmt.Sprintf("claim-%d", i) }

func numberOf(claim string) int {
	i, _ := strconv.Atoi(strings.TrimPrefix(claim, "claim-"))
	return i
}

// tenantOf is the namespace of a claim, by its name.
func (w *World) tenantOf(claim string) string { return w.plan.Tenant(numberOf(claim)) }

// Setup: classes and ConfigMaps.
func (w *World) setup() {
	w.mounts = exports
	w.create(apiserver.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	if slices.ContainsFunc(w.plan.Classes, func(c Class) bool { return c.Mounts }) {
		w.putExport(exports, serverA)
		w.putExport(exportsB, serverB)
	}
	for _, n := range w.nodes {
		w.register(n)
	}
	if w.snapshots != nil {
		w.setupSnapshots()
	}
	for i := range w.plan.Classes {
		w.putClass(i, "a", contract.ProvisionerName)
		w.putConfig(i, "zone-a", "")
	}
}

func (w *World) create(resource string, object apiserver.Object) {
	if _, err := w.server.Create(resource, object); err != nil {
		w.trace.add("user", "create %s %s -> %v", resource, object.GetName(), err)
		return
	}
	w.trace.add("user", "create %s %s", resource, object.GetName())
}

func (w *World) remove(actor, resource, namespace, name string) {
	_, err := w.server.Delete(resource, namespace, name, metav1.DeleteOptions{})
	w.trace.add(actor, "delete %s %s -> %v", resource, name, err)
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func uidOf(volume string) string { return volume[len("pvc-"):] }

// namespace of the provisioners.
const namespace = contract.ProvisionersNamespace
