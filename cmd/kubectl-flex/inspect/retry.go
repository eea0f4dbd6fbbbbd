package inspect

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/progress"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Retry is the failed attempt whose record gets the annotation for an immediate retry, and the time at which the next attempt would start
// without it. The error says why a retry would have no effect. The claim has to be one of this dispatcher.
func (o *Objects) Retry(uid string) (failed observed.Attempt, by time.Time, err error) {
	state := o.StateOf(uid)
	s := o.observe(uid)
	if failed, until, ok := progress.Delayed(s); ok {
		return failed, until, nil
	}
	if latest, ok := progress.AttemptOf(s, state.Operation); ok && latest.Outcome.Final() && latest.Pod.Annotations[contract.AnnRetry] == "true" {
		return failed, by, fmt.Errorf("the next attempt was asked for on pod %s already", latest.Pod.Name)
	}
	if running, ok := observed.Unfinished(s.Attempts); ok {
		return failed, by, fmt.Errorf("attempt %d has not ended: pod %s is %s; to have another one instead, delete that pod", running.Number, running.Pod.Name, running.Outcome.Phase)
	}
	if state.Done() {
		return failed, by, fmt.Errorf("nothing is to be done")
	}
	return failed, by, fmt.Errorf("the next attempt does not wait for its time: %s: %s", state.Reason, state.Message)
}

// PodOf is the provisioner pod of an attempt. With number -1 it is that of the newest attempt that has begun to run, or else of the newest.
func (o *Objects) PodOf(uid string, number int) (*corev1.Pod, error) {
	var best *corev1.Pod
	var numbers []int
	rank := func(pod *corev1.Pod) int {
		if podspec.OutcomeOf(pod).MayHaveRun {
			return 1
		}
		return 0
	}
	for _, pod := range o.podsOf(o.keyOf(uid)) {
		_, _, n, _ := podspec.ParseName(pod.Name)
		numbers = append(numbers, n)
		if number >= 0 && n != number {
			continue
		}
		if best == nil || rank(pod) > rank(best) || rank(pod) == rank(best) && !pod.CreationTimestamp.Before(&best.CreationTimestamp) {
			best = pod
		}
	}
	switch {
	case best != nil:
		return best, nil
	case number >= 0 && len(numbers) > 0:
		return nil, fmt.Errorf("attempt %d has no pod any more; there are those of the attempts %v", number, numbers)
	}
	if records := o.indexed().saved[o.keyOf(uid)]; len(records) > 0 {
		return nil, fmt.Errorf("its pods are gone with their logs, as somebody deleted them or drained their nodes; what is known of them: kubectl flex why")
	}
	return nil, fmt.Errorf("it has no provisioner pod: none was created yet, or it was deleted once its outcome had been acted on (failed-pod-ttl keeps failed ones)")
}

// NoPods says why provisioner pods could not be read. It is empty where they could.
func (o *Objects) NoPods() string {
	for _, u := range o.Unread {
		if u.Kind == Pods {
			return fmt.Sprintf("provisioner pods may not be read: it takes the right to %s", u.Right)
		}
	}
	return ""
}

// PodNamed is the provisioner pod of a name.
func (o *Objects) PodNamed(name string) (*corev1.Pod, error) {
	if pod := first(o.Pods, func(pod *corev1.Pod) bool { return pod.Name == name }); pod != nil {
		return pod, nil
	}
	return nil, fmt.Errorf("there is no pod %s any more", name)
}
