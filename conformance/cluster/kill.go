package cluster

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/conformance"
	"github.com/flex-provisioner/flex-provisioner/contract"
)

// checkKilled removes pods of an operation at moments spread over a run of it. The operation has to succeed nevertheless.
func (t *trial) checkKilled(operation contract.Operation) {
	const remedy = "whatever an attempt leaves must be found again by $FLEX_PV_NAME, half made or whole"
	took, hits := t.took(operation), 0
	for i := range t.options.Kills {
		c, ok := t.underWay(operation)
		if !ok {
			return
		}
		after := took * time.Duration(i) / time.Duration(t.options.Kills)
		hit, ok := t.killPod(c, operation, after)
		if !ok {
			t.fail(c, "a pod to "+string(operation), "there was none"+t.lastWarningOn(c), "does the dispatcher run? kubectl get deployments -n "+contract.SystemNamespace)
			return
		}
		if hit {
			hits++
		}
		when := fmt.Sprintf("the pod to %s was removed after %s", operation, after.Round(time.Millisecond))
		if operation == contract.Provision && !t.wantBound(c, when+": the claim is bound all the same", remedy) {
			return
		}
		if operation == contract.Provision {
			t.discard(c)
		}
		if !t.wantNothing(c, when, remedy) {
			return
		}
	}
	if hits == 0 {
		t.end(conformance.Skipped, "not checked: all pods had ended before they could be removed")
	}
}

// underWay is a claim with a pod of the operation that runs, or soon will.
func (t *trial) underWay(operation contract.Operation) (*claim, bool) {
	if operation == contract.Provision {
		return t.claim(t.mode()), true
	}
	c, ok := t.bound(t.mode())
	if ok {
		t.discard(c)
	}
	return c, ok
}

// killPod removes the claim's first pod of the operation some time after it was seen. hit reports whether that interrupted the pod.
func (t *trial) killPod(c *claim, operation contract.Operation, after time.Duration) (hit, ok bool) {
	pod, ok := t.firstPod(c, operation)
	if !ok {
		return false, false
	}
	t.pause(time.Until(pod.since.Add(after)))
	t.must(t.api.kill(t.ctx, pod.Pod))
	t.until(func() string {
		for _, s := range t.watcher.of(c.UID, operation) {
			if s.UID == pod.UID && s.until.IsZero() {
				return "it runs"
			}
		}
		return ""
	})
	for _, s := range t.watcher.of(c.UID, operation) {
		if s.UID == pod.UID {
			hit = s.Status.Phase != corev1.PodSucceeded
		}
	}
	return hit, true
}

// pause lets the pod run for a while. It waits for no condition, since the check is about the time.
func (t *trial) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ctx.Done():
		t.must(t.ctx.Err())
	}
}

// checkClaimDeleted deletes claims while their first pods run.
func (t *trial) checkClaimDeleted() {
	took := t.took(contract.Provision)
	for i := range t.options.Kills {
		c := t.claim(t.mode())
		pod, ok := t.firstPod(c, contract.Provision)
		if !ok {
			t.fail(c, "a pod to provision", "there was none"+t.lastWarningOn(c), "see check bound")
			return
		}
		after := took * time.Duration(i) / time.Duration(t.options.Kills)
		t.pause(time.Until(pod.since.Add(after)))
		if !t.wantGone(c, fmt.Sprintf("the claim was deleted %s after its pod was seen", after.Round(time.Millisecond)),
			"an undo removes by $FLEX_PV_NAME what there is, half made or whole") {
			return
		}
	}
}
