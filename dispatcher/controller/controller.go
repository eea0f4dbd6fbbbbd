package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/admission"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/cache"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/queue"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reader"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/recorder"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/tracing"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/writer"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// Options of a controller.
type Options struct {
	ProvisionerName string
	Pods            podspec.Cluster
	DeleteLimit     int
	RecordKey       podspec.RecordKey
	// Workers of each class.
	Workers int

	Client   kubernetes.Interface
	Cache    *cache.Cache
	Recorder *recorder.Recorder
	// Now is the API server's time.
	Now func() time.Time
	// Policies is the verdict on the admission policies.
	Policies func() admission.Verdict
	// Resync makes the library look at a claim again.
	Resync func(claim *corev1.PersistentVolumeClaim)
	// Trace takes spans, and returns at once. Nil is for no traces.
	Trace func([]tracing.Span)
}

// Controller reconciles claims. Make it with New, call Listen before the caches fill, and Run once they have.
type Controller struct {
	Options
	reader  reader.Reader
	writer  writer.Writer
	queue   *queue.Queue
	memory  *memory
	judging workqueue.TypedDelayingInterface[string] // classes whose ConfigMaps changed
}

// New makes a controller.
func New(o Options) *Controller {
	c := &Controller{Options: o, reader: reader.Reader{Client: o.Client, Namespace: o.Pods.Namespace, RecordKey: o.RecordKey}, writer: writer.Writer{Client: o.Client},
		memory: newMemory(), judging: workqueue.NewTypedDelayingQueue[string]()}
	c.queue = queue.New(o.Workers, c.reconcile)
	return c
}

// sayAgainAfter is when what a lost event was about is looked at again.
const sayAgainAfter = time.Minute

// SayAgain asks for a look at a claim, or at the class of a ConfigMap, of which an event was lost. Either may be empty.
func (c *Controller) SayAgain(claimUID, configMap string) {
	if claimUID != "" {
		c.queue.RequeueAfter(claimUID, sayAgainAfter)
	}
	if cm := c.Cache.ConfigMap(configMap); cm != nil {
		c.judging.AddAfter(configmaps.ClassName(cm), sayAgainAfter)
	}
}

// ReconcileAll asks for a look at everything that is going on.
func (c *Controller) ReconcileAll() { c.queue.RequeueAll() }

// JudgeAll judges the ConfigMaps of every class. It comes before the library hands claims over: an early claim would be told that
// its class has none. What is good is kept once Run has begun, so that nobody waits for that.
func (c *Controller) JudgeAll() {
	names := map[string]bool{}
	for _, cm := range cache.All[*corev1.ConfigMap](c.Cache.ConfigMaps) {
		names[configmaps.ClassName(cm)] = true
	}
	for class := range names {
		c.judgeClass(class)
		c.judging.Add(class)
	}
}

// Run starts the controller's goroutines, which running counts. They end with ctx.
func (c *Controller) Run(ctx context.Context, running *sync.WaitGroup) {
	context.AfterFunc(ctx, c.judging.ShutDown)
	running.Go(func() {
		for c.judgeNext(ctx) {
		}
	})
	running.Go(func() { wait.UntilWithContext(ctx, func(context.Context) { c.expire(c.Now()) }, expirePeriod) })
	c.queue.Start(ctx)
	running.Go(func() {
		<-ctx.Done()
		c.queue.Wait()
	})
}

// Listen makes every change that concerns a claim lead to a look at it. Nothing polls.
func (c *Controller) Listen() error {
	for _, h := range []struct {
		informer clientcache.SharedIndexInformer
		changed  func(obj any, deleted bool)
	}{
		{c.Cache.Pods, on(c.podChanged)},
		{c.Cache.Claims, on(c.claimChanged)},
		{c.Cache.Volumes, on(c.volumeChanged)},
		{c.Cache.ConfigMaps, on(func(cm *corev1.ConfigMap, _ bool) { c.judging.Add(configmaps.ClassName(cm)) })},
		{c.Cache.Classes, on(c.classChanged)},
		{c.Cache.Revisions, on(c.revisionChanged)},
		{c.Cache.Stop, on(c.stopChanged)},
		{c.Cache.PodEvents, on(c.podEventChanged)},
	} {
		_, err := h.informer.AddEventHandler(clientcache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) { h.changed(obj, false) },
			UpdateFunc: func(old, obj any) {
				switch old.(type) {
				case *corev1.ConfigMap, *storagev1.StorageClass:
					h.changed(old, false) // it concerns the class that it leaves, too
				}
				h.changed(obj, false)
			},
			DeleteFunc: func(obj any) {
				if unknown, ok := obj.(clientcache.DeletedFinalStateUnknown); ok {
					obj = unknown.Obj
				}
				h.changed(obj, true)
			},
		})
		if err != nil {
			return fmt.Errorf("listen for changes: %w", err)
		}
	}
	return nil
}

func on[T any](do func(object T, deleted bool)) func(obj any, deleted bool) {
	return func(obj any, deleted bool) { do(obj.(T), deleted) }
}

func (c *Controller) podChanged(pod *corev1.Pod, deleted bool) {
	op, uid, _, ok := podspec.ParseName(pod.Name)
	if !ok {
		return
	}
	class, outcome := classOf(pod), podspec.OutcomeOf(pod)
	if deleted {
		c.memory.podGone(pod.UID)
	}
	if c.queue.PodChanged(class, namespaceOf(pod), uid, pod.Name, deleted || outcome.Final()) {
		c.Recorder.Metrics.PodEnded(class, op, outcome, c.Now().Sub(pod.CreationTimestamp.Time))
	}
	c.Recorder.Metrics.SetPods(class, c.queue.Pods(class))
}

func (c *Controller) claimChanged(claim *corev1.PersistentVolumeClaim, _ bool) {
	c.look(string(claim.UID), claim.Namespace)
	c.lookAtClones(claim.Namespace, claim.Name)
}

func (c *Controller) volumeChanged(v *corev1.PersistentVolume, deleted bool) {
	if deleted {
		c.volumeDeleted(v)
	}
	if uid, ok := podspec.ClaimUIDOf(v.Name); ok {
		c.look(uid, claimNamespace(v))
	}
	if ref := v.Spec.ClaimRef; ref != nil {
		c.lookAtClones(ref.Namespace, ref.Name)
	}
}

// look asks for a look at a claim that is known, or that is bound and of which something is due all the same: the library knows nothing
// of that. It is called for the claim and for its volume, and so once when the caches hold both.
func (c *Controller) look(uid, namespace string) {
	if class, ok := c.Cache.Due(uid); ok {
		c.queue.Add(class, namespace, uid)
		return
	}
	c.queue.Requeue(uid)
}

func (c *Controller) lookAtClones(namespace, name string) {
	for _, clone := range c.Cache.ClonesOf(namespace, name) {
		c.queue.Requeue(string(clone.UID))
	}
}

func (c *Controller) podEventChanged(event *corev1.Event, deleted bool) {
	if _, uid, _, ok := podspec.ParseName(event.InvolvedObject.Name); ok && !deleted {
		c.queue.Requeue(uid)
	}
}

// IsWanted says that the claim was taken in already.
func (c *Controller) IsWanted(claim *corev1.PersistentVolumeClaim) bool {
	return c.memory.claim(string(claim.UID)).wanted
}

// Want takes in a claim to be provisioned.
func (c *Controller) Want(claim *corev1.PersistentVolumeClaim, class string) {
	uid := string(claim.UID)
	c.memory.handOver(uid, func(m *claimMemory) {
		if m.wanted = true; m.since.IsZero() {
			m.since = c.Now()
		}
	}, func() { c.queue.Add(class, claim.Namespace, uid) })
}

// Release takes in a volume to be deleted.
func (c *Controller) Release(v *corev1.PersistentVolume, class string) {
	uid, ok := podspec.ClaimUIDOf(v.Name)
	if !ok {
		c.Recorder.Warn(v, events.ReasonNotOurs, events.NotOurs, "volume", v.Name)
		return
	}
	c.memory.handOver(uid, func(m *claimMemory) { m.released = v.UID }, func() { c.queue.Add(class, claimNamespace(v), uid) })
}

// forget ends what is about a claim, unless something was handed over since the snapshot was taken.
func (c *Controller) forget(uid, class string, revision uint64) bool {
	forgotten := c.memory.forget(uid, revision, func() {
		c.Recorder.Forget(uid)
		// A pod may have come since the snapshot was taken, and have made the claim known just before it is forgotten. The look that it
		// asked for comes, but no later one would: its place, its claim and its class would ask in vain.
		c.queue.Forget(uid, len(c.Cache.PodsOf(uid)) > 0)
	})
	if !forgotten {
		c.queue.Requeue(uid)
		return false
	}
	c.endClass(class)
	return true
}

// endClass ends what is about a class that does not exist any more, unless something of it goes on. It is called when the class
// changes and when a claim is forgotten, of which either may be the last. Metrics stay for a while, so that they are read once more.
func (c *Controller) endClass(class string) {
	if c.Cache.Class(class) == nil && c.queue.EndClass(class) {
		c.Recorder.Metrics.EndClass(class, c.Now())
	}
}

const expirePeriod = time.Minute

// expire forgets what ends with time, and reminds of what no claim or class reminds of.
func (c *Controller) expire(now time.Time) {
	c.memory.expire(now)
	if cm := c.Cache.StopDeletes(); cm != nil {
		c.tellStopped(cm) // again, after a while
	}
	c.Recorder.Metrics.Expire(now, func(class string) bool { return c.Cache.Class(class) != nil || c.queue.Active(class) > 0 })
}

// Queued counts the claims that wait for a look at them, by class. A class that does not exist is the empty one: any claim may name it.
func (c *Controller) Queued() map[string]int {
	counts := map[string]int{}
	for class, n := range c.queue.Depths() {
		if c.Cache.Class(class) == nil {
			class = ""
		}
		counts[class] += n
	}
	return counts
}

// classOf is the full name of the class that a provisioner pod works for.
func classOf(pod *corev1.Pod) string { return pod.Annotations[contract.AnnClass] }

// claimNamespace is the namespace of the claim that a volume is for, empty where it is for none.
func claimNamespace(v *corev1.PersistentVolume) string {
	if v.Spec.ClaimRef == nil {
		return ""
	}
	return v.Spec.ClaimRef.Namespace
}
