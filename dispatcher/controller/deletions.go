package controller

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flex-provisioner/flex-provisioner/audit"
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/cache"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/obstacles"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/recorder"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/snapshot"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// observeDeletions adds what may protect the volume's storage from deletion. It is called again once the volume was read from the API
// server: other deletions may have begun meanwhile, and the volume may be old by then.
func (c *Controller) observeDeletions(s *snapshot.Snapshot) {
	s.Successor, s.DeleteLimit, s.RecentDeletions = nil, 0, 0
	if s.Volume == nil || !s.Released {
		return
	}
	if ref := s.Volume.Spec.ClaimRef; ref != nil {
		if claim := c.Cache.ClaimNamed(ref.Namespace, ref.Name); claim != nil && claim.UID != ref.UID {
			s.Successor = claim
		}
	}
	s.DeleteLimit = c.DeleteLimit
	if s.Config != nil && s.Config.DeleteLimit != nil {
		s.DeleteLimit = *s.Config.DeleteLimit
	}
	if s.DeleteLimit > 0 && obstacles.Old(s.Volume, s.Now) {
		s.RecentDeletions = c.countDeletions(s)
	}
}

// countDeletions counts the class's old volumes that wait to be deleted, this one included, and those whose deletion began within
// limitPeriod. It stops one above the limit.
func (c *Controller) countDeletions(s *snapshot.Snapshot) int {
	recent := c.memory.recentDeletions(s.ClassName, s.Now)
	delete(recent, s.UID)
	count := len(recent) + 1
	for _, v := range c.Cache.DueForDeletion(s.ClassName) {
		if count > s.DeleteLimit {
			break
		}
		if uid, ok := podspec.ClaimUIDOf(v.Name); ok && uid != s.UID && !recent[uid] && obstacles.Old(v, s.Now) && !c.hasPod(uid, isDelete) {
			count++
		}
	}
	return count
}

func isDelete(pod *corev1.Pod) bool {
	return pod.Labels[contract.LabelOperation] == string(contract.Delete)
}

func (c *Controller) hasPod(uid string, is func(pod *corev1.Pod) bool) bool {
	return slices.ContainsFunc(c.Cache.PodsOf(uid), is)
}

// stopChanged tells that deletions are stopped and lets everything be looked at again.
func (c *Controller) stopChanged(cm *corev1.ConfigMap, deleted bool) {
	c.Recorder.Metrics.SetStopped(!deleted)
	if deleted {
		c.keepConfigMaps()
		c.Recorder.Log("Deletions go on", "configMap", cm.Namespace+"/"+cm.Name)
	} else {
		c.tellStopped(cm)
	}
	c.queue.RequeueAll()
}

// tellStopped tells that deletions are stopped, and how they go on.
func (c *Controller) tellStopped(cm *corev1.ConfigMap) {
	c.Recorder.RecordConfigMap(cm, events.ReasonStopped, fmt.Sprintf("no storage is removed while this ConfigMap exists; to go on: kubectl -n %s delete configmap %s", cm.Namespace, cm.Name))
}

// volumeDeleted alarms where a volume's object went before its storage did. The object's finalizer prevents that, unless somebody
// takes it off.
func (c *Controller) volumeDeleted(v *corev1.PersistentVolume) {
	removed := c.memory.volumeGone(v.UID)
	uid, ours := podspec.ClaimUIDOf(v.Name)
	proved := func(pod *corev1.Pod) bool {
		return pod.Annotations[contract.AnnVolumeUID] == string(v.UID) && podspec.OutcomeOf(pod).Phase == podspec.Succeeded
	}
	if removed || !ours || v.Annotations[contract.ProvisionedBy] != c.ProvisionerName ||
		v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || c.hasPod(uid, proved) {
		return
	}
	class := v.Spec.StorageClassName
	c.Recorder.Metrics.Failed(class, events.ReasonLeft)
	c.Recorder.Warn(v, events.ReasonLeft, fmt.Sprintf("the volume is gone, but no pod removed its storage: somebody took its finalizer off; "+
		"look for %s on the storage of class %s: kubectl flex audit", v.Name, class), recorder.Subject{UID: uid, Class: class, Volume: v}.Keys(nil)...)
	c.endClass(class) // the volume may have been the first that was heard of a class that does not exist any more
}

// firstAudit is the default of Options.FirstAudit.
const firstAudit = 5 * time.Minute

// auditPeriod is how often the dispatcher audits what its caches hold. What it finds has been so for an hour at least.
const auditPeriod = time.Hour

// auditKinds are what can be found without Secrets and the storage.
var auditKinds = []audit.Kind{audit.Pod, audit.Released, audit.Unprotected}

// subjectOf are the keys of a log line about a volume or a pod.
func subjectOf(object runtime.Object) []any {
	switch o := object.(type) {
	case *corev1.PersistentVolume:
		uid, _ := podspec.ClaimUIDOf(o.Name)
		return recorder.Subject{UID: uid, Class: podspec.ClassOf(o), Volume: o}.Keys(nil)
	case *corev1.Pod:
		_, uid, _, _ := podspec.ParseName(o.Name)
		return recorder.Subject{UID: uid, Class: classOf(o)}.Keys(o)
	}
	return recorder.Subject{}.Keys(nil)
}

// audit sets the metric to what is found. It tells of each finding, and of each released volume that no provisioner pod can remove.
// Unlike the command of that name it sees neither Secrets nor the storage.
func (c *Controller) audit(now time.Time) {
	counts := map[audit.Kind]int{}
	for _, f := range audit.Compare(audit.State{Now: now, Provisioner: c.ProvisionerName, Objects: audit.Objects{
		Claims:  cache.All[*corev1.PersistentVolumeClaim](c.Cache.Claims),
		Volumes: cache.All[*corev1.PersistentVolume](c.Cache.Volumes),
		Pods:    cache.All[*corev1.Pod](c.Cache.Pods),
	}}) {
		counts[f.Kind]++
		c.Recorder.Warn(f.About, events.ReasonOrphan, fmt.Sprintf("%s; to remove or mend it: %s", f.Why, f.Command), append([]any{"kind", f.Kind, "name", f.Name}, subjectOf(f.About)...)...)
	}
	for _, v := range cache.All[*corev1.PersistentVolume](c.Cache.Volumes) {
		if _, ours := podspec.ClaimUIDOf(v.Name); !ours && v.Annotations[contract.ProvisionedBy] == c.ProvisionerName && snapshot.AwaitsDeletion(v) {
			c.notOurs(v)
		}
	}
	for _, kind := range auditKinds {
		c.Recorder.Metrics.SetOrphans(string(kind), counts[kind])
	}
}

// namespaceOf is the namespace of the claim that a provisioner pod works for.
func namespaceOf(pod *corev1.Pod) string {
	namespace, _, _ := strings.Cut(pod.Annotations[contract.AnnClaim], "/")
	return namespace
}
