package controller

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/obstacles"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/recorder"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// observeDeletions adds what may protect the volume's storage from deletion. It is called again once the volume was
// read from the API server: other deletions may have begun meanwhile, and the volume may be old by then.
func (c *Controller) observeDeletions(s *observed.Claim) {
	if s.Snapshot != nil {
		c.observeSnapshotDeletions(s)
		return
	}

	s.SetSuccessor(c.Cache.ClaimNamed)
	s.DeleteLimit, s.RecentDeletions, s.CopiedBy, s.User, s.SameStorage, s.AttachedTo = 0, 0, "", nil, nil, nil
	if s.Attachment != nil || !s.Released() {
		return
	}

	s.AttachedTo = observed.AttachedTo(c.Cache.AttachmentsOf(s.Volume))

	s.SetCopiedBy(c.Cache.Copying(s.Volume.Name))
	if s.CopiedBy == "" {
		s.CopiedBy = c.copyExpected(s.Volume)
	}

	s.SetUser(c.Cache.Users(s.Volume.Name))
	s.SetSameStorage(c.Cache.SameStorage(s.Volume))
	s.DeleteLimit = c.deleteLimit(s)
	if s.DeleteLimit > 0 && obstacles.Old(s.Volume, s.Now) {
		s.RecentDeletions = c.countDeletions(s)
	}
}

// deleteLimit is the limit on deletions of the claim's class, 0 for none.
func (c *Controller) deleteLimit(s *observed.Claim) int {
	if s.Config != nil && s.Config.DeleteLimit != nil {
		return *s.Config.DeleteLimit
	}

	return c.DeleteLimit
}

// copyExpected names a pod that was created a moment ago to copy the volume, so that the cache does not show it yet.
func (c *Controller) copyExpected(v *corev1.PersistentVolume) string {
	if v.Spec.ClaimRef == nil {
		return ""
	}

	for _, clone := range c.Cache.ClonesOf(v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name) {
		if expected := c.memory.claim(string(clone.UID)).expected.name; expected != "" {
			return fmt.Sprintf("pod %s/%s for claim %s/%s", c.Pods.Namespace, expected, clone.Namespace, clone.Name)
		}
	}

	for _, pod := range c.memory.expected(contract.Snapshot) {
		_, uid, _, _ := podspec.ParseName(pod)
		content := c.Cache.Content(uid)
		handle := content != nil && content.Spec.Source.VolumeHandle != nil
		if handle && *content.Spec.Source.VolumeHandle == v.Name {
			return fmt.Sprintf("pod %s/%s for VolumeSnapshotContent %s", c.Pods.Namespace, pod, content.Name)
		}
	}

	return ""
}

// countDeletions counts the class's old volumes that wait to be deleted, this one included, and those whose deletion
// began within limitPeriod. It stops one above the limit.
func (c *Controller) countDeletions(s *observed.Claim) int {
	recent := c.memory.recentDeletions(s.ClassName, s.Now)
	delete(recent, s.UID)
	count := len(recent) + 1
	for _, v := range c.Cache.DueForDeletion(s.ClassName) {
		if count > s.DeleteLimit {
			break
		}

		uid, ok := podspec.ClaimUIDOf(v.Name)
		another := ok && uid != s.UID && !recent[uid]
		if another && c.waitsForDelete(v, uid, s.Now) {
			count++
		}
	}

	return count
}

// waitsForDelete reports whether an old volume waits for its delete pod.
func (c *Controller) waitsForDelete(v *corev1.PersistentVolume, uid string, now time.Time) bool {
	return obstacles.Old(v, now) && !c.hasPod(uid, isOf(contract.Delete))
}

func isOf(op contract.Operation) func(pod *corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		of, _, _, _ := podspec.ParseName(pod.Name)
		return of == op
	}
}

func (c *Controller) hasPod(uid string, is func(pod *corev1.Pod) bool) bool {
	saved := func(record *appsv1.ControllerRevision) bool {
		pod := podspec.SavedPod(record)
		return pod != nil && is(pod)
	}

	return slices.ContainsFunc(c.Cache.PodsOf(uid), is) || slices.ContainsFunc(c.Cache.SavedOf(uid), saved)
}

// stopChanged records that deletions are stopped, or go on, and requeues all known claims.
func (c *Controller) stopChanged(cm *corev1.ConfigMap, deleted bool) {
	c.Recorder.Metrics.SetStopped(!deleted)
	if deleted {
		c.forgetConfigMaps()
		c.Recorder.Log("Deletions go on", "configMap", cm.Namespace+"/"+cm.Name)
	} else {
		c.recordStopped(cm)
	}

	c.queue.RequeueAll()
}

// recordStopped records that deletions are stopped, and how to let them go on.
func (c *Controller) recordStopped(cm *corev1.ConfigMap) {
	message := fmt.Sprintf("no storage is removed while this ConfigMap exists; to go on: kubectl -n %s delete "+
		"configmap %s",
		cm.Namespace, cm.Name)
	c.Recorder.RecordConfigMap(cm, events.ReasonStopped, message)
}

// volumeDeleted records a warning if the object of a volume was deleted before its storage. The object's finalizer
// prevents that, unless somebody removes it.
func (c *Controller) volumeDeleted(v *corev1.PersistentVolume) {
	removed := c.memory.volumeDeleted(v.UID)
	uid, named := podspec.ClaimUIDOf(v.Name)
	ours := named && v.Annotations[contract.ProvisionedBy] == c.ProvisionerName
	retained := v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete
	if removed || !ours || retained {
		return
	}

	proved := func(pod *corev1.Pod) bool {
		return pod.Annotations[contract.AnnVolumeUID] == string(v.UID) &&
			podspec.OutcomeOf(pod).Phase == podspec.Succeeded
	}
	if c.hasPod(uid, proved) {
		return
	}

	class := podspec.ClassOf(v)
	message := fmt.Sprintf("the volume is gone, but no pod removed its storage: somebody took its finalizer off; "+
		"look for %s on the storage of class %s: kubectl flex audit", v.Name, class)
	about := recorder.Subject{UID: uid, Class: class, Volume: v}
	c.Recorder.Metrics.Failed(class, events.ReasonLeft)
	c.Recorder.Warn(v, "", events.ReasonLeft, message, about.Keys(nil)...)
	c.endClass(class) // the counter above may begin the series of a class that does not exist
}

// namespaceOf is the namespace of the claim that a provisioner pod works for.
func namespaceOf(pod *corev1.Pod) string {
	namespace, _, _ := strings.Cut(pod.Annotations[contract.AnnClaim], "/")
	return namespace
}
