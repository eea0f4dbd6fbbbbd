package recorder

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// Recorder writes events, each once. Make it with New, and call Start before anything else.
//
// mu guards the maps. What they hold of a claim ends with Forget, of a ConfigMap with ForgetConfigMaps, and of a class with Expire. Of
// protected an entry ends when SetProtected sets no reason, which comes before Forget. The functions that Expire and ForgetConfigMaps ask
// are called with mu held.
type Recorder struct {
	Metrics *Metrics

	now      func() time.Time
	recorder record.EventRecorder
	log      logr.Logger

	mu           sync.Mutex
	claims       map[string]*history // by UID
	configMaps   map[string]*history // by name
	protected    map[string]protection
	waits        map[string]Wait      // by UID
	endedClasses map[string]time.Time // when they ended, by name
}

// protection is why a claim's storage waits for an administrator.
type protection struct {
	class  string
	reason podspec.Reason
}

const (
	// correlated is how many events client-go remembers, to count repetitions instead of writing them. Its default of 4096 costs
	// 5 MB, and the dispatcher records nothing twice.
	correlated = 512
	// perSecond is how many events of one object client-go writes in the long run, and drops the others. It is more than are lost and
	// recorded again. Its default is one in five minutes.
	perSecond = 1.0 / 30
)

// RemindAfter is how long after an event that persists it is recorded again. The API server keeps events for an hour.
const RemindAfter = time.Hour

// New makes a recorder.
func New(metrics *Metrics, now func() time.Time) *Recorder {
	return &Recorder{Metrics: metrics, now: now, claims: map[string]*history{}, configMaps: map[string]*history{}, protected: map[string]protection{},
		waits: map[string]Wait{}, endedClasses: map[string]time.Time{}}
}

// Start lets events be written in the background until stop is called. For an event that was lost, retry gets
// the UID of the claim, or the name of the ConfigMap, that it was about, so that it is requeued. Its history is forgotten by then.
func (r *Recorder) Start(ctx context.Context, client kubernetes.Interface, retry func(claimUID, configMap string)) (stop func()) {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx), record.WithCorrelatorOptions(record.CorrelatorOptions{LRUCacheSize: correlated, QPS: perSecond}))
	broadcaster.StartRecordingToSink(sink{&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events(corev1.NamespaceAll)},
		func(about corev1.ObjectReference) { r.lost(about, retry) }})
	r.StartWith(broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "flex-provisioner"}), klog.FromContext(ctx))
	return broadcaster.Shutdown
}

// StartWith is Start with another recorder, for tests.
func (r *Recorder) StartWith(recorder record.EventRecorder, log logr.Logger) {
	r.recorder, r.log = recorder, log
}

// Subject is what an event or a log line is about.
type Subject struct {
	UID, Class string
	// Label is the class as metrics have it, empty where only a claim says that there is one.
	Label  string
	Claim  *corev1.PersistentVolumeClaim
	Volume *corev1.PersistentVolume
}

// Keys are what every log line about a claim has, under these names: the claim, its UID, its class, and the pod that it is about. What is
// not known, or does not exist, is empty.
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
	case e.Pod != nil:
		return e.Pod
	}
	return nil
}

// Record writes an event once, and one that persists once in RemindAfter. ofLog is what to add of the pod's log where the event wants it.
func (r *Recorder) Record(about Subject, e events.Event, ofLog func(events.Event) string) {
	if e.Key == "" || !r.due(about.UID, e) {
		return
	}
	object := about.object(e)
	switch {
	case e.LogOnly:
		r.log.Info("Finished", append([]any{"reason", e.Reason, "message", e.Message}, about.Keys(e.Pod)...)...)
		return
	case object == nil:
		return
	}
	if e.WithPodLog {
		if more := ofLog(e); more != "" {
			e.Message += "; " + more
		}
	}
	kind := corev1.EventTypeNormal
	if e.Warning {
		kind = corev1.EventTypeWarning
		r.Metrics.Failed(about.Label, e.Reason)
	}
	// Fields of a volume, which its provisioner wrote, and of a claim may hold any text.
	e.Message = podspec.EventMessage(e.Message)
	r.recorder.Event(object, kind, string(e.Reason), e.Message)
	r.log.Info("Reported", append([]any{"reason", e.Reason, "message", e.Message}, about.Keys(e.Pod)...)...)
}

// RemindAt is when the first of a claim's events that persist is recorded again, zero where none is.
func (r *Recorder) RemindAt(uid string, all []events.Event) (at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.claims[uid]
	for _, e := range all {
		if h == nil || !e.Persists() {
			continue
		}
		if again, recorded := h.again(e.Key); recorded && (at.IsZero() || again.Before(at)) {
			at = again
		}
	}
	return at
}

// Warn writes a warning on an object, as often as it is called. Where it is about a claim, the keys and values are those of Subject.Keys.
func (r *Recorder) Warn(object runtime.Object, reason podspec.Reason, message string, keysAndValues ...any) {
	r.recorder.Event(object, corev1.EventTypeWarning, string(reason), message)
	r.log.Info("Reported", append([]any{"reason", reason, "message", message}, keysAndValues...)...)
}

// RecordConfigMap writes a warning on a ConfigMap, once for each of its versions within RemindAfter. It returns when it is to be written
// again if it is still true.
func (r *Recorder) RecordConfigMap(cm *corev1.ConfigMap, reason podspec.Reason, message string) (again time.Time) {
	r.mu.Lock()
	h := r.configMaps[cm.Name]
	if h == nil || h.version != cm.ResourceVersion {
		h = &history{version: cm.ResourceVersion}
		r.configMaps[cm.Name] = h
	}
	key := string(reason) + "/" + message
	due := h.due(key, r.now(), true)
	again, _ = h.again(key)
	r.mu.Unlock()
	if due {
		r.Warn(cm, reason, message, "configMap", klog.KObj(cm))
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
		h.keys = nil
	}
}

// PodCleanedUp forgets the events about a pod, so that long retries do not fill the memory.
func (r *Recorder) PodCleanedUp(uid, pod string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.claims[uid]; h != nil {
		maps.DeleteFunc(h.keys, func(key string, _ time.Time) bool { return strings.HasPrefix(key, pod+"/") })
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
	if delete(r.protected, uid); reason != podspec.ReasonNone {
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

func (r *Recorder) due(uid string, e events.Event) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.claims[uid]
	if h == nil {
		h = &history{}
		r.claims[uid] = h
	}
	due := h.due(e.Key, r.now(), e.Persists())
	h.warned = h.warned || due && e.Warning
	return due
}

// lastReading is how long the series of a class stay after its end, so that they are collected once more.
const lastReading = 10 * time.Minute

// EndClass remembers that a class ended. Expire ends its series lastReading later.
func (r *Recorder) EndClass(class string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endedClasses[class] = r.now()
}

// Expire ends the series of classes that ended lastReading ago and do not exist, and those of the library.
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
	r.Metrics.ResetLibrary()
}

// Log writes a log line.
func (r *Recorder) Log(message string, keysAndValues ...any) { r.log.Info(message, keysAndValues...) }
