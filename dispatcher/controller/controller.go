package controller

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/admission"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/cache"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/queue"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reader"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/recorder"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/writer"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Options of a controller.
type Options struct {
	ProvisionerName string
	Pods            podspec.Cluster
	DeleteLimit     int
	RecordKey       podspec.RecordKey
	// Workers of each class.
	Workers int
	// SystemNamespace takes the CSIStorageCapacity objects.
	SystemNamespace string

	Client kubernetes.Interface
	// Snapshots reads and writes the objects of snapshots. Without it there are no snapshots.
	Snapshots snapshotclient.Interface
	Cache     *cache.Cache
	Recorder  *recorder.Recorder
	// Now is the API server's time.
	Now func() time.Time
	// Policies is the verdict on the admission policies.
	Policies func() admission.Verdict
	// Resync makes the library sync a claim.
	Resync func(claim *corev1.PersistentVolumeClaim)
}

// Controller reconciles claims. Make it with New, call Listen before the caches fill, and Run once they have.
type Controller struct {
	Options
	reader     reader.Reader
	writer     writer.Writer
	queue      *queue.Queue
	memory     *memory
	classQueue workqueue.TypedDelayingInterface[string] // classes whose ConfigMaps changed
}

// New makes a controller.
func New(o Options) *Controller {
	c := &Controller{
		Options: o,
		reader: reader.Reader{
			Client: o.Client, Snapshots: o.Snapshots, Namespace: o.Pods.Namespace, RecordKey: o.RecordKey,
		},
		writer:     writer.Writer{Client: o.Client, Snapshots: o.Snapshots},
		memory:     newMemory(),
		classQueue: workqueue.NewTypedDelayingQueue[string](),
	}
	c.queue = queue.New(o.Workers, c.reconcile)

	return c
}

// ReconcileAll requeues all known claims.
func (c *Controller) ReconcileAll() { c.queue.RequeueAll() }

// SyncClasses syncs every class that has a ConfigMap. It comes before the library hands claims over: an early claim
// would get an event that its class has none. Valid versions are saved once Run has started, so that nothing waits for
// that.
func (c *Controller) SyncClasses() {
	names := map[string]bool{}
	for _, cm := range cache.All[*corev1.ConfigMap](c.Cache.ConfigMaps) {
		names[configmaps.ClassName(cm)] = true
	}

	for class := range names {
		c.syncClass(class)
		c.classQueue.Add(class)
	}

	for _, class := range cache.All[*storagev1.StorageClass](c.Cache.Classes) {
		c.classQueue.Add(class.Name)
	}
}

// Run starts the controller's goroutines, which running counts. They end with ctx.
func (c *Controller) Run(ctx context.Context, running *sync.WaitGroup) {
	context.AfterFunc(ctx, c.classQueue.ShutDown)
	running.Go(func() {
		for c.syncNextClass(ctx) {
		}
	})
	running.Go(func() { wait.UntilWithContext(ctx, func(context.Context) { c.expire(c.Now()) }, expirePeriod) })

	c.queue.Start(ctx)
	running.Go(func() {
		<-ctx.Done()
		c.queue.Wait()
	})
}

// Listen registers handlers that requeue a claim, or a class, at every change that concerns it. Nothing polls. synced
// report whether the handlers have seen what the informers listed first. An informer has synced before that.
func (c *Controller) Listen() (synced []clientcache.InformerSynced, err error) {
	for _, h := range []struct {
		informer clientcache.SharedIndexInformer
		changed  func(obj any, deleted bool)
	}{
		{c.Cache.Pods, on(c.podChanged)},
		{c.Cache.Claims, on(c.claimChanged)},
		{c.Cache.Volumes, on(c.volumeChanged)},
		{c.Cache.ConfigMaps, on(func(cm *corev1.ConfigMap, _ bool) { c.classQueue.Add(configmaps.ClassName(cm)) })},
		{c.Cache.Classes, on(c.classChanged)},
		{c.Cache.Revisions, on(c.revisionChanged)},
		{c.Cache.Saved, on(c.savedChanged)},
		{c.Cache.Stop, on(c.stopChanged)},
		{c.Cache.PodEvents, on(c.podEventChanged)},
		{c.Cache.Attachments, on(c.attachmentChanged)},
	} {
		registration, err := h.informer.AddEventHandler(handlerOf(h.changed))
		if err != nil {
			return nil, fmt.Errorf("listen for changes: %w", err)
		}

		synced = append(synced, registration.HasSynced)
	}

	return synced, nil
}

func handlerOf(changed func(obj any, deleted bool)) clientcache.ResourceEventHandlerFuncs {
	return clientcache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { changed(obj, false) },
		UpdateFunc: func(old, obj any) {
			switch old.(type) {
			case *corev1.ConfigMap, *storagev1.StorageClass:
				changed(old, false) // the class that it was of changes, too
			}

			changed(obj, false)
		},
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(clientcache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}

			changed(obj, true)
		},
	}
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
	ended := deleted || outcome.Final()
	source, copied := podspec.ClaimUIDOf(observed.SourceVolume(pod))
	if copied && ended {
		c.queue.Requeue(source) // its delete waits for the copy
	}

	if ended {
		c.restoreEnded(pod)
	}

	if deleted {
		c.memory.deletionObserved(pod.UID)
	}

	released := c.queue.PodChanged(class, namespaceOf(pod), uid, pod.Name, ended)
	if released {
		c.Recorder.Metrics.PodEnded(class, op, outcome, c.Now().Sub(pod.CreationTimestamp.Time))
	}
}

// savedChanged requeues the claim of a saved pod, as a change of a pod that has ended does.
func (c *Controller) savedChanged(record *appsv1.ControllerRevision, deleted bool) {
	if deleted {
		c.memory.deletionObserved(record.UID)
	}

	pod := podspec.SavedPod(record)
	if pod == nil {
		return
	}

	_, uid, _, _ := podspec.ParseName(pod.Name)
	c.queue.Add(classOf(pod), namespaceOf(pod), uid)
}

func (c *Controller) claimChanged(claim *corev1.PersistentVolumeClaim, deleted bool) {
	if v := c.Cache.Volume(claim.Spec.VolumeName); !deleted && v != nil {
		c.tellAsksInVain(claim, v)
	}

	c.enqueue(string(claim.UID), claim.Namespace)
	if key := c.Cache.KeyOf(claim); key != string(claim.UID) {
		c.enqueue(key, claim.Namespace) // its volume was made for another claim
	}

	c.requeueClones(claim.Namespace, claim.Name)
	c.requeueSnapshotsOf(claim.Namespace, claim.Name)
	c.mountChanged(claim.Namespace)
}

// tellAsksInVain tells a claim that nobody expands its volume. It is called when either of them changes, because either
// may reach its cache last.
func (c *Controller) tellAsksInVain(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
	if observed.AsksInVain(claim, v, c.ProvisionerName) {
		c.Recorder.Warn(claim, "", events.ReasonExpansionRefused, events.NotOursToExpand, "volume", v.Name)
	}
}

// mountChanged requeues what may wait for a claim that pods mount. There are few in the pods' namespace, and they
// seldom change.
func (c *Controller) mountChanged(namespace string) {
	if namespace == c.Pods.Namespace {
		c.queue.RequeueAll()
	}
}

func (c *Controller) volumeChanged(v *corev1.PersistentVolume, deleted bool) {
	if deleted {
		c.volumeDeleted(v)
	}

	if uid, ok := podspec.ClaimUIDOf(v.Name); ok {
		if !deleted && observed.Due(v, c.ProvisionerName) {
			add := func() { c.queue.Add(podspec.ClassOf(v), claimNamespace(v), uid) }
			c.memory.handOver(uid, func(*claimMemory) {}, add)
		}

		c.enqueue(uid, claimNamespace(v))
	}

	for _, va := range c.Cache.AttachmentsOf(v) {
		c.attachmentChanged(va, false)
	}

	if ref := v.Spec.ClaimRef; ref != nil {
		if claim := c.Cache.ClaimNamed(ref.Namespace, ref.Name); !deleted && claim != nil {
			c.tellAsksInVain(claim, v)
		}

		c.requeueClones(ref.Namespace, ref.Name)
		c.requeueSnapshotsOf(ref.Namespace, ref.Name)
		c.mountChanged(ref.Namespace)
	}
}

// enqueue requeues a claim that is known. It adds a bound claim that has to be expanded, or whose status is outdated,
// and a volume that lost its record: the library hands over none of these. It is called for the claim and for its
// volume, and so at least once when the caches hold both.
func (c *Controller) enqueue(uid, namespace string) {
	if class, ok := c.Cache.Due(uid); ok {
		c.queue.Add(class, namespace, uid)
		return
	}

	c.queue.Requeue(uid)
}

func (c *Controller) requeueClones(namespace, name string) {
	for _, clone := range c.Cache.ClonesOf(namespace, name) {
		c.queue.Requeue(string(clone.UID))
	}
}

func (c *Controller) podEventChanged(event *corev1.Event, deleted bool) {
	if _, uid, _, ok := podspec.ParseName(event.InvolvedObject.Name); ok && !deleted {
		c.queue.Requeue(uid)
	}
}

// IsProvisioning reports whether the library has handed the claim over.
func (c *Controller) IsProvisioning(claim *corev1.PersistentVolumeClaim) bool {
	return c.memory.claim(string(claim.UID)).wanted
}

// Provision adds a claim that the library hands over to be provisioned.
func (c *Controller) Provision(claim *corev1.PersistentVolumeClaim, class string) {
	uid := string(claim.UID)
	c.memory.handOver(uid, func(m *claimMemory) {
		m.wanted = true
		if m.since.IsZero() {
			m.since = c.Now()
		}
	}, func() { c.queue.Add(class, claim.Namespace, uid) })
}

// Refuse records that nobody removes the storage of a volume that no provisioner pod can have made.
func (c *Controller) Refuse(v *corev1.PersistentVolume) {
	c.Recorder.Warn(v, "", events.ReasonNotOurs, events.NotOurs, "volume", v.Name)
}

// forget ends all memory of a claim, unless the library handed something over since the claim was observed.
func (c *Controller) forget(uid, class string, revision uint64) bool {
	forgotten := c.memory.forget(uid, revision, func() {
		c.Recorder.Forget(uid)
		// A pod may have been created since the claim was observed. Its claim stays known: later changes requeue only
		// known claims.
		c.queue.Forget(uid, len(c.Cache.PodsOf(uid))+len(c.Cache.SavedOf(uid)) > 0)
	})
	if !forgotten {
		c.queue.Requeue(uid)
		return false
	}

	c.endClass(class)

	return true
}

// endClass ends the queue of a class that does not exist and has no known claim, and a while later its metrics, so that
// they are collected once more. It is called when the class changes and when a claim is forgotten, since either may
// come last.
func (c *Controller) endClass(class string) {
	if c.Cache.Class(class) != nil {
		return
	}

	if c.queue.EndClass(class) {
		c.Recorder.EndClass(class)
	}
}

const expirePeriod = time.Minute

// expire ends memory whose time is over, and records again what persists and belongs to no claim or class.
func (c *Controller) expire(now time.Time) {
	c.memory.expire(now)
	if cm := c.Cache.StopDeletes(); cm != nil {
		c.recordStopped(cm) // once an hour
	}

	c.Recorder.Expire(func(class string) bool { return c.Cache.Class(class) != nil || c.queue.Active(class) > 0 })
}

// Queued counts the queued claims by class. Those of classes that do not exist count for the empty one, since a claim
// may name any.
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

// RunningPods counts the pods that have not ended, by class. Classes without pods that do not exist are left out, since
// a claim may name any.
func (c *Controller) RunningPods() map[string]int {
	counts := c.queue.Pods()
	maps.DeleteFunc(counts, func(class string, n int) bool { return n == 0 && c.Cache.Class(class) == nil })

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
