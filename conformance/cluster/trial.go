package cluster

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/conformance"
	"github.com/flex-provisioner/flex-provisioner/contract"
)

// trial is a run of one check. An error that keeps it from going on, such as an API server that is not reachable, ends it by a panic with
// a halt. protect recovers it.
type trial struct {
	*stage
	ctx      context.Context
	findings []conformance.Finding
	// status is set if the check ended without a result, and reason says why.
	status conformance.Status
	reason string
	// note says what the check could not see, and does not require.
	note string
}

type halt struct{ err error }

// end ends the check without a result, unless there is a finding already.
func (t *trial) end(status conformance.Status, reason string) {
	t.status, t.reason = status, reason
	panic(halt{})
}

func (t *trial) must(err error) {
	if err != nil {
		panic(halt{err})
	}
}

func (t *trial) protect(do func()) (err error) {
	defer func() {
		switch stopped := recover().(type) {
		case nil:
		case halt:
			err = stopped.err
		default:
			panic(stopped)
		}
	}()
	do()
	return nil
}

// fail adds a finding about a claim, with the logs of its pods.
func (t *trial) fail(c *claim, expected, came, remedy string) {
	f := conformance.Finding{Expected: expected, Came: came, Remedy: remedy}
	if c != nil {
		for _, s := range t.watcher.some(func(s seen) bool { return s.Labels[contract.LabelClaimUID] == string(c.UID) }) {
			if s.log != "" {
				f.Log += s.Name + ":\n" + s.log
			}
		}
	}
	t.findings = append(t.findings, f)
}

// until polls look until nothing is lacking, and returns what is lacking at the end.
func (t *trial) until(look func() string) (lack string) {
	return t.untilTimeout(t.options.Timeout, look)
}

// lateAnswers is the additional time for the removal of a volume whose provisioner was killed. The dispatcher waits that long, since the
// storage system may still carry out a request.
const lateAnswers = time.Minute

// untilGone is until for deleted objects.
func (t *trial) untilGone(look func() string) (lack string) {
	return t.untilTimeout(t.options.Timeout+lateAnswers, look)
}

func (t *trial) untilTimeout(limit time.Duration, look func() string) (lack string) {
	late := time.After(limit)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if lack = look(); lack == "" {
			return ""
		}
		select {
		case <-tick.C:
		case <-late:
			return lack
		case <-t.ctx.Done():
			t.must(t.ctx.Err())
		}
	}
}

// lastWarningOn is the last warning on the claim, its volume, or a pod that waits for it.
func (t *trial) lastWarningOn(c *claim) string {
	about := []string{c.Name, c.volumeName()}
	for _, pod := range c.pods {
		about = append(about, pod.Name)
	}
	var events []corev1.Event
	for _, at := range []place{claims, volumes} {
		events = append(events, t.events(at)...)
	}
	return lastWarning(slices.DeleteFunc(events, func(e corev1.Event) bool { return !slices.Contains(about, e.InvolvedObject.Name) }))
}

// events lists the events of a place. There are none if the caller may not read them.
func (t *trial) events(at place) []corev1.Event {
	lack, err := t.missingRights(t.ctx, rights(at, "events", "list"))
	t.must(err)
	if lack != "" {
		return nil
	}
	var list corev1.EventList
	t.must(t.api.list(t.ctx, t.in(at), "events", metav1.ListOptions{}, &list))
	return list.Items
}

// firstPod waits for a claim's first pod of an operation.
func (t *trial) firstPod(c *claim, operation contract.Operation) (pod seen, ok bool) {
	ctx, cancel := context.WithTimeout(t.ctx, t.options.Timeout)
	defer cancel()
	ok = t.watcher.await(ctx, func() bool {
		pods := t.watcher.of(c.UID, operation)
		if len(pods) > 0 {
			pod = pods[0]
		}
		return len(pods) > 0
	})
	t.must(t.ctx.Err())
	return pod, ok
}

// took is how long a pod of an operation runs undisturbed, by the first one that succeeded.
func (t *trial) took(operation contract.Operation) time.Duration {
	for _, s := range t.watcher.all() {
		if s.operation() == operation && s.Status.Phase == corev1.PodSucceeded {
			return s.until.Sub(s.since)
		}
	}
	return time.Second
}
