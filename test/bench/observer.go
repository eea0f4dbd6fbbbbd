package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// moment is a thing that happens once to a claim.
type moment int

const (
	created moment = iota
	annotated
	bound
	podMade // this and the next two: of the provision
	podFinal
	podGone
	deletePodMade
	deletePodFinal
	deletePodGone
	volumeGone
	moments
)

// course is when each thing happened to one claim. What has not happened is zero.
type course struct {
	class string
	at    [moments]time.Time
	pods  int // pods ever seen
}

// observer watches claims, pods and volumes, and notes when what happened.
type observer struct {
	mu      sync.Mutex
	courses map[string]*course       // by the claim's UID
	reached map[string]*[moments]int // how many claims came so far, by class
	running map[string]int           // pods that have not ended, by class
	most    map[string]int           // the highest of that
	changed chan struct{}
	onPod   []func(pod *corev1.Pod, deleted bool)
	onClaim []func(claim *corev1.PersistentVolumeClaim)
	// onVolume is not told of volumes that are gone.
	onVolume []func(volume *corev1.PersistentVolume)
	stop     context.CancelFunc
	done     sync.WaitGroup
}

func newObserver() *observer {
	return &observer{courses: map[string]*course{}, reached: map[string]*[moments]int{}, running: map[string]int{}, most: map[string]int{}, changed: make(chan struct{}, 1)}
}

// start returns when everything that exists has been seen.
func (o *observer) start(ctx context.Context, client kubernetes.Interface) error {
	ctx, o.stop = context.WithCancel(ctx)
	lean := informers.WithTransform(func(obj any) (any, error) {
		if object, ok := obj.(metav1.Object); ok {
			object.SetManagedFields(nil)
		}
		return obj, nil
	})
	all := informers.NewSharedInformerFactoryWithOptions(client, 0, lean)
	for _, on := range []struct {
		informer cache.SharedIndexInformer
		do       func(obj any, deleted bool)
	}{
		{all.Core().V1().PersistentVolumeClaims().Informer(), o.claim},
		{all.Core().V1().PersistentVolumes().Informer(), o.volume},
		{all.Core().V1().Pods().Informer(), o.pod},
	} {
		registration, err := on.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { on.do(obj, false) },
			UpdateFunc: func(_, obj any) { on.do(obj, false) },
			DeleteFunc: func(obj any) {
				if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
					obj = unknown.Obj
				}
				on.do(obj, true)
			},
		})
		if err != nil {
			return fmt.Errorf("observe: %w", err)
		}
		o.done.Go(func() { on.informer.RunWithContext(ctx) })
		if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			return fmt.Errorf("observe: %w", context.Cause(ctx))
		}
	}
	return nil
}

// end stops watching.
func (o *observer) end() {
	o.stop()
	o.done.Wait()
}

// note changes the course of a claim, with mu held, and says that something changed.
func (o *observer) note(uid string, change func(c *course, now time.Time)) {
	o.mu.Lock()
	c, ok := o.courses[uid]
	if !ok {
		c = &course{}
		o.courses[uid] = c
	}
	change(c, time.Now())
	o.mu.Unlock()
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

// mark notes when a thing happened first. It is called with mu held, and counts, so that nobody has to look at all claims
// whenever something happens to one.
func (o *observer) mark(c *course, m moment, now time.Time) {
	if !c.at[m].IsZero() {
		return
	}
	c.at[m] = now
	if c.class != "" {
		o.count(c.class)[m]++
	}
}

// classed notes the class of a claim, of which a pod may have been seen before. It is called with mu held.
func (o *observer) classed(c *course, class string) {
	if c.class != "" {
		return
	}
	c.class = class
	for m := range moments {
		if !c.at[m].IsZero() {
			o.count(class)[m]++
		}
	}
}

func (o *observer) count(class string) *[moments]int {
	if o.reached[class] == nil {
		o.reached[class] = new([moments]int)
	}
	return o.reached[class]
}

// made notes a claim that the bench itself created.
func (o *observer) made(claim *corev1.PersistentVolumeClaim) {
	o.note(string(claim.UID), func(c *course, now time.Time) {
		o.classed(c, *claim.Spec.StorageClassName)
		o.mark(c, created, now)
	})
}

func (o *observer) claim(obj any, deleted bool) {
	claim := obj.(*corev1.PersistentVolumeClaim)
	if deleted {
		return
	}
	o.note(string(claim.UID), func(c *course, now time.Time) {
		if claim.Spec.StorageClassName != nil {
			o.classed(c, *claim.Spec.StorageClassName)
		}
		if claim.Annotations["volume.kubernetes.io/storage-provisioner"] != "" {
			o.mark(c, annotated, now)
		}
		if claim.Status.Phase == corev1.ClaimBound {
			o.mark(c, bound, now)
		}
	})
	for _, on := range o.onClaim {
		on(claim)
	}
}

func (o *observer) volume(obj any, deleted bool) {
	volume := obj.(*corev1.PersistentVolume)
	if ref := volume.Spec.ClaimRef; deleted && ref != nil {
		o.note(string(ref.UID), func(c *course, now time.Time) { o.mark(c, volumeGone, now) })
	}
	for _, on := range o.onVolume {
		if !deleted {
			on(volume)
		}
	}
}

func (o *observer) pod(obj any, deleted bool) {
	pod := obj.(*corev1.Pod)
	if operation, uid, _, ok := podspec.ParseName(pod.Name); ok {
		ended := deleted || podspec.OutcomeOf(pod).Final()
		o.note(uid, func(c *course, now time.Time) { o.notePod(c, pod, operation, ended, deleted, now) })
	}
	for _, on := range o.onPod {
		on(pod, deleted)
	}
}

// notePod is called with mu held.
func (o *observer) notePod(c *course, pod *corev1.Pod, operation contract.Operation, ended, deleted bool, now time.Time) {
	made, final, gone := podMade, podFinal, podGone
	if operation == contract.Delete {
		made, final, gone = deletePodMade, deletePodFinal, deletePodGone
	}
	class := pod.Annotations[contract.AnnClass]
	if c.at[made].IsZero() {
		c.pods++
		o.running[class]++
		o.most[class] = max(o.most[class], o.running[class])
	}
	if ended && c.at[final].IsZero() {
		o.running[class]--
	}
	o.mark(c, made, now)
	if ended {
		o.mark(c, final, now)
	}
	if deleted {
		o.mark(c, gone, now)
	}
}

// until waits for a condition, which is asked with mu held whenever something has happened: it must not look at all claims.
func (o *observer) until(ctx context.Context, what string, satisfied func() bool) error {
	for {
		o.mu.Lock()
		ok := satisfied()
		o.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-o.changed:
		case <-ctx.Done():
			o.mu.Lock()
			defer o.mu.Unlock()
			return fmt.Errorf("wait for %s: %w: %s", what, context.Cause(ctx), o.summary())
		}
	}
}

// summary says how far the claims came, for an error. It is called with mu held.
func (o *observer) summary() string {
	var came [moments]int
	for _, of := range o.reached {
		for m, n := range of {
			came[m] += n
		}
	}
	return fmt.Sprintf("of %d claims %d were annotated, %d had a pod, %d one that ended, %d one that is gone, %d are bound, %d volumes are gone",
		len(o.courses), came[annotated], came[podMade], came[podFinal], came[podGone], came[bound], came[volumeGone])
}

// all is a condition: n claims of a class came so far.
func (o *observer) all(n int, class string, m moment) func() bool {
	return func() bool { return o.count(class)[m] >= n }
}

// spans are the times from one thing to another, over the claims of a class that came so far.
func (o *observer) spans(class string, from, to moment) series {
	o.mu.Lock()
	defer o.mu.Unlock()
	var s series
	for _, c := range o.courses {
		if a, b := c.at[from], c.at[to]; c.class == class && !a.IsZero() && !b.IsZero() {
			s = append(s, max(0, b.Sub(a)))
		}
	}
	return s
}

// latest is when the last of the claims of a class came so far.
func (o *observer) latest(class string, m moment) (last time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.courses {
		if t := c.at[m]; c.class == class && t.After(last) {
			last = t
		}
	}
	return last
}
