package dispatcher

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// Options of a dispatcher. All are required unless a default is named.
type Options struct {
	// ProvisionerName is the StorageClasses' provisioner that this dispatcher serves.
	ProvisionerName string
	// Pods is what all provisioner pods have in common.
	Pods podspec.Cluster
	// AllowedHostPaths are the directories of nodes under which ConfigMaps may name a host-path. None by default.
	AllowedHostPaths []string
	// Threads work on each class; default 32. They never wait for a pod, but for the API server: with
	// fewer a burst is as slow as its answers.
	Threads int
	// DeleteLimit is how many volumes of a class that are older than a day may be deleted within an hour before the rest
	// waits for an administrator, where the class's ConfigMap says nothing. Default 0, no limit.
	DeleteLimit int
	// RecordKey signs the records on volumes. It has podspec.MinRecordKey bytes or more, and is the same after a restart.
	RecordKey podspec.RecordKey
	// SystemNamespace holds the allow-list that the admission policies read.
	SystemNamespace string
	// InsecureWithoutPolicies makes pods even where the admission policies are not in force that keep a provisioner from
	// creating volumes other than its own. Default false.
	InsecureWithoutPolicies bool
	// Trial makes requests with TrialIdentity, by which the dispatcher sees that the policies are in force, at its start and
	// when they change. Nil, or with InsecureWithoutPolicies, their text alone is compared, or nothing.
	Trial kubernetes.Interface
	// Events is the client that writes events, so that a flood of them takes nothing from the limits of the other; default
	// is the client of New.
	Events kubernetes.Interface
	// Registry takes the metrics.
	Registry prometheus.Registerer
}

// Dispatcher runs provisioner pods for claims. Make it with New, start it once with Run.
type Dispatcher struct {
	options  Options
	cluster  podspec.Cluster
	client   kubernetes.Interface
	caches   *caches
	creators *creators
	contains containment
	lacking  struct {
		sync.Mutex
		what, trial string        // by comparison, by trial
		changed     chan struct{} // a policy, since the last trial
	}
	policies []cache.SharedIndexInformer
	configs  *configs
	troubles *troubles
	intake   *intake
	guard    *guard
	slots    *slots
	crowd    *crowd
	lanes    *lanes
	judging  workqueue.TypedDelayingInterface[string]
	found    map[string]bool // by the last audit
	metrics  *metrics
	library  *controller.ProvisionController
	recorder record.EventRecorder
	log      logr.Logger
}

// New makes a dispatcher. It makes no request yet. It has to be called before any other client of the process is at work:
// the library adds to the scheme that all of them decode by.
func New(ctx context.Context, client kubernetes.Interface, o Options) (*Dispatcher, error) {
	if o.Threads == 0 {
		o.Threads = 32
	}
	if o.Events == nil {
		o.Events = client
	}
	if len(o.RecordKey) < podspec.MinRecordKey {
		return nil, fmt.Errorf("the key for the records on volumes has %d bytes, it needs %d or more", len(o.RecordKey), podspec.MinRecordKey)
	}
	caches, err := newCaches(client, o.Pods.Namespace, o.ProvisionerName, o.RecordKey)
	if err != nil {
		return nil, err
	}
	admission := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform((&lean{}).transform)).Admissionregistration().V1()
	policies, bindings := admission.ValidatingAdmissionPolicies().Informer(), admission.ValidatingAdmissionPolicyBindings().Informer()
	all, err := readShipped(o.SystemNamespace, o.Pods.Namespace)
	if err != nil {
		return nil, err
	}
	required, guard := apart(all, creatorGuard)
	contains := containment{shipped: required, policies: policies.GetStore(), bindings: bindings.GetStore()}
	d := &Dispatcher{
		options: o, cluster: o.Pods, client: client, caches: caches,
		creators: &creators{contains: contains, guard: guard},
		contains: contains,
		policies: []cache.SharedIndexInformer{policies, bindings},
		configs:  newConfigs(), troubles: newTroubles(), intake: newIntake(), guard: newGuard(),
		judging: workqueue.NewTypedDelayingQueue[string](),
		metrics: newMetrics(o.Registry),
	}
	d.lacking.changed = make(chan struct{}, 1)
	if o.Trial != nil && !o.InsecureWithoutPolicies {
		d.lacking.trial = "the admission policies have not been tried yet"
	}
	d.lanes = newLanes(o.Threads, d.look)
	d.slots = newSlots(d.lanes.poke)
	d.crowd = newCrowd(d.lanes.poke)
	d.library = d.newLibrary(ctx) // before the informers start, since it adds an index
	return d, nil
}

// Run works until ctx ends, and returns when nothing of it runs any more.
func (d *Dispatcher) Run(ctx context.Context) error {
	d.log = klog.FromContext(ctx)
	recorder, stop := newRecorder(ctx, d.options.Events)
	defer stop()
	d.recorder = recorder
	if err := d.listen(); err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	d.library.ControllerWaitGroup(&running)
	informers := append(d.caches.all(), d.policies...)
	synced := make([]cache.InformerSynced, 0, len(informers))
	for _, informer := range informers {
		running.Go(func() { informer.RunWithContext(ctx) })
		synced = append(synced, informer.HasSynced)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return fmt.Errorf("caches did not fill: %w", context.Cause(ctx))
	}
	// ConfigMaps are judged before claims come in: an early claim would be told that its class has none.
	d.judgePolicies()
	if d.lackingTrial() != "" {
		d.tryPoliciesOnce(ctx)
		running.Go(func() { d.tryPolicies(ctx) })
	}
	d.judgeAll()
	running.Go(func() { d.judge(ctx) })
	running.Go(func() { d.auditing(ctx) })
	running.Go(func() { d.expiring(ctx) })
	d.lanes.start(ctx)
	defer d.lanes.wait()
	d.log.Info("Dispatching", "provisioner", d.options.ProvisionerName, "namespace", d.cluster.Namespace)
	d.library.Run(ctx)
	return nil
}

// newLibrary makes the front door. Thresholds of 0 mean that it never gives up: its default is to forget a claim after 15
// failures, and its storage with it. It saves no volumes, so that the limiter, which only a saving would use, merely
// keeps it from choosing the store that deletes storage when a save fails.
//
// Its own events say only that the dispatcher was called; ours say what became of it. So it gets a context that has ended,
// which stops its writer of events, and a logger that does not complain of each: the writer would remember thousands of
// claims that are gone. It runs, and logs, with the context of Run.
func (d *Dispatcher) newLibrary(ctx context.Context) *controller.ProvisionController {
	ctx, end := context.WithCancel(klog.NewContext(ctx, klog.New(nil)))
	end()
	retry := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute)
	return controller.NewProvisionController(ctx, d.client, d.options.ProvisionerName, frontDoor{d},
		controller.LeaderElection(false),
		controller.FailedProvisionThreshold(0),
		controller.FailedDeleteThreshold(0),
		controller.RateLimiter(retry),
		controller.CreateProvisionedPVLimiter(workqueue.DefaultTypedControllerRateLimiter[string]()),
		controller.AddFinalizer(true),
		controller.ResyncPeriod(0),
		controller.Threadiness(4),
		controller.ClaimsInformer(d.caches.claims),
		controller.VolumesInformer(d.caches.volumes),
		controller.ClassesInformer(d.caches.classes),
		controller.MetricsInstance(d.metrics.library),
	)
}

// listen makes every change that concerns a UID lead to a look at it.
func (d *Dispatcher) listen() error {
	handlers := []struct {
		informer cache.SharedIndexInformer
		on       func(obj any, deleted bool)
	}{
		{d.caches.pods, d.podChanged},
		{d.caches.claims.SharedIndexInformer, func(obj any, _ bool) {
			claim := obj.(*corev1.PersistentVolumeClaim)
			d.claimChanged(string(claim.UID), claim.Namespace)
			d.pokeClones(claim.Namespace, claim.Name)
		}},
		{d.caches.volumes, func(obj any, deleted bool) {
			volume := obj.(*corev1.PersistentVolume)
			if deleted {
				d.volumeGone(volume)
			}
			if uid, ok := podspec.ClaimUIDOf(volume.Name); ok {
				d.claimChanged(uid, claimNamespace(volume))
			}
			if ref := volume.Spec.ClaimRef; ref != nil {
				d.pokeClones(ref.Namespace, ref.Name)
			}
		}},
		{d.caches.configMaps, func(obj any, _ bool) { d.judging.Add(configmaps.ClassName(obj.(*corev1.ConfigMap))) }},
		{d.caches.stop, d.stopChanged},
		{d.caches.classes, func(obj any, _ bool) { d.judging.Add(nameOf(obj)) }},
		{d.caches.troubles, d.troubleChanged},
		{d.policies[0], func(any, bool) { d.judgePolicies() }},
		{d.policies[1], func(any, bool) { d.judgePolicies() }},
	}
	for _, h := range handlers {
		_, err := h.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { h.on(obj, false) },
			UpdateFunc: func(old, obj any) { d.changed(h.on, old, obj) },
			DeleteFunc: func(obj any) {
				if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
					obj = unknown.Obj
				}
				h.on(obj, true)
			},
		})
		if err != nil {
			return fmt.Errorf("listen for changes: %w", err)
		}
	}
	return nil
}

// changed lets a ConfigMap that moved to another class concern both, and ends what an event said of another pod before.
func (d *Dispatcher) changed(on func(any, bool), old, obj any) {
	switch before := old.(type) {
	case *corev1.ConfigMap:
		if configmaps.ClassName(before) != configmaps.ClassName(obj.(*corev1.ConfigMap)) {
			on(old, false)
		}
	case *corev1.Event:
		if before.InvolvedObject.UID != obj.(*corev1.Event).InvolvedObject.UID {
			on(old, true)
		}
	}
	on(obj, false)
}

func (d *Dispatcher) podChanged(obj any, deleted bool) {
	pod := obj.(*corev1.Pod)
	op, uid, _, ok := podspec.ParseName(pod.Name)
	if !ok {
		return
	}
	class, namespace := classOf(pod), namespaceOf(pod)
	outcome := podspec.OutcomeOf(pod)
	if deleted || outcome.Final() {
		if d.slots.free(class, pod.Name) {
			d.metrics.duration.WithLabelValues(class, string(op), string(outcome.Phase)).Observe(time.Since(pod.CreationTimestamp.Time).Seconds())
		}
	} else {
		d.slots.take(class, namespace, uid, pod.Name, 0)
	}
	d.metrics.running.WithLabelValues(class).Set(float64(d.slots.count(class)))
	if deleted {
		d.troubles.forget(pod.UID)
		d.intake.gone(pod.UID)
	}
	d.lanes.add(class, namespace, uid)
}

// claimChanged asks for a look at a claim that is known, or whose volume is to grow: the library knows no expansion. It is
// called for the claim and for its volume, and so once when the caches hold both.
func (d *Dispatcher) claimChanged(uid, namespace string) {
	if class, ok := d.caches.expanding(uid, d.options.ProvisionerName); ok {
		d.lanes.add(class, namespace, uid)
		return
	}
	d.lanes.poke(uid)
}

// troubleChanged forgets a trouble with its event: that goes an hour after the kubelet said it last, when the pod is gone too.
func (d *Dispatcher) troubleChanged(obj any, deleted bool) {
	event := obj.(*corev1.Event)
	if deleted {
		d.troubles.forget(event.InvolvedObject.UID)
	} else if uid, ok := d.troubles.note(event); ok {
		d.lanes.poke(uid)
	}
}

// judgeAll judges every class that has a ConfigMap.
func (d *Dispatcher) judgeAll() {
	for _, obj := range d.caches.configMaps.GetStore().List() {
		d.judging.Add(configmaps.ClassName(obj.(*corev1.ConfigMap)))
	}
	for d.judging.Len() > 0 {
		d.judgeNext()
	}
}

func (d *Dispatcher) judge(ctx context.Context) {
	stop := context.AfterFunc(ctx, d.judging.ShutDown)
	defer stop()
	for d.judgeNext() {
	}
}

func (d *Dispatcher) judgeNext() bool {
	class, shutdown := d.judging.Get()
	if shutdown {
		return false
	}
	defer d.judging.Done(class)
	if again := d.judgeClass(class); again > 0 {
		d.judging.AddAfter(class, again)
	}
	return true
}

// classOf is the full name of the class that a provisioner pod works for.
func classOf(pod *corev1.Pod) string { return pod.Annotations[contract.AnnClass] }

// namespaceOf is the namespace of the claim that a provisioner pod works for.
func namespaceOf(pod *corev1.Pod) string {
	namespace, _, _ := strings.Cut(pod.Annotations[contract.AnnClaim], "/")
	return namespace
}

// claimNamespace is the namespace of the claim that a volume is for, empty where it is for none.
func claimNamespace(volume *corev1.PersistentVolume) string {
	if volume.Spec.ClaimRef == nil {
		return ""
	}
	return volume.Spec.ClaimRef.Namespace
}

func nameOf(obj any) string { return obj.(metav1.Object).GetName() }

// Lacks names what keeps this dispatcher from making pods, empty where nothing does. It can be asked at any time.
func (d *Dispatcher) Lacks() string {
	if d.options.InsecureWithoutPolicies || !d.policies[0].HasSynced() || !d.policies[1].HasSynced() {
		return ""
	}
	d.lacking.Lock()
	defer d.lacking.Unlock()
	for _, lacks := range []string{d.lacking.what, d.lacking.trial} {
		if lacks != "" {
			return lacks + ": apply the installation again, or start the dispatcher with --insecure-without-policies"
		}
	}
	return ""
}

// judgePolicies compares the admission policies with the shipped ones when one of them changes, and not at every look,
// and lets everything look again.
func (d *Dispatcher) judgePolicies() {
	d.creators.judge()
	lacks := d.contains.lacks()
	d.lacking.Lock()
	d.lacking.what = lacks
	d.lacking.Unlock()
	select {
	case d.lacking.changed <- struct{}{}:
	default: // the next trial comes after this change too
	}
	d.lanes.pokeAll()
}
