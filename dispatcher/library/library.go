package library

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller/metrics"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/util"
)

// Handler gets what the library hands over. Its methods return at once.
type Handler interface {
	// IsProvisioning reports whether the claim was handed over before.
	IsProvisioning(claim *corev1.PersistentVolumeClaim) bool
	// Provision takes a claim to be provisioned.
	Provision(claim *corev1.PersistentVolumeClaim, class string)
	// Refuse takes a volume that is to be deleted and that no provisioner pod can have made.
	Refuse(volume *corev1.PersistentVolume)
}

// Library hands claims to a Handler. Make it with New, and start it once with Run.
type Library struct {
	controller *controller.ProvisionController
	handlers   []cache.ResourceEventHandler // of the library, for claims; complete when New returns
}

// Informers that the library shares with the caller.
type Informers struct {
	Claims, Volumes, Classes cache.SharedIndexInformer
	// MadeByHand reports whether no provisioner pod can have made a volume of the name. The library decides about these
	// volumes alone.
	MadeByHand func(volumeName string) bool
}

// New makes the library's controller. It has to be called before the informers start, since it adds an index, and
// before any other client of the process is at work, since it adds to the scheme that all of them decode by.
//
// Thresholds of 0 mean that it never gives up: its default is to forget a claim after 15 failures, and its storage with
// it. It saves no volumes. The limiter, which only a saving would use, keeps it from choosing the store that deletes
// storage when a save fails.
//
// It puts its finalizer on no volume, and takes it off those that it sees: no pod will remove their storage, so that
// nobody would ever take it off.
//
// Its own events say only that the provisioner was called. So it gets a context that has ended, which stops its writer
// of events, and a logger that does not complain of each: the writer would remember thousands of claims that are gone.
// It runs, and logs, with the context of Run.
func New(
	ctx context.Context, api kubernetes.Interface, provisioner string, handler Handler, informers Informers,
	counts metrics.Metrics,
) *Library {
	ended, end := context.WithCancel(klog.NewContext(ctx, klog.New(nil)))
	end()

	l := &Library{}
	l.controller = controller.NewProvisionController(ended, api, provisioner, adapter{handler},
		controller.LeaderElection(false),
		controller.FailedProvisionThreshold(0),
		controller.FailedDeleteThreshold(0),
		controller.RateLimiter(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute)),
		controller.CreateProvisionedPVLimiter(workqueue.DefaultTypedControllerRateLimiter[string]()),
		controller.ResyncPeriod(0),
		controller.Threadiness(4),
		controller.ClaimsInformer(claimInformer{informers.Claims, l}),
		controller.VolumesInformer(volumeInformer{informers.Volumes, informers.MadeByHand}),
		controller.ClassesInformer(informers.Classes),
		controller.MetricsInstance(counts),
	)

	return l
}

// Run hands over until ctx ends. running counts the library's goroutines.
func (l *Library) Run(ctx context.Context, running *sync.WaitGroup) {
	l.controller.ControllerWaitGroup(running)
	l.controller.Run(ctx)
}

// Resync makes the library sync a claim that did not change. It has no other way to do that.
func (l *Library) Resync(claim *corev1.PersistentVolumeClaim) {
	for _, handler := range l.handlers {
		handler.OnUpdate(claim, claim)
	}
}

// claimInformer remembers the library's handlers. Only the library listens by this method.
type claimInformer struct {
	cache.SharedIndexInformer
	library *Library
}

func (c claimInformer) AddEventHandlerWithResyncPeriod(
	handler cache.ResourceEventHandler, resync time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	c.library.handlers = append(c.library.handlers, handler)
	return c.SharedIndexInformer.AddEventHandlerWithResyncPeriod(handler, resync)
}

// volumeInformer shows the library's handlers the volumes alone that no provisioner pod can have made. The dispatcher
// decides about the others by all their objects. The library decides by a volume alone: it takes the finalizer off a
// retained volume while the pods of its attempts exist, and by a cache that may be old.
type volumeInformer struct {
	cache.SharedIndexInformer
	madeByHand func(volumeName string) bool
}

func (v volumeInformer) AddEventHandlerWithResyncPeriod(
	handler cache.ResourceEventHandler, resync time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	shown := func(obj any) bool {
		volume, ok := obj.(*corev1.PersistentVolume)
		return !ok || v.madeByHand(volume.Name) // a tombstone only ends what the library remembers
	}

	filtered := cache.FilteringResourceEventHandler{FilterFunc: shown, Handler: handler}

	return v.SharedIndexInformer.AddEventHandlerWithResyncPeriod(filtered, resync)
}

// adapter is what the library calls. To the library each claim is "ignored" after that, which writes no event, starts
// no retry of its own and needs no permission to create volumes.
type adapter struct{ handler Handler }

var (
	_ controller.Provisioner      = adapter{}
	_ controller.Qualifier        = adapter{}
	_ controller.BlockProvisioner = adapter{}
)

// ShouldProvision keeps claims from Provision that were handed over before: the library would write an event for each
// call.
func (a adapter) ShouldProvision(_ context.Context, claim *corev1.PersistentVolumeClaim) bool {
	return !a.handler.IsProvisioning(claim)
}

// SupportsBlock leaves the volume mode to the class's ConfigMap, whose refusal says more than the library's.
func (a adapter) SupportsBlock(context.Context) bool { return true }

// Provision hands a claim over. It never returns a volume: the library would create it, and an object that was read
// from the API fails there in a way that ends in the deletion of the storage.
func (a adapter) Provision(
	_ context.Context, o controller.ProvisionOptions,
) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	a.handler.Provision(o.PVC, util.GetPersistentVolumeClaimClass(o.PVC))
	return nil, controller.ProvisioningInBackground, &controller.IgnoredError{Reason: "the claim was handed over"}
}

// Delete is called for volumes that volumeInformer shows.
func (a adapter) Delete(_ context.Context, volume *corev1.PersistentVolume) error {
	a.handler.Refuse(volume)
	return &controller.IgnoredError{Reason: "no provisioner pod can have made the volume"}
}
