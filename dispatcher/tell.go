package dispatcher

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// rememberedEvents is how many events the recorder remembers, to count repetitions instead of writing them. Its default of
// 4096 costs 5 MB, and the dispatcher tells nothing twice.
const rememberedEvents = 512

// newRecorder writes events in the background. The function that it also returns ends it.
func newRecorder(ctx context.Context, client kubernetes.Interface) (record.EventRecorder, func()) {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx), record.WithCorrelatorOptions(record.CorrelatorOptions{LRUCacheSize: rememberedEvents}))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events(corev1.NamespaceAll)})
	return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "flex-provisioner"}), broadcaster.Shutdown
}

// maxEvent bounds an event's message in bytes, as the newer API for events does.
const maxEvent = 1024

// tell writes a report as an event on what it is about, once for each key of a UID.
func (d *Dispatcher) tell(ctx context.Context, f *facts, r report) {
	if r.key == "" || !d.intake.first(f.uid, r.key) {
		return
	}
	if r.lone && !d.intake.hadTrouble(f.uid) && d.lanes.busy(f.class) {
		d.log.Info("Finished", "reason", r.reason, "message", r.message, "claimUID", f.uid, "StorageClass", f.class)
		return
	}
	var object runtime.Object
	switch {
	case r.on == onClaim && f.claim != nil:
		object = f.claim
	case r.on == onVolume && f.volume != nil:
		object = f.volume
	case r.pod != nil:
		object = r.pod
	default:
		return
	}
	if r.logs {
		if lines := d.tellLog(ctx, f, r.pod); lines != "" && f.config.ShowLogs {
			r.message += "; its log ends with: " + lines
		}
	}
	kind := corev1.EventTypeNormal
	if r.warning {
		kind = corev1.EventTypeWarning
		d.metrics.failures.WithLabelValues(f.class, string(r.reason)).Inc()
		d.intake.trouble(f.uid)
	}
	// Fields of a volume, which its provisioner wrote, and of a claim may hold any text.
	r.message = podspec.Clip(podspec.OneLine(r.message), maxEvent)
	d.recorder.Event(object, kind, string(r.reason), r.message)
	d.log.Info("Reported", "reason", r.reason, "message", r.message, "claimUID", f.uid, "StorageClass", f.class)
}

// tellConfigOnce writes an event on a ConfigMap, once for each of its versions.
func (d *Dispatcher) tellConfigOnce(cm *corev1.ConfigMap, reason podspec.Reason, message string) {
	if d.configs.first(cm, string(reason)+"/"+message) {
		d.tellConfig(cm, reason, message)
	}
}

func (d *Dispatcher) tellConfig(cm *corev1.ConfigMap, reason podspec.Reason, message string) {
	d.recorder.Event(cm, corev1.EventTypeWarning, string(reason), message)
	d.log.Info("Reported", "reason", reason, "message", message, "configMap", klog.KObj(cm))
}

// tellLog shows the administrator, on the class's ConfigMap, how the log of a pod ended that left no message, and returns
// it. Users do not see logs unless the class says so: a script's log may hold anything.
func (d *Dispatcher) tellLog(ctx context.Context, f *facts, pod *corev1.Pod) string {
	if f.config == nil {
		return ""
	}
	lines, size := int64(10), int64(4096)
	text, err := d.client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
		Container: podspec.ContainerName, TailLines: &lines, LimitBytes: &size}).DoRaw(ctx)
	if err != nil {
		d.log.V(4).Info("No log", "pod", klog.KObj(pod), "err", err) // a node that is gone has none to give
		return ""
	}
	end := podspec.Clean(string(text))
	cm, ok, _ := d.caches.configMaps.GetStore().GetByKey(f.config.Namespace + "/" + f.config.Name)
	if ok && end != "" {
		d.tellConfig(cm.(*corev1.ConfigMap), ReasonLog, fmt.Sprintf("pod %s for claim %s: %s", pod.Name, pod.Annotations[contract.AnnClaim], end))
	}
	return end
}
