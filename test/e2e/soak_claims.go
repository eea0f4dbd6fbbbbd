//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// life is what is to become of a claim, drawn when it is made, and what became of it.
type life struct {
	name  string
	class *soakClass
	// hasty is when the claim is deleted, whatever has come of it; 0 for one that waits until it is bound.
	hasty time.Duration
	// use has a pod write the claim's name to the volume, grow has it expanded to twice its size.
	use, grow bool
	// stay is how long the claim lives then; stays says that it lives until the end of the run.
	stay  time.Duration
	stays bool

	mu        sync.Mutex
	claim     *claim // once it is made
	deleting  bool   // once the API server may have been asked
	boundIn   time.Duration
	usedUp    bool
	grown     bool
	finishing atomic.Bool // nothing more is done with it
}

// draw is called by one goroutine only, so that a seed draws the same lives.
func (k *soak) draw(i int) *life {
	class, n := k.classes[0], k.dice.IntN(100)
	for _, c := range k.classes {
		if class = c; n < c.share {
			break
		}
		n -= c.share
	}
	second := func(least, most int) time.Duration {
		return time.Duration(least)*time.Second + time.Duration(k.dice.IntN((most-least)*1000))*time.Millisecond
	}
	l := &life{name: fmt.Sprintf("claim-%d", i), class: class, stay: second(1, 20)}
	switch n := k.dice.IntN(100); {
	case n < 12:
		l.hasty = second(0, 6)
	case n < 18:
		l.use = true
	case n < 26:
		l.grow = class.grows
	case n < 28:
		l.use, l.stays = true, true
	}
	return l
}

// mostWaiting is how many claims may wait at a time. Where the machine is slower than the rate, a heap of claims would
// only show that it is. What is held back meanwhile is made up for.
const mostWaiting = 300

// traffic makes claims at the rate until ctx ends.
func (k *soak) traffic(ctx context.Context) {
	began, made := time.Now(), 0
	for ; ctx.Err() == nil; sleep(ctx, time.Second/soakRate) {
		for made < int(time.Since(began).Seconds()*soakRate) && k.waiting() < mostWaiting {
			l := k.draw(made)
			made++
			k.mu.Lock()
			k.lives = append(k.lives, l)
			k.mu.Unlock()
			// The test's context, not ctx: a life goes on when no more are made.
			go k.live(k.Context(), l)
		}
	}
}

// waiting counts the claims that are not at their end and not bound.
func (k *soak) waiting() int {
	n := 0
	for _, l := range k.all() {
		if !l.finishing.Load() && !l.wasBound() {
			n++
		}
	}
	return n
}

func (k *soak) all() []*life {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.lives)
}

func (k *soak) live(ctx context.Context, l *life) {
	defer l.finishing.Store(true)
	if err := l.make(ctx); err != nil {
		k.violated("claim %s could not be made: %v", l.name, err)
		return
	}
	if l.hasty > 0 {
		sleep(ctx, l.hasty)
		l.remove(ctx)
		return
	}
	l.until(ctx, l.claim.isBound)
	l.set(func() { l.boundIn = time.Since(l.claim.created) })
	if l.use {
		k.consume(ctx, l)
	}
	if l.grow {
		l.expand(ctx)
	}
	if !l.stays {
		sleep(ctx, l.stay)
		l.remove(ctx)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// until looks at the watches' caches twice a second: there are hundreds of lives, and every change would wake them all.
func (l *life) until(ctx context.Context, done func() bool) {
	_ = wait.PollUntilContextCancel(ctx, 500*time.Millisecond, true, func(context.Context) (bool, error) { return done(), nil })
}

// persist repeats a request, since the API server is killed now and then and answers strangely when it starts. An answer
// that was lost shows as done.
func persist(ctx context.Context, request func() error, done ...func(error) bool) error {
	return wait.PollUntilContextCancel(ctx, time.Second, true, func(context.Context) (bool, error) {
		err := request()
		switch {
		case err == nil, slices.ContainsFunc(done, func(is func(error) bool) bool { return is(err) }):
			return true, nil
		case apierrors.IsInvalid(err):
			return false, err
		}
		return false, nil
	})
}

func (l *life) make(ctx context.Context) error {
	claims := shared.admin.CoreV1().PersistentVolumeClaims(l.class.s.name)
	pvc := newClaim(l.class.s.name, l.name, l.class.name, "64Mi")
	readWriteOnce(pvc)
	created := time.Now()
	var made *corev1.PersistentVolumeClaim
	if err := persist(ctx, func() (err error) {
		made, err = claims.Create(ctx, pvc, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // an answer was lost
			made, err = claims.Get(ctx, l.name, metav1.GetOptions{})
		}
		return err
	}); err != nil {
		return err
	}
	l.set(func() {
		l.claim = &claim{PersistentVolumeClaim: made, s: l.class.s, class: l.class.class, created: created}
	})
	return nil
}

func (l *life) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

func (l *life) get(is func() bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return is()
}

func (l *life) wasBound() bool { return l.get(func() bool { return l.boundIn > 0 }) }
func (l *life) used() bool     { return l.get(func() bool { return l.usedUp }) }
func (l *life) grew() bool     { return l.get(func() bool { return l.grown }) }

func (l *life) remove(ctx context.Context) {
	l.set(func() { l.deleting = true })
	claims := shared.admin.CoreV1().PersistentVolumeClaims(l.claim.Namespace)
	_ = persist(ctx, func() error {
		return claims.Delete(ctx, l.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &l.claim.UID}})
	}, apierrors.IsNotFound)
}

// expand asks for twice the size and waits until the claim has it.
func (l *life) expand(ctx context.Context) {
	claims := shared.admin.CoreV1().PersistentVolumeClaims(l.claim.Namespace)
	patch := []byte(`{"spec":{"resources":{"requests":{"storage":"128Mi"}}}}`)
	_ = persist(ctx, func() error {
		_, err := claims.Patch(ctx, l.name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	l.until(ctx, func() bool { return l.claim.lacks("", "128Mi", "128Mi") == "" })
	l.set(func() { l.grown = true })
}

// owned succeeds where nobody else's name is on the volume, and puts the claim's there.
const owned = `owner=$(cat /data/owner 2> /dev/null || true)
[ -z "$owner" ] || [ "$owner" = "$CLAIM" ] || { echo "this is the volume of $owner"; exit 3; }
echo "$CLAIM" > /data/owner && sync`

// keptIt succeeds where the claim's name is on the volume.
const keptIt = `[ "$(cat /data/owner)" = "$CLAIM" ] || { ls -la /data; cat /data/owner; exit 3; }`

func (k *soak) consume(ctx context.Context, l *life) {
	if err := k.runPod(ctx, l, "use-", owned); err != nil {
		k.violated("claim %s: %v", l.name, err)
		return
	}
	l.set(func() { l.usedUp = true })
}

// runPod runs a script with the claim's volume at /data until it has succeeded, and fails where it exits with 3.
func (k *soak) runPod(ctx context.Context, l *life, prefix, script string) error {
	pod := consumerPod(l.name, script)
	ownsFiles(pod)
	pod.GenerateName, pod.Name = "", prefix+l.name
	pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CLAIM", Value: string(l.claim.UID)}}
	pods := shared.admin.CoreV1().Pods(k.name)
	if err := persist(ctx, func() error {
		_, err := pods.Create(ctx, pod, metav1.CreateOptions{})
		return err
	}, apierrors.IsAlreadyExists); err != nil {
		return fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	var outcome error
	l.until(ctx, func() bool {
		now := get[corev1.Pod](shared.pods, k.name+"/"+pod.Name)
		if now == nil {
			return false
		}
		for _, c := range now.Status.ContainerStatuses {
			for _, ended := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
				if ended != nil && ended.ExitCode == 3 {
					outcome = fmt.Errorf("pod %s finds somebody else's data: %s", pod.Name, logOf(ctx, now, 10))
					return true
				}
			}
		}
		return now.Status.Phase == corev1.PodSucceeded
	})
	_ = persist(ctx, func() error { return pods.Delete(ctx, pod.Name, metav1.DeleteOptions{}) }, apierrors.IsNotFound)
	return errors.Join(outcome, ctx.Err())
}

// lacks says what is to come until the life has settled.
func (l *life) lacks() string {
	if !l.finishing.Load() {
		if l.claim == nil {
			return l.name + " is not made yet"
		}
		return l.name + " is not at its end: " + l.claim.unbound()
	}
	if l.claim == nil {
		return ""
	}
	if l.stays {
		return l.claim.unbound()
	}
	return l.claim.left()
}

// keepersKept looks at the data of the claims that have lived through all of it.
func (k *soak) keepersKept() {
	k.Helper()
	kept := 0
	for _, l := range k.all() {
		if !l.stays || !l.used() {
			continue
		}
		ctx, cancel := context.WithTimeout(k.Context(), 2*patient)
		if err := k.runPod(ctx, l, "look-", keptIt); err != nil {
			k.violated("claim %s: %v", l.name, err)
		}
		cancel()
		kept++
	}
	k.Logf("%d claims lived through all of it and were looked into", kept)
}

// judge compares, every few seconds, what is bound with what the backends have.
func (k *soak) judge(ctx context.Context) {
	for ctx.Err() == nil {
		for _, class := range k.classes {
			k.missing(class)
		}
		sleep(ctx, 3*time.Second)
	}
}

// missing names claims that were bound before the backend was asked, are not being deleted after it, and have no storage;
// and storage that is there twice.
func (k *soak) missing(class *soakClass) {
	var bound []*life
	for _, l := range k.all() {
		if l.class == class && l.wasBound() && l.get(func() bool { return !l.deleting }) {
			bound = append(bound, l)
		}
	}
	storage, err := class.storage()
	if err != nil {
		return // it was killed
	}
	slices.Sort(storage)
	for i := 1; i < len(storage); i++ {
		if storage[i] == storage[i-1] {
			k.violated("%s has %s twice", class.name, storage[i])
		}
	}
	for _, l := range bound {
		_, has := slices.BinarySearch(storage, l.claim.volumeName())
		if !has && l.get(func() bool { return !l.deleting }) {
			k.violated("claim %s is bound and its storage %s is gone", l.name, l.claim.volumeName())
		}
	}
}

// timesOf is how long claims took that waited until they were bound.
func timesOf(lives []*life) string {
	var times []time.Duration
	for _, l := range lives {
		if l.wasBound() {
			times = append(times, l.boundIn)
		}
	}
	if len(times) == 0 {
		return "none"
	}
	slices.Sort(times)
	at := func(share float64) time.Duration {
		return times[int(share*float64(len(times)-1))].Round(10 * time.Millisecond)
	}
	return fmt.Sprintf("p50 %s, p90 %s, p99 %s, longest %s", at(0.5), at(0.9), at(0.99), at(1))
}
