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

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// Recorder writes events, each once. Make it with New, and call Start before anything else.
//
// mu guards the maps. What they hold of a claim ends with Forget, and of a ConfigMap with KeepConfigMaps.
type Recorder struct {
	Metrics *Metrics

	recorder record.EventRecorder
	log      logr.Logger

	mu         sync.Mutex
	claims     map[string]*said // by UID
	configMaps map[string]*said // by name
	protected  map[string]protection
	waits      map[string]Wait // by UID
}

// said is what was said of one object.
type said struct {
	keys map[string]bool
	// warned says that a warning was among it, and stays when the keys are forgotten.
	warned bool
	// version of the ConfigMap that it was said of.
	version string
}

// protection is why a claim's storage waits for an administrator.
type protection struct {
	class  string
	reason podspec.Reason
}

const (
	// maxSaid is how many keys of an object are remembered. Of an object whose author keeps changing it, something may be said twice.
	maxSaid = 100
	// maxMessage bounds an event's message in bytes, as the newer API for events does.
	maxMessage = 1024
	// correlated is how many events client-go remembers, to count repetitions instead of writing them. Its default of 4096 costs
	// 5 MB, and the dispatcher says nothing twice.
	correlated = 512
	// perSecond is how many events of one object client-go writes in the long run, and drops the others. It is more than are lost and
	// said again. Its default is one in five minutes.
	perSecond = 1.0 / 30
)

// New makes a recorder.
func New(metrics *Metrics) *Recorder {
	return &Recorder{Metrics: metrics, claims: map[string]*said{}, configMaps: map[string]*said{}, protected: map[string]protection{}, waits: map[string]Wait{}}
}

// Start lets events be written in the background until stop is called. Of an event that was lost, again is told the claim that it
// was about, or the ConfigMap by its name, so that it is looked at again after a while. What was said of it is forgotten by then.
func (r *Recorder) Start(ctx context.Context, client kubernetes.Interface, again func(claimUID, configMap string)) (stop func()) {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx), record.WithCorrelatorOptions(record.CorrelatorOptions{LRUCacheSize: correlated, QPS: perSecond}))
	broadcaster.StartRecordingToSink(sink{&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events(corev1.NamespaceAll)},
		func(about corev1.ObjectReference) { r.lost(about, again) }})
	r.StartWith(broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "flex-provisioner"}), klog.FromContext(ctx))
	return broadcaster.Shutdown
}

// StartWith is Start with another recorder, for tests.
func (r *Recorder) StartWith(recorder record.EventRecorder, log logr.Logger) {
	r.recorder, r.log = recorder, log
}

// Subject is whom an event is about.
type Subject struct {
	UID, Class string
	// Label is the class as metrics have it, empty where only a claim says that there is one.
	Label  string
	Claim  *corev1.PersistentVolumeClaim
	Volume *corev1.PersistentVolume
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

// Record writes an event unless it was written before. ofLog is asked what to add of the pod's log where the event wants it.
func (r *Recorder) Record(about Subject, e events.Event, ofLog func(events.Event) string) {
	if e.Key == "" || !r.first(about.UID, e) {
		return
	}
	object := about.object(e)
	switch {
	case e.LogOnly:
		r.log.Info("Finished", "reason", e.Reason, "message", e.Message, "claimUID", about.UID, "StorageClass", about.Class)
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
	e.Message = podspec.Clip(podspec.OneLine(e.Message), maxMessage)
	r.recorder.Event(object, kind, string(e.Reason), e.Message)
	r.log.Info("Reported", "reason", e.Reason, "message", e.Message, "claimUID", about.UID, "StorageClass", about.Class)
}

// Warn writes a warning on an object that no claim is known for, as often as it is called.
func (r *Recorder) Warn(object runtime.Object, reason podspec.Reason, message string, keysAndValues ...any) {
	r.recorder.Event(object, corev1.EventTypeWarning, string(reason), message)
	r.log.Info("Reported", append([]any{"reason", reason, "message", message}, keysAndValues...)...)
}

// RecordConfigMap writes a warning on a ConfigMap, once for each of its versions.
func (r *Recorder) RecordConfigMap(cm *corev1.ConfigMap, reason podspec.Reason, message string) {
	r.RemindOfConfigMap(cm, reason, message, time.Time{})
}

// RemindOfConfigMap writes a warning on a ConfigMap, once for each of its versions and each period.
func (r *Recorder) RemindOfConfigMap(cm *corev1.ConfigMap, reason podspec.Reason, message string, period time.Time) {
	r.mu.Lock()
	known := r.configMaps[cm.Name]
	if known == nil || known.version != cm.ResourceVersion {
		known = &said{version: cm.ResourceVersion}
		r.configMaps[cm.Name] = known
	}
	first := known.first(string(reason) + "/" + period.Format(time.RFC3339) + "/" + message)
	r.mu.Unlock()
	if first {
		r.Warn(cm, reason, message, "configMap", klog.KObj(cm))
	}
}

// KeepConfigMaps forgets what was said of ConfigMaps that do not exist any more.
func (r *Recorder) KeepConfigMaps(exists func(name string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.configMaps, func(name string, _ *said) bool { return !exists(name) })
}

// Warned says that a warning about the claim was written.
func (r *Recorder) Warned(uid string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.claims[uid] != nil && r.claims[uid].warned
}

// PodCreated forgets what was said of a claim: what kept it waiting is over, and is said again if it comes again.
func (r *Recorder) PodCreated(uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.claims[uid]; known != nil {
		known.keys = nil
	}
}

// PodCleanedUp forgets what was said of a pod, so that long retries do not fill the memory.
func (r *Recorder) PodCleanedUp(uid, pod string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.claims[uid]; known != nil {
		maps.DeleteFunc(known.keys, func(key string, _ bool) bool { return strings.HasPrefix(key, pod+"/") })
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

func (r *Recorder) first(uid string, e events.Event) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.claims[uid]
	if known == nil {
		known = &said{}
		r.claims[uid] = known
	}
	first := known.first(e.Key)
	known.warned = known.warned || first && e.Warning
	return first
}

// first says whether the key was not said before. Of a key counts as much as an event shows of its message.
func (s *said) first(key string) bool {
	key = podspec.Clip(key, maxMessage)
	if s.keys[key] {
		return false
	}
	if len(s.keys) >= maxSaid || s.keys == nil {
		s.keys = map[string]bool{}
	}
	s.keys[key] = true
	return true
}

// Log writes a log line.
func (r *Recorder) Log(message string, keysAndValues ...any) { r.log.Info(message, keysAndValues...) }
