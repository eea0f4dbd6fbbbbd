package dispatcher

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/admission"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/cache"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/controller"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/library"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/orphans"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/recorder"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// Options of a dispatcher. All are required unless a default is named.
type Options struct {
	// ProvisionerName is the StorageClasses' provisioner that this dispatcher serves.
	ProvisionerName string
	// Pods is what all provisioner pods have in common.
	Pods podspec.Cluster
	// Threads work on each class; default 32. They never wait for a pod, but for the API server: with fewer, a burst is
	// as slow as its answers.
	Threads int
	// DeleteLimit is how many volumes of a class that are older than a day may be deleted within an hour before the
	// rest waits for an administrator, where the class's ConfigMap says nothing. Default 0, no limit.
	DeleteLimit int
	// FirstAudit is how long after Run the first audit of what nobody needs follows; default 5 minutes. What came while
	// no dispatcher ran has been acted on by then.
	FirstAudit time.Duration
	// RecordKey signs the records on volumes. It has podspec.MinRecordKey bytes or more, and is the same after a
	// restart.
	RecordKey podspec.RecordKey
	// SystemNamespace holds the allow-list that the admission policies read.
	SystemNamespace string
	// InsecureWithoutPolicies creates pods even where the admission policies are not in force that keep a provisioner
	// from creating volumes other than its own. Default false.
	InsecureWithoutPolicies bool
	// Prober makes requests with admission.ProbeIdentity, by which the dispatcher sees that the policies are in force,
	// at its start and when they change. Nil, or with InsecureWithoutPolicies, their text alone is compared, or
	// nothing.
	Prober kubernetes.Interface
	// Events is the client that writes events, so that a flood of them takes nothing from the limits of the other;
	// default is the client of New.
	Events kubernetes.Interface
	// Snapshots is the client of VolumeSnapshots and their contents. Without it there are no snapshots.
	Snapshots snapshotclient.Interface
	// Now is the API server's time; default time.Now. It is compared with the times at which objects were created.
	Now func() time.Time
	// Registry takes the metrics.
	Registry prometheus.Registerer
}

// Dispatcher runs provisioner pods for claims. Make it with New, and start it once with Run.
type Dispatcher struct {
	options    Options
	cache      *cache.Cache
	gate       *admission.Gate
	recorder   *recorder.Recorder
	controller *controller.Controller
	library    *library.Library
	leads      atomic.Bool // set once the policies were compared and probed; cleared when Run ends
}

// New makes a dispatcher. It makes no request. It has to be called before any other client of the process is at work:
// see library.New.
func New(ctx context.Context, client kubernetes.Interface, o Options) (*Dispatcher, error) {
	if o.Threads == 0 {
		o.Threads = 32
	}

	if o.FirstAudit == 0 {
		o.FirstAudit = 5 * time.Minute
	}

	if o.Now == nil {
		o.Now = time.Now
	}

	if o.Events == nil {
		o.Events = client
	}

	if o.InsecureWithoutPolicies {
		o.Prober = nil
	}

	if len(o.RecordKey) < podspec.MinRecordKey {
		return nil, fmt.Errorf("the key for the records on volumes has %d bytes, it needs %d or more",
			len(o.RecordKey), podspec.MinRecordKey)
	}

	d := &Dispatcher{options: o, recorder: recorder.New(recorder.NewMetrics(o.Registry), o.Now)}

	var err error
	d.cache, err = cache.New(client, o.Pods.Namespace, o.ProvisionerName, o.RecordKey)
	if err != nil {
		return nil, err
	}

	d.gate, err = admission.New(admission.Options{
		Client: client, Prober: o.Prober, SystemNamespace: o.SystemNamespace, Provisioner: o.ProvisionerName,
		Pods:    o.Pods,
		Changed: func() { d.controller.ReconcileAll() },
	})
	if err != nil {
		return nil, err
	}

	d.controller = controller.New(controller.Options{
		ProvisionerName: o.ProvisionerName, Pods: o.Pods, DeleteLimit: o.DeleteLimit, RecordKey: o.RecordKey,
		SystemNamespace: o.SystemNamespace, Workers: o.Threads, Client: client, Snapshots: o.Snapshots,
		Cache: d.cache, Recorder: d.recorder, Policies: d.verdict, Now: o.Now,
		Resync: func(claim *corev1.PersistentVolumeClaim) { d.library.Resync(claim) },
	})

	d.library = library.New(ctx, client, o.ProvisionerName, d.controller, library.Informers{
		Claims: d.cache.Claims, Volumes: d.cache.Volumes, Classes: d.cache.Classes, MadeByHand: madeByHand,
	}, d.recorder.Metrics.Library())

	o.Registry.MustRegister(d.recorder.Gauges(recorder.Sources{
		Now: o.Now, Queued: d.controller.Queued, Pods: d.controller.RunningPods,
		PoliciesMissing: func() bool { return d.leads.Load() && d.MissingPolicies() != "" },
	}))

	return d, nil
}

// madeByHand reports whether no provisioner pod can have made a volume of the name.
func madeByHand(volumeName string) bool {
	_, ours := podspec.ClaimUIDOf(volumeName)

	return !ours
}

// ErrLeaseLost is the cause with which the context of Run ends when another process may lead.
var ErrLeaseLost = recorder.ErrLeaseLost

// Run works until ctx ends, and returns when nothing of it runs any more. It first writes what events are left, for a
// moment, unless the cause is ErrLeaseLost.
func (d *Dispatcher) Run(ctx context.Context) error {
	defer d.recorder.Start(ctx, d.options.Events)()

	// Only what the handlers have seen counts for a class's max-concurrent.
	synced, err := d.controller.Listen()
	if err != nil {
		return err
	}

	var running sync.WaitGroup
	defer running.Wait()

	informers := append(d.cache.Informers(), d.gate.Informers()...)
	for _, informer := range informers {
		running.Go(func() { informer.RunWithContext(ctx) })
		synced = append(synced, informer.HasSynced)
	}

	if !clientcache.WaitForCacheSync(ctx.Done(), synced...) {
		return fmt.Errorf("caches did not fill: %w", context.Cause(ctx))
	}

	// Policies are compared and classes synced before claims come in: an early claim would get an event that something
	// is missing.
	d.gate.Compare()
	d.gate.ProbeOnce(ctx)
	running.Go(func() { d.gate.Run(ctx) })

	d.leads.Store(true)
	d.recorder.Metrics.SetLeading(true)
	defer func() {
		d.leads.Store(false)
		d.recorder.Metrics.SetLeading(false)
	}()

	d.controller.SyncClasses()
	d.startSnapshots(ctx, &running)
	d.controller.Run(ctx, &running)

	auditor := orphans.Auditor{
		Provisioner: d.options.ProvisionerName, Cache: d.cache, Recorder: d.recorder, Now: d.options.Now,
	}
	running.Go(func() { auditor.Run(ctx, d.options.FirstAudit) })
	klog.FromContext(ctx).Info("Dispatching",
		"provisioner", d.options.ProvisionerName, "namespace", d.options.Pods.Namespace)
	d.library.Run(ctx, &running)

	return nil
}

// snapshotsFirst is how long claims wait for the objects of snapshots, so that none is told that its snapshot does not
// exist.
const snapshotsFirst = 10 * time.Second

func (d *Dispatcher) startSnapshots(ctx context.Context, running *sync.WaitGroup) {
	looked, once := make(chan struct{}), sync.Once{}
	running.Go(func() {
		d.controller.ServeSnapshots(ctx, func() { once.Do(func() { close(looked) }) })
	})

	select {
	case <-looked:
	case <-time.After(snapshotsFirst):
	case <-ctx.Done():
	}
}

// MissingPolicies names what keeps this dispatcher from creating pods, empty where nothing does. It can be asked at any
// time.
func (d *Dispatcher) MissingPolicies() string { return d.verdict().Missing }

// ProbePolicies sends all probes of the admission policies. It changes nothing in the cluster, and may be called before
// Run.
func (d *Dispatcher) ProbePolicies(ctx context.Context) []admission.Result { return d.gate.Probe(ctx) }

func (d *Dispatcher) verdict() admission.Verdict {
	v := d.gate.Verdict()
	if d.options.InsecureWithoutPolicies {
		v.Missing = ""
	}

	return v
}
