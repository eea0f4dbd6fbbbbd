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
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/obstacles"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/podlog"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/progress"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reconcile"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/recorder"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/writer"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// reconcile observes a claim, decides, and applies the plan. It is never called twice at once for one claim. A claim
// whose objects name another class than its queue's goes to the queue of that class.
func (c *Controller) reconcile(ctx context.Context, class, uid string) (after time.Duration, err error) {
	s := c.observe(class, uid)
	if s.ClassName != class {
		c.queue.Move(uid, s.ClassName)
		c.endClass(class)

		return 0, nil
	}

	after, err = c.advance(ctx, s)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Could not reconcile, will retry", subject(s).Keys(nil)...)
	}

	return after, err
}

func (c *Controller) advance(ctx context.Context, s *observed.Claim) (after time.Duration, err error) {
	missing, err := c.podMissing(ctx, s)
	if err != nil || missing {
		return arrivalGrace, err
	}

	c.observeRefusing(ctx, s)

	p, err := c.plan(ctx, s)
	created := false
	if err == nil {
		c.trackProgress(s, &p.Plan)
		c.recordAll(s, p.Events)
		c.spareLogs(s, &p.Plan)
		created, err = c.apply(ctx, s, p.Plan)
	}

	if !created {
		c.releaseSlot(p.slot)
	}

	if err != nil {
		return untilRequeue(s, p.Plan), err // what has its time does not wait for what fails
	}

	c.memory.change(s.UID, func(m *claimMemory) { m.refusedSince = time.Time{} })
	if at := c.Recorder.RemindAt(s.UID, p.Events); !at.IsZero() {
		p.RequeueBy(at)
	}

	forgotten := false
	if p.Forget {
		forgotten = c.forget(s.UID, s.ClassName, s.Revision)
	}

	if forgotten {
		return 0, nil
	}

	return untilRequeue(s, p.Plan), nil
}

// untilRequeue is when the plan requeues the claim, 0 for never.
func untilRequeue(s *observed.Claim, p reconcile.Plan) time.Duration {
	if p.RequeueAt.IsZero() {
		return 0
	}

	return max(p.RequeueAt.Sub(s.Now), time.Millisecond)
}

// releaseSlot gives the slot of a pod back that was not created, if there is one. A pod that existed before, and has
// not ended, keeps it.
func (c *Controller) releaseSlot(pod string) {
	if pod == "" {
		return
	}

	cached := c.Cache.Pod(pod)
	runs := cached != nil && !podspec.OutcomeOf(cached).Final()
	if !runs {
		c.queue.Release(pod)
	}
}

// trackProgress sets the metrics of waiting claims, and adds to the plan what the claim's status has to say about the
// wait.
func (c *Controller) trackProgress(s *observed.Claim, p *reconcile.Plan) {
	c.Recorder.SetProtected(s.UID, s.ClassName, p.ProtectedBy)
	now := progress.Of(s, *p)
	progress.SetCondition(s, p, now.Operation)

	// Live reads are ahead of the caches, which the next reconciliation uses: it would begin the wait again, and end it
	// a second time.
	ahead := !s.Confirmed.IsZero() && !p.Forget
	if now.Operation == "" && ahead {
		return
	}

	before := c.Recorder.SetWait(s.UID, recorder.Wait{
		Class: s.KnownClass(), Operation: now.Operation, Phase: string(now.Phase), Since: now.Since,
	})
	if now.Operation != before.Operation && progress.Served(s, before.Operation) {
		c.Recorder.Metrics.Served(before.Class, before.Operation, s.Now.Sub(before.Since))
	}
}

// planned is a plan for a claim, and what it has taken so far.
type planned struct {
	reconcile.Plan
	// confirmed is what was read from the API server for it.
	confirmed reconcile.Confirmation
	// slot is the pod that has a slot in its class, empty for none.
	slot string
}

// plan decides, and decides again on confirmed facts if the plan relies on any.
func (c *Controller) plan(ctx context.Context, s *observed.Claim) (p planned, err error) {
	for {
		p.Plan = reconcile.Decide(s)
		c.deferCleanup(s, &p)
		c.acquireSlot(s, &p)
		if p.Confirm <= p.confirmed {
			return p, nil
		}

		err = c.confirmPlan(ctx, s, p)
		if err != nil {
			return p, err
		}

		p.confirmed = p.Confirm
	}
}

// deferCleanup puts a plan off that only cleans up, while users of the class wait.
func (c *Controller) deferCleanup(s *observed.Claim, p *planned) {
	c.queue.UserWaits(s.UID, s.UserWaits())

	node, ok := p.Deferrable(s)
	if !ok {
		return
	}

	until := c.queue.DeferCleanup(s.UID, node, s.Now)
	if !until.IsZero() {
		p.Defer(until)
	}
}

// acquireSlot takes a slot in the class for the pod of the plan, or makes the claim wait for one. A claim that waits
// costs the API server nothing.
func (c *Controller) acquireSlot(s *observed.Claim, p *planned) {
	create, ok := reconcile.Find[reconcile.CreatePod](p.Plan)
	if !ok {
		return
	}

	pod := create.PodName(s.UID)
	if pod != p.slot {
		c.queue.Release(p.slot)
		p.slot = pod
	}

	used, reportAt, ok := c.queue.Acquire(s.ClassName, s.UID, pod, s.Config.MaxConcurrent, s.Now)
	if !ok {
		p.slot = ""
		p.WaitForSlot(s, create.AttemptSpec, used, reportAt)
	}
}

// confirmPlan reads from the API server what the plan relies on.
func (c *Controller) confirmPlan(ctx context.Context, s *observed.Claim, p planned) error {
	switch {
	case s.Snapshot != nil:
		return c.confirmSnapshot(ctx, s)
	case s.Attachment != nil:
		return c.confirmAttachment(ctx, s)
	}

	if p.Confirm == reconcile.Volume {
		return c.confirmVolume(ctx, s)
	}

	create, ok := reconcile.Find[reconcile.CreatePod](p.Plan)
	if !ok {
		return c.confirm(ctx, s, nil)
	}

	return c.confirm(ctx, s, &create.AttemptSpec)
}

// apply carries out a plan's actions in order. The process may die after each step. The next reconciliation finds what
// was done and goes on from there. created reports whether the plan's pod was created.
//
// What is noted, saved and let go of a pod comes last, whatever became of the claim. Whoever drains the pod's node
// waits for that alone.
func (c *Controller) apply(ctx context.Context, s *observed.Claim, p reconcile.Plan) (created bool, err error) {
	most := stale
	for _, action := range p.Actions {
		if err != nil && !independent(action) {
			continue
		}

		var fault error
		if create, ok := action.(reconcile.CreatePod); ok {
			created, fault = c.createPod(ctx, s, create.AttemptSpec, most)
		} else {
			fault = c.carryOut(ctx, s, action)
		}

		err = errors.Join(err, fault)
		most = fresh // a write may have taken long, and the next plan is without it
	}

	return created, err
}

// independent reports whether the action is carried out also if one before it failed.
func independent(action reconcile.Action) bool {
	switch action.(type) {
	case reconcile.NoteVolume, reconcile.SavePod, reconcile.ReleasePod:
		return true
	default:
		return false
	}
}

// carryOut carries out an action that creates no pod.
func (c *Controller) carryOut(ctx context.Context, s *observed.Claim, action reconcile.Action) (err error) {
	switch a := action.(type) {
	case reconcile.SetCloneOf:
		err = c.writer.SetCloneOf(ctx, s.Claim, a.Source)
	case reconcile.SetResizeStatus:
		err = c.setResizeStatus(ctx, s, a)
	case reconcile.StopPod:
		err = c.stopPod(ctx, a)
	case reconcile.Reschedule:
		err = c.reschedule(ctx, s, a)
	case reconcile.AcknowledgePod:
		err = c.acknowledgePod(ctx, s.UID, a)
	case reconcile.NoteVolume:
		err = c.note(ctx, a.Attempt, contract.AnnVolumeSeen, a.Volume)
	case reconcile.SavePod:
		err = c.savePod(ctx, s, a)
	case reconcile.ReleasePod:
		err = c.releasePod(ctx, a)
	case reconcile.SetWaitingCondition:
		err = c.writer.SetWaitingCondition(ctx, s.Holder(), string(a.Reason), a.Message, metav1.NewTime(s.Now))
	case reconcile.ResyncClaim:
		c.Resync(s.Claim)
	case reconcile.CreateContent, reconcile.RecordContent, reconcile.SetContentReady, reconcile.SetContentError,
		reconcile.FinishContent, reconcile.ReleaseContent:
		err = c.changeContent(ctx, s, action)
	case reconcile.KeepAttachment, reconcile.SetAttached, reconcile.SetAttachmentError, reconcile.ReleaseAttachment:
		err = c.changeAttachment(ctx, s, action)
	default:
		err = c.changeVolume(ctx, s, action)
	}

	return err
}

// changeVolume carries out an action on the volume.
func (c *Controller) changeVolume(ctx context.Context, s *observed.Claim, action reconcile.Action) (err error) {
	switch a := action.(type) {
	case reconcile.RepairVolume:
		err = c.repairVolume(ctx, s, a)
	case reconcile.SetFinalizer:
		err = c.writer.SetFinalizer(ctx, s.Volume, a.Present)
	case reconcile.SetNodeGone:
		err = c.writer.SetNodeGone(ctx, s.Volume, a.Since)
		if err == nil {
			c.noteRepair(s)
		}
	case reconcile.SetCapacity:
		err = c.writer.SetCapacity(ctx, s.Volume, a.Size)
	case reconcile.RetractVolume:
		err = c.writer.RetractVolume(ctx, s.Volume)
	case reconcile.DeleteVolume:
		err = c.deleteVolume(ctx, s, a.GivenUp)
	}

	return err
}

func (c *Controller) repairVolume(ctx context.Context, s *observed.Claim, a reconcile.RepairVolume) error {
	err := c.writer.RepairVolume(ctx, s.Volume, a.Patch)
	if err == nil {
		c.noteRepair(s)
	}

	return err
}

func (c *Controller) noteRepair(s *observed.Claim) {
	c.memory.change(s.UID, func(m *claimMemory) { m.repaired, m.repairedAt = s.Volume.UID, s.Now })
}

// setResizeStatus keeps the claim that it leaves: later actions patch its status, too.
func (c *Controller) setResizeStatus(ctx context.Context, s *observed.Claim, a reconcile.SetResizeStatus) error {
	left, err := c.writer.SetResizeStatus(ctx, s.Holder(), a.Status, metav1.NewTime(s.Now))
	s.SetHolder(left)

	return err
}

func (c *Controller) stopPod(ctx context.Context, a reconcile.StopPod) error {
	if a.Kill {
		return c.deletePod(ctx, a.Pod, killGrace)
	}

	return c.deletePod(ctx, a.Pod, writer.OwnGrace)
}

// reschedule forgets first that the claim was handed over: the library hands it over again. The scheduler learns first
// that the node has no capacity.
func (c *Controller) reschedule(ctx context.Context, s *observed.Claim, a reconcile.Reschedule) error {
	if a.Without != "" && s.Class != nil {
		c.memory.refused(s.ClassName, a.Without, s.Now)
		c.classQueue.AddAfter(s.ClassName, c.publishCapacity(ctx, s.Class))
	}

	c.memory.change(s.UID, func(m *claimMemory) { m.wanted = false })

	err := c.writer.Reschedule(ctx, s.Claim)
	if err == nil {
		c.memory.change(s.UID, func(m *claimMemory) { m.rescheduled = a.After })
	}

	return err
}

func subject(s *observed.Claim) recorder.Subject {
	about := recorder.Subject{
		UID: s.UID, Class: s.ClassName, Label: s.KnownClass(), Claim: s.Holder(), Volume: s.Volume,
	}
	if of := s.Snapshot; of != nil {
		about.Snapshot, about.Content = of.Request, of.Content
	}

	return about
}

func (c *Controller) recordAll(s *observed.Claim, all []events.Event) {
	for _, e := range all {
		about := subject(s)
		if e.OfMaking() {
			about.Claim = s.Claim
		}

		c.Recorder.Record(about, e, c.podLog(s, e))
	}
}

// logGrace is the delay before a claim is reconciled again whose pod has to stay while its log is read.
const logGrace = time.Second

// spareLogs keeps the pods whose logs are being read. A later plan acknowledges or releases them, as after a crash
// between two actions.
func (c *Controller) spareLogs(s *observed.Claim, p *reconcile.Plan) {
	p.Actions = slices.DeleteFunc(p.Actions, func(action reconcile.Action) bool {
		var pod *corev1.Pod
		switch a := action.(type) {
		case reconcile.AcknowledgePod:
			pod = a.Pod
		case reconcile.ReleasePod:
			pod = a.Pod
		}

		if pod == nil || !c.Recorder.AwaitsLog(pod) {
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
// It is read in the background: a kubelet that does not answer takes as long as it may. The state has changed by
// then.
func (c *Controller) podLog(s *observed.Claim, e events.Event) recorder.PodLog {
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

// createPod creates the pod of an attempt. Its name is the lock: a dispatcher that finds it taken has lost nothing, and
// watches the pod that exists. What it relies on must not be older than most.
func (c *Controller) createPod(
	ctx context.Context, s *observed.Claim, spec observed.AttemptSpec, most time.Duration,
) (created bool, err error) {
	pod, err := s.Pod(spec, c.cluster(s.Now))
	if err != nil {
		return false, c.creationFailed(ctx, s, spec, err)
	}

	if age := time.Since(s.Confirmed); age > most {
		return false, fmt.Errorf("create pod %s/%s: what it relies on was read %s ago and may have changed",
			pod.Namespace, pod.Name, age.Round(time.Second))
	}

	if onHost(s, &spec) && s.Host.Name != spec.Node {
		return false, fmt.Errorf("create pod %s/%s: it has to run on node %s by now, and node %q was read",
			pod.Namespace, pod.Name, spec.Node, s.Host.Name)
	}

	log := klog.FromContext(ctx)
	c.memory.expectCreation(s.UID, pod)
	if spec.Op == contract.Delete && s.Released() && obstacles.Old(s.Volume, s.Now) {
		c.memory.deletionBegan(s.ClassName, s.UID, s.Now) // the answer may be lost
	}

	if spec.Op == contract.DeleteSnapshot && obstacles.OldContent(s.Snapshot.Content, s.Now) {
		c.memory.deletionBegan(s.ClassName, s.UID, s.Now)
	}

	now, err := c.writer.CreatePod(ctx, pod)
	switch {
	case err == nil:
		c.memory.expectCreation(s.UID, now)
		log.Info("Created provisioner pod", subject(s).Keys(pod)...)
		c.Recorder.Metrics.PodCreated(s.ClassName, spec.Op)
	case apierrors.IsAlreadyExists(err):
		log.V(4).Info("Found provisioner pod", subject(s).Keys(pod)...)
	default:
		return false, c.creationFailed(ctx, s, spec, fmt.Errorf("create pod %s/%s: %w", pod.Namespace, pod.Name, err))
	}

	c.Recorder.PodCreated(s.UID)

	return err == nil, nil
}

// cluster is what all pods have in common. Without the UID of their namespace they have no owner, and a drain that does
// not force anything waits for those that run.
func (c *Controller) cluster(now time.Time) podspec.Cluster {
	cluster := c.Pods
	cluster.NamespaceUID, _ = c.memory.namespace(now)

	return cluster
}

// lasts is how long the API server may refuse a claim's pod, or not answer, before an event reports it. What is over in
// a moment concerns nobody.
const lasts = 10 * time.Second

// creationFailed records that no pod could be created, at once where the next try most likely gets the same answer. It
// returns the error, too, so that the queue retries with growing delays.
func (c *Controller) creationFailed(
	ctx context.Context, s *observed.Claim, spec observed.AttemptSpec, err error,
) error {
	refused := events.PodRefused(events.For(spec.Op, s.Holder(), s.Volume), spec.MadeBy, err)
	if recorder.IsTransient(err) {
		if ctx.Err() != nil || !c.refusalLasts(s) {
			return err
		}

		refused = events.PodRefusedForLong(refused)
	}

	told := reconcile.Plan{Events: []events.Event{refused}}
	progress.SetCondition(s, &told, string(spec.Op))
	c.recordAll(s, told.Events)
	if _, fault := c.apply(ctx, s, told); fault != nil {
		err = errors.Join(err, fault)
	}

	c.tellNotGranted(s, events.NotGranted(err))

	return err
}

// tellNotGranted records on the ConfigMap of the class which privileges its ServiceAccount lacks, if any.
func (c *Controller) tellNotGranted(s *observed.Claim, lacks string) {
	if lacks == "" || s.Config == nil {
		return
	}

	cm := c.Cache.ConfigMap(s.Config.Name)
	if cm != nil {
		c.Recorder.RecordConfigMap(cm, events.ReasonPodRefused, "no pod is created: "+lacks)
	}
}

// refusalLasts reports whether the claim's pod has been refused for long.
func (c *Controller) refusalLasts(s *observed.Claim) (long bool) {
	c.memory.change(s.UID, func(m *claimMemory) {
		if m.refusedSince.IsZero() {
			m.refusedSince = s.Now
		}

		long = s.Now.Sub(m.refusedSince) >= lasts
	})

	return long
}

// deleteVolume deletes a volume whose storage is gone, once. One that is given up counts for the limit, as does one
// that a pod is created for.
func (c *Controller) deleteVolume(ctx context.Context, s *observed.Claim, givenUp bool) error {
	if c.memory.claim(s.UID).deleted == s.Volume.UID {
		return nil
	}

	if givenUp && obstacles.Old(s.Volume, s.Now) {
		c.memory.deletionBegan(s.ClassName, s.UID, s.Now)
	}

	c.memory.storageRemoved(s.Volume.UID, s.Now)
	if err := c.writer.DeleteVolume(ctx, s.Volume); err != nil {
		return err
	}

	c.memory.change(s.UID, func(m *claimMemory) { m.deleted = s.Volume.UID })

	return nil
}
