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

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// course is when each thing happened to one claim. What has not happened is zero.
type course struct {
	class                                   string
	created, annotated, bound, volumeGone   time.Time
	podMade, podFinal, podGone              time.Time // of the provision
	deletePodMade, deletePodFinal, podsGone time.Time
	pods                                    int // pods ever seen
}

// observer watches claims, pods and volumes, and notes when what happened.
type observer struct {
	mu      sync.Mutex
	courses map[string]*course // by the claim's UID
	running map[string]int     // pods that have not ended, by class
	most    map[string]int     // the highest of that
	changed chan struct{}
	onPod   []func(pod *corev1.Pod, deleted bool)
	onClaim []func(claim *corev1.PersistentVolumeClaim)
	// onVolume is not told of volumes that are gone.
	onVolume []func(volume *corev1.PersistentVolume)
	stop     context.CancelFunc
	done     sync.WaitGroup
}

func newObserver() *observer {
	return &observer{courses: map[string]*course{}, running: map[string]int{}, most: map[string]int{}, changed: make(chan struct{}, 1)}
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

// note changes the course of a claim.
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

func once(t *time.Time, now time.Time) {
	if t.IsZero() {
		*t = now
	}
}

func (o *observer) claim(obj any, deleted bool) {
	claim := obj.(*corev1.PersistentVolumeClaim)
	if deleted {
		return
	}
	o.note(string(claim.UID), func(c *course, now time.Time) {
		if claim.Spec.StorageClassName != nil {
			c.class = *claim.Spec.StorageClassName
		}
		if claim.Annotations["volume.kubernetes.io/storage-provisioner"] != "" {
			once(&c.annotated, now)
		}
		if claim.Status.Phase == corev1.ClaimBound {
			once(&c.bound, now)
		}
	})
	for _, on := range o.onClaim {
		on(claim)
	}
}

func (o *observer) volume(obj any, deleted bool) {
	volume := obj.(*corev1.PersistentVolume)
	if ref := volume.Spec.ClaimRef; deleted && ref != nil {
		o.note(string(ref.UID), func(c *course, now time.Time) { once(&c.volumeGone, now) })
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
	made, final := &c.podMade, &c.podFinal
	if operation == contract.Delete {
		made, final = &c.deletePodMade, &c.deletePodFinal
	}
	class := pod.Annotations[contract.AnnClass]
	if made.IsZero() {
		*made = now
		c.pods++
		o.running[class]++
		o.most[class] = max(o.most[class], o.running[class])
	}
	if ended && final.IsZero() {
		*final = now
		o.running[class]--
	}
	if deleted && operation == contract.Provision {
		once(&c.podGone, now)
	} else if deleted {
		once(&c.podsGone, now)
	}
}

// until waits for a condition on the courses, which is asked with the lock held.
func (o *observer) until(ctx context.Context, what string, satisfied func(map[string]*course) bool) error {
	for {
		o.mu.Lock()
		ok := satisfied(o.courses)
		o.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-o.changed:
		case <-ctx.Done():
			o.mu.Lock()
			defer o.mu.Unlock()
			return fmt.Errorf("wait for %s: %w: %s", what, context.Cause(ctx), summary(o.courses))
		}
	}
}

// summary says how far the claims came, for an error.
func summary(courses map[string]*course) string {
	count := func(of func(*course) time.Time) (n int) {
		for _, c := range courses {
			if !of(c).IsZero() {
				n++
			}
		}
		return n
	}
	return fmt.Sprintf("of %d claims %d were annotated, %d had a pod, %d one that ended, %d one that is gone, %d are bound, %d volumes are gone", len(courses),
		count(func(c *course) time.Time { return c.annotated }), count(func(c *course) time.Time { return c.podMade }),
		count(func(c *course) time.Time { return c.podFinal }), count(func(c *course) time.Time { return c.podGone }),
		count(func(c *course) time.Time { return c.bound }), count(func(c *course) time.Time { return c.volumeGone }))
}

// all is a condition that holds of n claims of a class.
func all(n int, class string, of func(*course) time.Time) func(map[string]*course) bool {
	return func(courses map[string]*course) bool {
		if len(courses) < n {
			return false
		}
		came := 0
		for _, c := range courses {
			if c.class == class && !of(c).IsZero() {
				came++
			}
		}
		return came >= n
	}
}

// spans are the times from one thing to another, over the claims of a class that came so far.
func (o *observer) spans(class string, from, to func(*course) time.Time) series {
	o.mu.Lock()
	defer o.mu.Unlock()
	var s series
	for _, c := range o.courses {
		if a, b := from(c), to(c); c.class == class && !a.IsZero() && !b.IsZero() {
			s = append(s, max(0, b.Sub(a)))
		}
	}
	return s
}

// latest is when the last of the claims of a class came to something.
func (o *observer) latest(class string, of func(*course) time.Time) (last time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.courses {
		if t := of(c); c.class == class && t.After(last) {
			last = t
		}
	}
	return last
}

// Moments of a course.
func created(c *course) time.Time        { return c.created }
func annotated(c *course) time.Time      { return c.annotated }
func bound(c *course) time.Time          { return c.bound }
func podMade(c *course) time.Time        { return c.podMade }
func podFinal(c *course) time.Time       { return c.podFinal }
func podGone(c *course) time.Time        { return c.podGone }
func deletePodFinal(c *course) time.Time { return c.deletePodFinal }
func deletePodGone(c *course) time.Time  { return c.podsGone }
func volumeGone(c *course) time.Time     { return c.volumeGone }
