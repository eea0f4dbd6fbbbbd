package recorder

import (
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/reference"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Recorder writes events, each once. Make it with New, and call Start before anything else.
//
// mu guards the maps, the store and what is under way. What they hold of a claim ends with Forget, of a ConfigMap with
// ForgetConfigMaps, and of a class with Expire. Of protected an entry ends when SetProtected sets no reason, which
// comes before Forget. An event in the store ends when it is written or given up, and a series with Expire. The
// functions that Expire and ForgetConfigMaps ask are called with mu held.
type Recorder struct {
	Metrics *Metrics

	now func() time.Time
	log logr.Logger

	mu           sync.Mutex
	claims       map[string]*history // by UID
	configMaps   map[string]*history // by name
	protected    map[string]protection
	waits        map[string]Wait      // by UID
	endedClasses map[string]time.Time // when they ended, by name

	store    store
	series   map[key]series
	wake     chan struct{}
	writes   int             // under way
	reads    map[string]bool // nodes from which a log is being read
	draining bool
}

// protection is why a claim's storage waits for an administrator.
type protection struct {
	class  string
	reason podspec.Reason
}

// RemindAfter is how long after an event that persists it is recorded again. The API server keeps events for as long.
const RemindAfter = keptFor

// New makes a recorder.
func New(metrics *Metrics, now func() time.Time) *Recorder {
	return &Recorder{
		Metrics:      metrics,
		now:          now,
		claims:       map[string]*history{},
		configMaps:   map[string]*history{},
		protected:    map[string]protection{},
		waits:        map[string]Wait{},
		endedClasses: map[string]time.Time{},
		store:        store{slots: map[key]*slot{}, lines: map[key]line{}},
		series:       map[key]series{},
		reads:        map[string]bool{},
		wake:         make(chan struct{}, 1),
	}
}

// Subject is what an event or a log line is about.
type Subject struct {
	UID, Class string
	// Label is the class as metrics have it, empty where only a claim says that there is one.
	Label  string
	Claim  *corev1.PersistentVolumeClaim
	Volume *corev1.PersistentVolume
	// Snapshot and Content are those of a snapshot, or nil.
	Snapshot *snapshotv1.VolumeSnapshot
	Content  *snapshotv1.VolumeSnapshotContent
}

// Keys are what every log line about a claim has, under these names: the claim, its UID, its class, and the pod that it
// is about. What is not known, or does not exist, is empty.
func (s Subject) Keys(pod *corev1.Pod) []any {
	claim, podName := "", ""
	if pod != nil {
		claim, podName = pod.Annotations[contract.AnnClaim], pod.Namespace+"/"+pod.Name
	}

	switch {
	case s.Claim != nil:
		claim = s.Claim.Namespace + "/" + s.Claim.Name
	case s.Volume != nil && s.Volume.Spec.ClaimRef != nil:
		claim = s.Volume.Spec.ClaimRef.Namespace + "/" + s.Volume.Spec.ClaimRef.Name
	}

	return []any{"claim", claim, "claimUID", s.UID, "class", s.Class, "pod", podName}
}

func (s Subject) object(e events.Event) runtime.Object {
	switch {
	case e.On == events.OnClaim && s.Claim != nil:
		return s.Claim
	case e.On == events.OnVolume && s.Volume != nil:
		return s.Volume
	case e.On == events.OnSnapshot && s.Snapshot != nil:
		return s.Snapshot
	case (e.On == events.OnSnapshot || e.On == events.OnContent) && s.Content != nil:
		return s.Content
	case e.Pod != nil:
		return e.Pod
	}

	return nil
}

// referable is an object as an event can refer to it: by its kind. The kinds of snapshots are not in the scheme of
// Kubernetes, so that it is a copy of these which has its kind.
func referable(object runtime.Object) runtime.Object {
	kind := ""
	switch object.(type) {
	case *snapshotv1.VolumeSnapshot:
		kind = "VolumeSnapshot"
	case *snapshotv1.VolumeSnapshotContent:
		kind = "VolumeSnapshotContent"
	default:
		return object
	}

	object = object.DeepCopyObject()
	object.GetObjectKind().SetGroupVersionKind(snapshotv1.SchemeGroupVersion.WithKind(kind))

	return object
}

// Record writes an event once, and one that persists once in RemindAfter. It counts as written while it waits for that.
// log is what to add of the pod's log. An event that can wait is put off while many others wait. RemindAt says until
// when.
func (r *Recorder) Record(about Subject, e events.Event, log PodLog) {
	if e.Key == "" {
		return
	}

	r.mu.Lock()
	defer r.mu.Unlock()

	h := r.claims[about.UID]
	putOff := e.CanWait() && r.store.crowded() && h.find(identityOf(e)) < 0
	if putOff {
		return
	}

	if h == nil {
		h = &history{}
		r.claims[about.UID] = h
	}

	now := r.now()
	id := identityOf(e)
	if !h.due(id, now, e.Persists()) {
		return
	}

	h.warned = h.warned || e.Warning

	object := about.object(e)
	switch {
	case e.LogOnly:
		r.log.Info("Finished", append([]any{"reason", e.Reason, "message", e.Message}, about.Keys(e.Pod)...)...)
		return
	case object == nil:
		return
	}

	if e.Warning {
		r.Metrics.Failed(about.Label, e.Reason)
	}

	r.put(object, "", &event{reason: e.Reason, warning: e.Warning, message: e.Message, at: now,
		log: log, forget: func() { h.forget(id, now) }, line: about.Keys(e.Pod)})
}

// put puts an event into the store. It is called with mu held. Fields of a volume, which its provisioner wrote, and
// those of a claim, a class or a ConfigMap may hold any text.
func (r *Recorder) put(object runtime.Object, of string, e *event) {
	about, err := reference.GetReference(scheme.Scheme, referable(object))
	if err != nil {
		r.log.Error(err, "Could not refer to the object of an event", e.lineKeys()...)
		return
	}

	e.about, e.message = *about, podspec.EventMessage(e.message)
	k := keyOf(e.about, e.reason, of)
	if e.log.Read == nil {
		r.report(e)
	}

	replaced, evicted := r.store.put(k, e, time.Now(), r.series[k].rests())
	if replaced != nil {
		replaced.forget()
	}

	if evicted != nil {
		evicted.forget()
		r.Metrics.eventsLost.WithLabelValues(lostFull).Inc()
		r.log.Info("Gave up an event, too many wait to be written", evicted.lineKeys()...)
	}

	r.wakeWriter()
}

// report writes the log line of an event.
func (r *Recorder) report(e *event) { r.log.Info("Reported", e.lineKeys()...) }

func (e *event) lineKeys() []any {
	return append([]any{"reason", e.reason, "message", e.message}, e.line...)
}

// AwaitsLog reports whether an event waits for the log of a pod, which has to stay for that. No event waits for longer
// than logWithin.
func (r *Recorder) AwaitsLog(pod *corev1.Pod) bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.store.awaitsLog(pod, time.Now())
}

// RemindAt is when the first of a claim's events that persist, or were put off, is recorded again, zero where none is.
func (r *Recorder) RemindAt(uid string, all []events.Event) (at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()

	h := r.claims[uid]
	for _, e := range all {
		if e.Key == "" || !e.Persists() && !e.CanWait() {
			continue
		}

		again, recorded := h.again(identityOf(e))
		switch {
		case recorded && !e.Persists():
			continue
		case !recorded && e.CanWait():
			again = r.now().Add(putOffFor)
		case !recorded: // it was given up
			again = r.now().Add(RemindAfter)
		}

		if at.IsZero() || again.Before(at) {
			at = again
		}
	}

	return at
}

// Warn writes a warning on an object, as often as it is called. of tells warnings of one reason apart, of each of which
// the latest is written. Where it is about a claim, the keys and values are those of Subject.Keys.
func (r *Recorder) Warn(object runtime.Object, of string, reason podspec.Reason, message string, keysAndValues ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.put(object, of, &event{reason: reason, warning: true, message: message, at: r.now(),
		forget: func() {}, line: keysAndValues})
}

// RecordConfigMap writes a warning on a ConfigMap, once for each of its versions within RemindAfter. It returns when it
// is to be written again if it is still true.
func (r *Recorder) RecordConfigMap(cm *corev1.ConfigMap, reason podspec.Reason, message string) (again time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()

	h := r.configMaps[cm.Name]
	if h == nil || h.version != cm.ResourceVersion {
		h = &history{version: cm.ResourceVersion}
		r.configMaps[cm.Name] = h
	}

	message = podspec.EventMessage(message)
	id, now := identityOf(events.Event{Reason: reason, Key: message}), r.now()
	if h.due(id, now, true) {
		r.put(cm, "", &event{reason: reason, warning: true, message: message, at: now,
			forget: func() { h.forget(id, now) }, line: []any{"configMap", klog.KObj(cm)}})
	}

	again, recorded := h.again(id)
	if !recorded { // it was given up
		again = now.Add(RemindAfter)
	}

	return again
}

// ForgetConfigMaps forgets the history of ConfigMaps that do not exist.
func (r *Recorder) ForgetConfigMaps(exists func(name string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()

	maps.DeleteFunc(r.configMaps, func(name string, _ *history) bool { return !exists(name) })
}

// Warned reports whether a warning about the claim was written.
func (r *Recorder) Warned(uid string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.claims[uid] != nil && r.claims[uid].warned
}

// PodCreated forgets the history of a claim: what kept it waiting is over, and is recorded again if it comes again.
func (r *Recorder) PodCreated(uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if h := r.claims[uid]; h != nil {
		h.events = nil
	}
}

// PodAcknowledged forgets the events about a pod, so that long retries do not fill the memory.
func (r *Recorder) PodAcknowledged(uid, pod string) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if h := r.claims[uid]; h != nil {
		h.forgetPod(pod)
	}
}

// SetProtected keeps the metric of storage that waits for an administrator. No reason means that it does not wait.
func (r *Recorder) SetProtected(uid, class string, reason podspec.Reason) {
	r.mu.Lock()
	defer r.mu.Unlock()

	before := r.protected[uid]
	if before.reason == reason {
		return
	}

	if before.reason != podspec.ReasonNone {
		r.Metrics.AddProtected(before.class, before.reason, -1)
	}

	delete(r.protected, uid)
	if reason != podspec.ReasonNone {
		r.Metrics.AddProtected(class, reason, 1)
		r.protected[uid] = protection{class, reason}
	}
}

// Forget ends what is remembered of a claim.
func (r *Recorder) Forget(uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()

	delete(r.claims, uid)
	delete(r.waits, uid)
}

// lastReading is how long the series of a class stay after its end, so that they are collected once more.
const lastReading = 10 * time.Minute

// EndClass remembers that a class ended. Expire ends its series lastReading later.
func (r *Recorder) EndClass(class string) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.endedClasses[class] = r.now()
}

// Expire ends the series of classes that ended lastReading ago and do not exist, those of the library, and what was
// written too long ago to be updated.
func (r *Recorder) Expire(exists func(class string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()

	for class, end := range r.endedClasses {
		if r.now().Sub(end) < lastReading {
			continue
		}

		delete(r.endedClasses, class)
		if !exists(class) {
			r.Metrics.EndClass(class)
		}
	}

	expireSeries(r.series, time.Now())
	r.Metrics.ResetLibrary()
}

// Log writes a log line.
func (r *Recorder) Log(message string, keysAndValues ...any) { r.log.Info(message, keysAndValues...) }
