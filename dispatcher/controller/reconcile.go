package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reconcile"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/recorder"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/snapshot"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// reconcile is one look at a claim: observe, decide, apply. It is never called twice at once for one claim.
func (c *Controller) reconcile(ctx context.Context, class, uid string) (again time.Duration, err error) {
	s := c.observe(class, uid)
	if missing, err := c.podMissing(ctx, s); err != nil || missing {
		return arrivalGrace, err
	}
	p, err := c.plan(ctx, s)
	if err != nil {
		return 0, err
	}
	c.Recorder.SetProtected(uid, class, p.ProtectedBy)
	if err := c.apply(ctx, s, p); err != nil {
		return 0, err
	}
	if p.Forget && c.forget(uid, class, s.Revision) || p.RequeueAt.IsZero() {
		return 0, nil
	}
	return max(p.RequeueAt.Sub(s.Now), time.Millisecond), nil
}

// plan has a plan made, on confirmed facts where it needs them. What can wait is put off before: a claim that waits for its turn
// costs the API server nothing.
func (c *Controller) plan(ctx context.Context, s *snapshot.Snapshot) (reconcile.Plan, error) {
	p := reconcile.Decide(s)
	c.queue.UserWaits(s.UID, s.UserWaits())
	if node, ok := p.Deferrable(s); ok {
		if until := c.queue.DeferCleanup(s.UID, node, s.Now); !until.IsZero() {
			p.Defer(until)
		}
	}
	if p.Confirm == reconcile.Volume {
		if err := c.confirmVolume(ctx, s); err != nil {
			return p, err
		}
		p = reconcile.Decide(s)
	}
	var order *snapshot.Order
	if create, ok := reconcile.Find[reconcile.CreatePod](p); ok {
		order = &create.Order
		if used, tellAt, full := c.queue.Full(s.ClassName, s.UID, order.PodName(s.UID), s.Config.MaxConcurrent); full {
			p.WaitForPlace(s, *order, used, tellAt)
			return p, nil
		}
	}
	if p.Confirm == reconcile.Everything {
		if err := c.confirm(ctx, s, order); err != nil {
			return p, err
		}
		p = reconcile.Decide(s)
	}
	return p, nil
}

// apply carries out a plan in order. Each step may be the last before the process dies. The next look finds what was done and goes
// on from there.
func (c *Controller) apply(ctx context.Context, s *snapshot.Snapshot, p reconcile.Plan) error {
	for _, e := range p.Events {
		c.record(ctx, s, e)
	}
	for _, action := range p.Actions {
		var err error
		switch a := action.(type) {
		case reconcile.RepairVolume:
			err = c.repairVolume(ctx, s.Volume, a.Patch)
		case reconcile.SetCloneOf:
			err = c.setCloneOf(ctx, s.Claim, a.Source)
		case reconcile.SetCapacity:
			err = c.setCapacity(ctx, s.Volume, a.Size)
		case reconcile.SetResizeStatus:
			err = c.setResizeStatus(ctx, s, a.Status)
		case reconcile.CreatePod:
			var created bool
			if created, err = c.createPod(ctx, s, a.Order); !created && err == nil {
				return nil // another claim took the place meanwhile: what the pod would replace stays
			}
		case reconcile.StopPod:
			err = c.deletePod(ctx, a.Pod)
		case reconcile.DeleteVolume:
			err = c.removeVolume(ctx, s)
		case reconcile.Reschedule:
			c.memory.change(s.UID, func(m *claimMemory) { m.wanted = false }) // the library hands it over again with another node
			err = c.reschedule(ctx, s.Claim)
		case reconcile.CleanUpPod:
			err = c.cleanUpPod(ctx, s.UID, a)
		case reconcile.ResyncClaim:
			c.Resync(s.Claim)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Controller) record(ctx context.Context, s *snapshot.Snapshot, e events.Event) {
	c.Recorder.Record(recorder.Subject{UID: s.UID, Class: s.ClassName, Claim: s.Claim, Volume: s.Volume}, e,
		func(pod *corev1.Pod) string { return c.recordLog(ctx, s, pod) })
}

// recordLog shows the administrator, on the class's ConfigMap, how the log of a pod ended that left no message. It returns what its
// user may see of it: nothing, unless the class says so, since a script's log may hold anything.
func (c *Controller) recordLog(ctx context.Context, s *snapshot.Snapshot, pod *corev1.Pod) string {
	if s.Config == nil {
		return ""
	}
	lines, size := int64(10), int64(4096)
	text, err := c.Client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
		Container: podspec.ContainerName, TailLines: &lines, LimitBytes: &size}).DoRaw(ctx)
	if err != nil {
		klog.FromContext(ctx).V(4).Info("No log", "pod", klog.KObj(pod), "err", err) // a node that is gone has none to give
		return ""
	}
	end := podspec.Clean(string(text))
	if cm := c.Cache.ConfigMap(s.Config.Name); cm != nil && end != "" {
		c.Recorder.Warn(cm, events.ReasonLog, fmt.Sprintf("pod %s for claim %s: %s", pod.Name, pod.Annotations[contract.AnnClaim], end), "configMap", klog.KObj(cm))
	}
	if !s.Config.ShowLogs {
		return ""
	}
	return end
}

// createPod creates the pod of an order. Its name is the lock: a dispatcher that finds it taken has lost nothing, and watches the
// pod that exists. created is false without an error where the class has no place for it.
func (c *Controller) createPod(ctx context.Context, s *snapshot.Snapshot, order snapshot.Order) (created bool, err error) {
	pod, err := s.Pod(order, c.Pods)
	if err != nil {
		return false, c.refused(ctx, s, order, err)
	}
	if !c.queue.Acquire(s.ClassName, s.UID, pod.Name, s.Config.MaxConcurrent) {
		c.queue.Poke(s.UID) // it waits, and says so in time
		return false, nil
	}
	log := klog.FromContext(ctx)
	c.memory.expect(s.UID, pod)
	now, err := c.postPod(ctx, pod)
	switch {
	case err == nil:
		c.memory.expect(s.UID, now)
		log.Info("Created provisioner pod", "pod", klog.KObj(pod), "PVC", pod.Annotations[contract.AnnClaim], "StorageClass", s.ClassName)
		c.Recorder.Metrics.PodCreated(s.ClassName, order.Op)
		if order.Op == contract.Delete && s.Released && reconcile.Old(s.Volume, s.Now) {
			c.memory.deletionBegan(s.ClassName, s.UID, s.Now)
		}
	case apierrors.IsAlreadyExists(err):
		log.V(4).Info("Found provisioner pod", "pod", klog.KObj(pod))
		// Its end may have been heard of before its place was taken: no later event would free the place. The cache is written before
		// an event is heard.
		if cached := c.Cache.Pod(pod.Name); cached != nil && podspec.OutcomeOf(cached).Final() {
			c.queue.Release(s.ClassName, pod.Name)
		}
	default:
		c.queue.Release(s.ClassName, pod.Name)
		return false, c.refused(ctx, s, order, fmt.Errorf("create pod %s/%s: %w", pod.Namespace, pod.Name, err))
	}
	c.Recorder.PodCreated(s.UID)
	return true, nil
}

// refused says that no pod could be created. The error is returned too, so that the queue looks again, with growing delays.
func (c *Controller) refused(ctx context.Context, s *snapshot.Snapshot, order snapshot.Order, err error) error {
	c.record(ctx, s, events.PodRefused(events.For(order.Op, s.Claim, s.Volume), order.Record, err))
	return err
}

// removeVolume deletes a volume whose storage is gone, once.
func (c *Controller) removeVolume(ctx context.Context, s *snapshot.Snapshot) error {
	if c.memory.claim(s.UID).deleted == s.Volume.UID {
		return nil
	}
	c.memory.deleteVolume(s.Volume.UID, s.Now)
	if err := c.deleteVolume(ctx, s.Volume); err != nil {
		return err
	}
	c.memory.change(s.UID, func(m *claimMemory) { m.deleted = s.Volume.UID })
	return nil
}
