package sim

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// turns checks classes that have a max-concurrent: while a claim waits for its first pod, another namespace that runs
// as many pods as the claim's own gets one more at most. It gets none if the claim has waited for the end of a pod of
// that namespace already, while its own namespace had none. It hears of every change, under the server's lock. While
// something goes wrong, and for as long after that as the dispatcher may wait before it tries again, nothing is said.
type turns struct {
	w *World

	mu      sync.Mutex
	trouble time.Time // until when nothing is said
	waiting map[types.UID]asked
	running map[types.UID]tenant // pods that have not ended
	passed  map[tenant]map[tenant]int
}

// tenant is a namespace as far as it has to do with one class.
type tenant struct{ class, namespace string }

type asked struct {
	tenant
	at time.Time
}

// Time to hear of a claim, and to get over what went wrong.
const (
	hearing    = time.Second
	recovering = 2 * time.Minute
)

func newTurns(w *World) *turns {
	return &turns{w: w, waiting: map[types.UID]asked{}, running: map[types.UID]tenant{}, passed: map[tenant]map[tenant]int{}}
}

// disturbed says that something goes wrong for a while. What users do with claims is nothing of the kind.
func (t *turns) disturbed(what string, long time.Duration) {
	if strings.HasPrefix(what, "claim-") {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if until := time.Now().Add(long + recovering); until.After(t.trouble) {
		t.trouble = until
	}
	clear(t.passed)
}

func (t *turns) changed(resource string, before, after apiserver.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch resource {
	case apiserver.Claims:
		if after == nil {
			delete(t.waiting, before.GetUID())
			return
		}
		t.claimChanged(before, after.(*corev1.PersistentVolumeClaim))
	case apiserver.Pods:
		if after == nil {
			t.ended(before.GetUID())
			return
		}
		t.podChanged(before == nil, after.(*corev1.Pod))
	}
}

// claimChanged is called with mu held. A claim waits from when the binder asks for its volume.
func (t *turns) claimChanged(before apiserver.Object, c *corev1.PersistentVolumeClaim) {
	of := tenant{*c.Spec.StorageClassName, c.Namespace}
	switch {
	case c.DeletionTimestamp != nil || c.Spec.VolumeName != "":
		delete(t.waiting, c.UID)
	case before != nil && before.GetAnnotations()[storageProvisioner] == "" && c.Annotations[storageProvisioner] != "" && t.w.plan.class(of.class).MaxConcurrent > 0:
		if !slices.ContainsFunc(slices.Collect(maps.Values(t.waiting)), func(a asked) bool { return a.tenant == of }) {
			delete(t.passed, of) // of an earlier wait
		}
		t.waiting[c.UID] = asked{of, time.Now()}
	}
}

// podChanged is called with mu held.
func (t *turns) podChanged(isNew bool, pod *corev1.Pod) {
	namespace, _, _ := strings.Cut(pod.Annotations[contract.AnnClaim], "/")
	of := tenant{pod.Annotations[contract.AnnClass], namespace}
	switch {
	case ended(pod):
		t.ended(pod.UID)
	case isNew:
		delete(t.waiting, types.UID(pod.Labels[contract.LabelClaimUID]))
		t.turn(of, pod.Name)
		t.running[pod.UID] = of
	}
}

// ended is called with mu held when a pod has ended, or is gone. For tenants without a pod that waited for it, it was
// its tenant's turn.
func (t *turns) ended(pod types.UID) {
	of, ran := t.running[pod]
	delete(t.running, pod)
	if !ran || time.Now().Before(t.trouble) {
		return
	}

	pods := t.pods()
	for _, claim := range t.waiting {
		heard := time.Since(claim.at) > hearing
		if claim.class == of.class && claim.namespace != of.namespace && heard && pods[claim.tenant] == 0 {
			t.pass(claim.tenant, of, 1)
		}
	}
}

// pods counts the pods that run.
func (t *turns) pods() map[tenant]int {
	pods := map[tenant]int{}
	for _, of := range t.running {
		pods[of]++
	}
	return pods
}

// pass notes how often another tenant had its turn while the tenant waited, unless that is noted already.
func (t *turns) pass(waits, other tenant, times int) {
	if t.passed[waits] == nil {
		t.passed[waits] = map[tenant]int{}
	}
	t.passed[waits][other] = max(t.passed[waits][other], times)
}

// turn is called with mu held when the tenant gets a pod.
func (t *turns) turn(of tenant, pod string) {
	delete(t.passed, of)
	if time.Now().Before(t.trouble) {
		return
	}
	pods := t.pods()
	late := map[tenant]bool{}
	for _, claim := range t.waiting {
		if claim.class == of.class && claim.namespace != of.namespace && time.Since(claim.at) > hearing && pods[of] >= pods[claim.tenant] {
			late[claim.tenant] = true
		}
	}
	for other := range late {
		n := t.passed[other][of] + 1
		t.pass(other, of, n)
		if n > 1 {
			t.w.violate("%s is turn number %d of namespace %s of class %s while a claim of namespace %s waits for its first", pod, n, of.namespace, of.class, other.namespace)
		}
	}
}
