package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/flex-provisioner/flex-provisioner/conformance"
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// trial is one check that runs. What keeps it from going on, such as an API server that is away, ends it by a panic with a
// halt, which protect recovers.
type trial struct {
	*stage
	ctx      context.Context
	findings []conformance.Finding
	// status is set where the check ended without a judgement, and reason says why.
	status conformance.Status
	reason string
	// note is what it did not see, but need not.
	note string
}

type halt struct{ err error }

// end ends the check without a judgement, unless something was found before.
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

// fail notes what went wrong with a claim, with what its pods printed.
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

// until looks until nothing is lacking, and returns what is at the end.
func (t *trial) until(look func() string) (lack string) {
	ctx, cancel := context.WithTimeout(t.ctx, t.options.Timeout)
	defer cancel()
	_ = wait.PollUntilContextCancel(ctx, glance, true, func(context.Context) (bool, error) { // what it lacks says more than the time
		lack = look()
		return lack == "", nil
	})
	if lack != "" {
		t.must(t.ctx.Err())
	}
	return lack
}

// claim is one that this run made, and the pods that use it.
type claim struct {
	*corev1.PersistentVolumeClaim
	pods []*corev1.Pod
}

func (c *claim) volumeName() string { return podspec.VolumeName(string(c.UID)) }

// claim makes a claim. Where the scheduler chooses its node, a pod that asks for the volume comes with it.
func (t *trial) claim(mode corev1.PersistentVolumeMode) *claim {
	access := accessMode(t.config)
	c := &claim{PersistentVolumeClaim: &corev1.PersistentVolumeClaim{}}
	t.must(t.api.create(t.ctx, t.namespace, "persistentvolumeclaims", &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s%d", t.prefix, len(t.claims))},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &t.class.Name, VolumeMode: &mode,
			AccessModes: []corev1.PersistentVolumeAccessMode{access},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: t.size()}}},
	}, c.PersistentVolumeClaim))
	t.claims = append(t.claims, c)
	if t.waitsForConsumer() {
		t.consumer(c, "true")
	}
	return c
}

// bound is a claim that is bound, or a failure of the check.
func (t *trial) bound(mode corev1.PersistentVolumeMode) (*claim, bool) {
	c := t.claim(mode)
	return c, t.wantBound(c, "a claim is bound", "read the message and the log")
}

func (t *trial) wantBound(c *claim, expected, remedy string) bool {
	lack := t.until(func() string {
		t.must(t.api.get(t.ctx, c.Namespace, "persistentvolumeclaims", c.Name, c.PersistentVolumeClaim))
		if c.Status.Phase == corev1.ClaimBound {
			return ""
		}
		return fmt.Sprintf("after %s it is %s", t.options.Timeout, c.Status.Phase)
	})
	if lack != "" {
		t.fail(c, expected, lack+t.told(c), remedy)
	}
	return lack == ""
}

// told is the last warning on the claim, its volume, or a pod that waits for it.
func (t *trial) told(c *claim) string {
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

// events are those of a place, none where the caller may not see them.
func (t *trial) events(at place) []corev1.Event {
	lack, err := t.lacks(t.ctx, rights(at, "events", "list"))
	t.must(err)
	if lack != "" {
		return nil
	}
	var list corev1.EventList
	t.must(t.api.list(t.ctx, t.in(at), "events", metav1.ListOptions{}, &list))
	return list.Items
}

// volume is the claim's, nil where there is none.
func (t *trial) volume(c *claim) *corev1.PersistentVolume {
	volume := &corev1.PersistentVolume{}
	there, err := t.api.there(t.ctx, "", "persistentvolumes", c.volumeName(), volume)
	t.must(err)
	if !there {
		return nil
	}
	return volume
}

// discard deletes the claim and the pods that use it.
func (t *trial) discard(c *claim) {
	for _, pod := range c.pods {
		t.must(t.api.remove(t.ctx, pod.Namespace, "pods", pod.Name, pod.UID))
	}
	t.must(t.api.remove(t.ctx, c.Namespace, "persistentvolumeclaims", c.Name, c.UID))
}

// wantGone deletes a claim, and wants nothing to be left of it.
func (t *trial) wantGone(c *claim, when, remedy string) bool {
	t.discard(c)
	return t.wantNothing(c, when, remedy)
}

func (t *trial) wantNothing(c *claim, when, remedy string) bool {
	left := t.until(func() string { return t.left(c) })
	if left == "" {
		left = t.storageOf(c)
	}
	if left != "" {
		t.fail(c, when+": nothing is left of it", "there is "+left+t.told(c), remedy)
	}
	return left == ""
}

// left says what there is of a claim that was deleted: itself, its volume, its provisioner pods, its Secret.
func (t *trial) left(c *claim) string {
	var left []string
	if there, err := t.api.there(t.ctx, c.Namespace, "persistentvolumeclaims", c.Name, &corev1.PersistentVolumeClaim{}); err != nil {
		t.must(err)
	} else if there {
		left = append(left, "claim "+c.Name)
	}
	if volume := t.volume(c); volume != nil {
		left = append(left, fmt.Sprintf("volume %s (%s)", volume.Name, volume.Status.Phase))
	}
	for _, pod := range t.watcher.some(func(s seen) bool { return s.Labels[contract.LabelClaimUID] == string(c.UID) && !s.gone }) {
		// One that failed may be kept for its log.
		if t.config == nil || t.config.FailedPodTTL == 0 || pod.Status.Phase != corev1.PodFailed {
			left = append(left, fmt.Sprintf("pod %s (%s)", pod.Name, pod.Status.Phase))
		}
	}
	lack, err := t.lacks(t.ctx, toSecrets)
	t.must(err)
	if lack == "" {
		there, err := t.api.there(t.ctx, t.options.ProvisionersNamespace, "secrets", c.volumeName(), &corev1.Secret{})
		t.must(err)
		if there {
			left = append(left, "Secret "+c.volumeName())
		}
	}
	return strings.Join(left, ", ")
}

// storageOf names what the list of the storage has of a claim.
func (t *trial) storageOf(c *claim) string {
	if t.options.List == nil {
		return ""
	}
	lines, err := t.options.List(t.ctx)
	t.must(err)
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return !strings.Contains(line, string(c.UID)) }), ", ")
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

// took is how long the pods of an operation run that nobody disturbs: the first one that succeeded tells.
func (t *trial) took(operation contract.Operation) time.Duration {
	for _, s := range t.watcher.all() {
		if s.operation() == operation && s.Status.Phase == corev1.PodSucceeded {
			return s.until.Sub(s.since)
		}
	}
	return time.Second
}
