package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/obstacles"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/progress"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reconcile"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/recorder"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/snapshot"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/writer"
	"github.com/flex-provisioner/flex-provisioner/podlog"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// reconcile observes a claim, decides, and applies the plan. It is never called twice at once for one claim. A claim
// whose objects name another class than its queue's goes to the queue of that class.
func (c *Controller) reconcile(ctx context.Context, class, uid string) (requeueAfter time.Duration, err error) {
	s := c.observe(class, uid)
	if s.ClassName != class {
		c.queue.Move(uid, s.ClassName)
		c.endClass(class)
		return 0, nil
	}
	if requeueAfter, err = c.advance(ctx, s); err != nil {
		klog.FromContext(ctx).Error(err, "Could not reconcile, will retry", subject(s).Keys(nil)...)
	}
	return requeueAfter, err
}

func (c *Controller) advance(ctx context.Context, s *snapshot.Snapshot) (requeueAfter time.Duration, err error) {
	if missing, err := c.podMissing(ctx, s); err != nil || missing {
		return arrivalGrace, err
	}
	p, place, err := c.plan(ctx, s)
	created := false
	if err == nil {
		c.trackProgress(s, &p)
		c.recordAll(s, p.Events)
		c.spareLogs(s, &p)
		created, err = c.apply(ctx, s, p)
	}
	if place != "" && !created {
		// A pod that existed before, and has not ended, keeps the place.
		if cached := c.Cache.Pod(place); cached == nil || podspec.OutcomeOf(cached).Final() {
			c.queue.Release(place)
		}
	}
	if at := c.Recorder.RemindAt(s.UID, p.Events); !at.IsZero() {
		p.RequeueBy(at)
	}
	if err == nil {
		c.memory.change(s.UID, func(m *claimMemory) { m.refusedSince = time.Time{} })
	}
	if err != nil || p.Forget && c.forget(s.UID, s.ClassName, s.Revision) || p.RequeueAt.IsZero() {
		return 0, err
	}
	return max(p.RequeueAt.Sub(s.Now), time.Millisecond), nil
}

// trackProgress sets the metrics of waiting claims, and adds to the plan what the claim's status has to say about the
// wait.
func (c *Controller) trackProgress(s *snapshot.Snapshot, p *reconcile.Plan) {
	c.Recorder.SetProtected(s.UID, s.ClassName, p.ProtectedBy)
	now := progress.Of(s, *p)
	progress.SetCondition(s, p, now.Operation)
	if now.Operation == "" && !s.Confirmed.IsZero() && !p.Forget {
		// Live reads are ahead of the caches, which the next reconciliation uses: it would begin the wait again, and
		// end it a second time.
		return
	}
	before := c.Recorder.SetWait(s.UID, recorder.Wait{Class: s.KnownClass(), Operation: now.Operation, Phase: string(now.Phase), Since: now.Since})
	if now.Operation != before.Operation && progress.Served(s, before.Operation) {
		c.Recorder.Metrics.Served(before.Class, before.Operation, s.Now.Sub(before.Since))
	}
}

// plan decides, and decides again on confirmed facts if the plan relies on any. place is the pod for which a place in
// the class was acquired. A claim that waits for a place costs the API server nothing.
func (c *Controller) plan(ctx context.Context, s *snapshot.Snapshot) (p reconcile.Plan, place string, err error) {
	for confirmed := reconcile.Nothing; ; confirmed = p.Confirm {
		p = reconcile.Decide(s)
		c.queue.UserWaits(s.UID, s.UserWaits())
		if node, ok := p.Deferrable(s); ok {
			if until := c.queue.DeferCleanup(s.UID, node, s.Now); !until.IsZero() {
				p.Defer(until)
			}
		}
		var order *snapshot.Order
		if create, ok := reconcile.Find[reconcile.CreatePod](p); ok {
			order = &create.Order
			if pod := order.PodName(s.UID); pod != place {
				c.queue.Release(place)
				place = pod
			}
			if used, reportAt, ok := c.queue.Acquire(s.ClassName, s.UID, place, s.Config.MaxConcurrent, s.Now); !ok {
				p.WaitForPlace(s, *order, used, reportAt)
				return p, "", nil
			}
		}
		switch {
		case p.Confirm <= confirmed:
			return p, place, nil
		case p.Confirm == reconcile.Volume:
			err = c.confirmVolume(ctx, s)
		default:
			err = c.confirm(ctx, s, order)
		}
		if err != nil {
			return p, place, err
		}
	}
}

// apply carries out a plan's actions in order. The process may die after each step. The next reconciliation finds what
// was done and goes on from there. created reports whether the plan's pod was created.
func (c *Controller) apply(ctx context.Context, s *snapshot.Snapshot, p reconcile.Plan) (created bool, err error) {
	for _, action := range p.Actions {
		switch a := action.(type) {
		case reconcile.RepairVolume:
			if err = c.writer.RepairVolume(ctx, s.Volume, a.Patch); err == nil {
				c.memory.change(s.UID, func(m *claimMemory) { m.repaired, m.repairedAt = s.Volume.UID, s.Now })
			}
		case reconcile.SetFinalizer:
			err = c.writer.SetFinalizer(ctx, s.Volume, a.Present)
		case reconcile.SetCloneOf:
			err = c.writer.SetCloneOf(ctx, s.Claim, a.Source)
		case reconcile.SetCapacity:
			err = c.writer.SetCapacity(ctx, s.Volume, a.Size)
		case reconcile.SetResizeStatus:
			var left *corev1.PersistentVolumeClaim
			left, err = c.writer.SetResizeStatus(ctx, s.Holder(), a.Status, metav1.NewTime(s.Now))
			s.SetHolder(left)
		case reconcile.RetractVolume:
			err = c.writer.RetractVolume(ctx, s.Volume)
		case reconcile.CreatePod:
			created, err = c.createPod(ctx, s, a.Order)
		case reconcile.StopPod:
			grace := writer.OwnGrace
			if a.Kill {
				grace = killGrace
			}
			err = c.deletePod(ctx, a.Pod, grace)
		case reconcile.DeleteVolume:
			err = c.deleteVolume(ctx, s)
		case reconcile.Reschedule:
			c.memory.change(s.UID, func(m *claimMemory) { m.wanted = false }) // before the library hands it over again
			if err = c.writer.Reschedule(ctx, s.Claim); err == nil {
				c.memory.change(s.UID, func(m *claimMemory) { m.rescheduled = a.After })
			}
		case reconcile.CleanUpPod:
			err = c.cleanUpPod(ctx, s.UID, a)
		case reconcile.SetWaitingCondition:
			err = c.writer.SetWaitingCondition(ctx, s.Holder(), string(a.Reason), a.Message, metav1.NewTime(s.Now))
		case reconcile.ResyncClaim:
			c.Resync(s.Claim)
		}
		if err != nil {
			return created, err
		}
	}
	return created, nil
}

func subject(s *snapshot.Snapshot) recorder.Subject {
	return recorder.Subject{UID: s.UID, Class: s.ClassName, Label: s.KnownClass(), Claim: s.Holder(), Volume: s.Volume}
}

func (c *Controller) recordAll(s *snapshot.Snapshot, all []events.Event) {
	for _, e := range all {
		about := subject(s)
		if e.OfMaking() {
			about.Claim = s.Claim
		}
		c.Recorder.Record(about, e, c.podLog(s, e))
	}
}

// logGrace is after what time a claim is looked at again whose pod stays because its log is being read.
const logGrace = time.Second

// spareLogs puts the end of pods off whose logs are being read. As after a crash between two actions, a later plan ends
// them.
func (c *Controller) spareLogs(s *snapshot.Snapshot, p *reconcile.Plan) {
	p.Actions = slices.DeleteFunc(p.Actions, func(action reconcile.Action) bool {
		cleanUp, ok := action.(reconcile.CleanUpPod)
		if !ok || !c.Recorder.AwaitsLog(cleanUp.Pod) {
			return false
		}
		p.Forget = false
		p.RequeueBy(s.Now.Add(logGrace))
		return true
	})
}

// podLog is what an event says of the log of a pod that left no message. A log may contain anything. So events on
// volumes, pods and ConfigMaps, which administrators read, have its end, and events on claims only if the class says
// so.
//
// It is read in the background: a kubelet that does not answer takes as long as it may. The snapshot has changed by
// then.
func (c *Controller) podLog(s *snapshot.Snapshot, e events.Event) recorder.PodLog {
	if !e.WithPodLog {
		return recorder.PodLog{}
	}
	keys, config := subject(s).Keys(e.Pod), s.Config
	late := podlog.Says("", context.DeadlineExceeded)
	return recorder.PodLog{Pod: e.Pod, Missing: late, Read: func(ctx context.Context) string {
		end, err := podlog.EndOf(ctx, c.Client, e.Pod)
		if err != nil {
			klog.FromContext(ctx).V(4).Info("No log", append([]any{"err", err}, keys...)...)
		}
		if end == "" || e.On != events.OnClaim {
			return podlog.Says(end, err)
		}
		where := c.recordLog(e.Pod, end, config, keys)
		if config != nil && config.ShowLogs {
			return podlog.Says(end, nil)
		}
		return "administrators find the end of its log in the events of " + where
	}}
}

// recordLog records the end of a pod's log on the ConfigMap of its class, or on the pod if there is none.
func (c *Controller) recordLog(pod *corev1.Pod, end string, config *configmaps.Config, keys []any) (where string) {
	var about runtime.Object = pod
	where = fmt.Sprintf("Pod %s/%s", pod.Namespace, pod.Name)
	if config != nil {
		if cm := c.Cache.ConfigMap(config.Name); cm != nil {
			about, where = cm, fmt.Sprintf("ConfigMap %s/%s", cm.Namespace, cm.Name)
		}
	}
	claim := pod.Annotations[contract.AnnClaim]
	message := fmt.Sprintf("pod %s for claim %s: %s", pod.Name, claim, end)
	c.Recorder.Warn(about, claim, events.ReasonLog, message, keys...)
	return where
}

// createPod creates the pod of an order. Its name is the lock: a dispatcher that finds it taken has lost nothing, and
// watches the pod that exists.
func (c *Controller) createPod(ctx context.Context, s *snapshot.Snapshot, order snapshot.Order) (created bool, err error) {
	pod, err := s.Pod(order, c.Pods)
	if err != nil {
		return false, c.creationFailed(ctx, s, order, err)
	}
	if age := time.Since(s.Confirmed); age > stale {
		return false, fmt.Errorf("create pod %s/%s: what it relies on was read %s ago and may have changed", pod.Namespace, pod.Name, age.Round(time.Second))
	}
	log := klog.FromContext(ctx)
	c.memory.expectCreation(s.UID, pod)
	if order.Op == contract.Delete && s.Released() && obstacles.Old(s.Volume, s.Now) {
		c.memory.deletionBegan(s.ClassName, s.UID, s.Now) // the answer may be lost
	}
	now, err := c.writer.CreatePod(ctx, pod)
	switch {
	case err == nil:
		c.memory.expectCreation(s.UID, now)
		log.Info("Created provisioner pod", subject(s).Keys(pod)...)
		c.Recorder.Metrics.PodCreated(s.ClassName, order.Op)
	case apierrors.IsAlreadyExists(err):
		log.V(4).Info("Found provisioner pod", subject(s).Keys(pod)...)
	default:
		return false, c.creationFailed(ctx, s, order, fmt.Errorf("create pod %s/%s: %w", pod.Namespace, pod.Name, err))
	}
	c.Recorder.PodCreated(s.UID)
	return err == nil, nil
}

// lasts is for how long the API server has to refuse a claim's pod, or not to answer, before that is told. What is over
// in a moment concerns nobody.
const lasts = 10 * time.Second

// creationFailed records that no pod could be created, at once where the next try most likely gets the same answer. It
// returns the error, too, so that the queue retries with growing delays.
func (c *Controller) creationFailed(ctx context.Context, s *snapshot.Snapshot, order snapshot.Order, err error) error {
	refused := events.PodRefused(events.For(order.Op, s.Holder(), s.Volume), order.Record, err)
	if recorder.IsTransient(err) {
		if ctx.Err() != nil || !c.refusalLasts(s) {
			return err
		}
		refused = events.PodRefusedForLong(refused)
	}

	told := reconcile.Plan{Events: []events.Event{refused}}
	progress.SetCondition(s, &told, string(order.Op))
	c.recordAll(s, told.Events)
	if _, fault := c.apply(ctx, s, told); fault != nil {
		err = errors.Join(err, fault)
	}
	if lacks := events.NotGranted(err); lacks != "" && s.Config != nil {
		if cm := c.Cache.ConfigMap(s.Config.Name); cm != nil {
			c.Recorder.RecordConfigMap(cm, events.ReasonPodRefused, "no pod is created: "+lacks)
		}
	}
	return err
}

// refusalLasts reports whether the claim's pod has been refused for long.
func (c *Controller) refusalLasts(s *snapshot.Snapshot) (long bool) {
	c.memory.change(s.UID, func(m *claimMemory) {
		if m.refusedSince.IsZero() {
			m.refusedSince = s.Now
		}
		long = s.Now.Sub(m.refusedSince) >= lasts
	})
	return long
}

// deleteVolume deletes a volume whose storage is gone, once.
func (c *Controller) deleteVolume(ctx context.Context, s *snapshot.Snapshot) error {
	if c.memory.claim(s.UID).deleted == s.Volume.UID {
		return nil
	}
	c.memory.storageRemoved(s.Volume.UID, s.Now)
	if err := c.writer.DeleteVolume(ctx, s.Volume); err != nil {
		return err
	}
	c.memory.change(s.UID, func(m *claimMemory) { m.deleted = s.Volume.UID })
	return nil
}
