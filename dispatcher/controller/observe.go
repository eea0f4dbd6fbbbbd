package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/classes"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// observe observes a claim by the caches. class is that of the queue, for objects that name none.
func (c *Controller) observe(class, uid string) *observed.Claim {
	// The revision is read first: what the library hands over after that may be missing below.
	revision := c.memory.handedOver()
	s := &observed.Claim{
		Now: c.Now(), UID: uid, Provisioner: c.ProvisionerName, RecordKey: c.RecordKey, Revision: revision,
	}

	c.Cache.Observe(s)
	c.setPods(s, c.Cache.PodsOf(uid), c.Cache.SavedOf(uid))
	s.SetSnapshot(c.observeSnapshot(s))
	s.SetAttachment(c.observeAttachment(s))
	c.observeSource(s)

	s.ClassName = s.ClassByObjects(class)
	s.Class = c.Cache.Class(s.ClassName)
	s.Quiet = !c.Recorder.Warned(uid) && c.queue.Active(s.ClassName) > 1

	c.observeConfig(s)
	c.observePlaces(s)

	policies := c.Policies()
	s.PoliciesMissing, s.CreatorKnown = policies.Missing, policies.CreatorKnown(s.Claim)

	c.observeMemory(s)
	s.DeletionsStopped = observed.StoppedBy(c.Cache.StopDeletes())
	c.observeDeletions(s)

	return s
}

// observeConfig finds the configuration in force for the observed class.
func (c *Controller) observeConfig(s *observed.Claim) {
	classes.Observe(s, c.Pods.Namespace, classes.Listers{
		Class: c.Cache.Class, ConfigMap: c.Cache.ConfigMap, InForce: c.memory.config,
	})
}

// observePlaces finds the storage of the claims that pods mount. It needs the configuration, the volume and the pods.
func (c *Controller) observePlaces(s *observed.Claim) {
	s.SetPlaces(c.Pods.Namespace, observed.Listers{
		Claim: c.Cache.ClaimNamed, Volume: c.Cache.Volume, Class: c.Cache.Class,
	})
}

func (c *Controller) setPods(s *observed.Claim, pods []*corev1.Pod, saved []*appsv1.ControllerRevision) {
	for _, pod := range pods {
		c.memory.creationObserved(s.UID, pod)
	}

	s.SetPods(pods, saved, func(pod *corev1.Pod) string { return c.Cache.PodProblem(pod.UID) })
}

func (c *Controller) observeMemory(s *observed.Claim) {
	m := c.memory.claim(s.UID)
	s.Wanted, s.WantedSince, s.Rescheduled = m.wanted, m.since, m.rescheduled

	s.Repaired = time.Time{}
	if s.Volume != nil && s.Volume.UID == m.repaired {
		s.Repaired = m.repairedAt
	}
}

// arrivalGrace is how long a pod that was created may take to reach the cache before the API server is asked for it.
const arrivalGrace = 2 * time.Second

// podMissing reports whether the cache does not show yet the pod that was created last. Nothing can be decided until
// then: another pod could be created beside it. Its arrival requeues the claim. A pod that the API server does not have
// either was created and deleted between two lists. Each observation says so until the next pod is created.
func (c *Controller) podMissing(ctx context.Context, s *observed.Claim) (bool, error) {
	name := c.memory.claim(s.UID).expected.name
	if name == "" {
		return false, nil
	}

	pod, err := c.reader.Pod(ctx, name)
	if err != nil {
		return false, err
	}

	if pod == nil {
		c.queue.Release(name) // no watch event of the pod's end will
		s.PodMissed = true

		return false, nil
	}

	c.memory.expectCreation(s.UID, pod) // its creation may not have been answered

	return !slices.ContainsFunc(s.All(), func(a observed.Attempt) bool { return a.Pod.UID == pod.UID }), nil
}

// confirm replaces the observed claim, volume and pods by those that the API server has. A cache may lag by any time.
// Without this, a claim that was bound and deleted meanwhile would be provisioned a second time, a delete would run
// beside a provision of the former leader, and what another leader made for a claim that the cache does not show yet
// would be undone.
//
// For a first provision, volume and pods are read only if the cache shows pods, or missed one. The first pod of a claim
// stays until the claim is bound, or its record does, so that no dispatcher can create it a second time unless it looks
// for neither. No pod stays after an expansion, so that volume and pods are always read for an expansion and for a
// delete.
//
// The class decides whether the next attempt uses what an earlier one may have made, or whether that is undone. So the
// class is read if there are attempts and no volume: of two leaders with different caches, one would undo beside the
// other's retry.
//
// What pods mount is always read, so that the record of a first pod says where it works.
//
// One read may take long, because the client retried it, and the others are old by then. So all of them are repeated,
// at most twice, since the API server may be slow throughout.
func (c *Controller) confirm(ctx context.Context, s *observed.Claim, spec *observed.AttemptSpec) error {
	for try := 1; ; try++ {
		began := time.Now()
		s.Confirmed = began
		err := c.confirmOnce(ctx, s, spec)
		last := try == 3 || time.Since(began) < fresh
		if err != nil || last {
			return err
		}
	}
}

const (
	// fresh is how old confirmed facts should be when they are acted on.
	fresh = time.Second
	// stale is how old they may be at most. A process that was stopped meanwhile may not be the leader any more. It is
	// less than the duration of a Lease, so that the work of a later leader is never unknown for long.
	stale = 10 * time.Second
)

func (c *Controller) confirmOnce(ctx context.Context, s *observed.Claim, spec *observed.AttemptSpec) error {
	if err := c.confirmObjects(ctx, s, spec); err != nil {
		return err
	}

	s.SetElsewhere(c.Cache.Volume)
	if err := otherClass(s, "claim"); err != nil {
		return err
	}

	c.observeConfig(s) // the volume may have another record by now
	if s.AwaitsNode() {
		var err error
		s.Node, err = c.nodeOf(ctx, s)
		if err != nil {
			return err
		}
	}

	if err := c.confirmPlaces(ctx, s); err != nil {
		return err
	}

	c.observeSource(s)
	if err := c.confirmSource(ctx, s); err != nil {
		return err
	}

	c.observeMemory(s)
	c.observeDeletions(s)
	if spec != nil && spec.Op == contract.Delete {
		return c.confirmAttachedTo(ctx, s)
	}

	return nil
}

// otherClass is an error where what was read is of another class than the caches show. what is served under the UID.
func otherClass(s *observed.Claim, what string) error {
	class := s.ClassByObjects(s.ClassName)
	if class == s.ClassName {
		return nil
	}

	return fmt.Errorf("%s %s is of class %q by now, and the caches show class %q", what, s.UID, class, s.ClassName)
}

// confirmObjects reads the claim, its volume, its pods and its class, as far as the attempt relies on them.
func (c *Controller) confirmObjects(ctx context.Context, s *observed.Claim, spec *observed.AttemptSpec) error {
	claim := s.ClaimRef()
	deletes := spec != nil && spec.Op == contract.Delete
	provisions := spec != nil && spec.Op == contract.Provision
	known := hasPast(s, spec)
	undoes := known && s.Volume == nil && claim != nil
	first := provisions && !known

	reads := []struct {
		needed bool
		read   func() error
	}{
		{undoes && s.ClassName != "", func() error { return c.confirmClass(ctx, s) }},
		{claim != nil, func() error { return c.confirmClaim(ctx, s, claim) }},
		{known || !provisions, func() error { return c.confirmVolume(ctx, s) }},
		{known, func() error { return c.confirmPods(ctx, s) }},
		// A backup of etcd may have been restored in which deletions are stopped, while the cache is of the time
		// before.
		{deletes, func() error { return c.confirmStop(ctx, s) }},
		{first, func() error { return c.confirmFirst(ctx, s) }},
		{onHost(s, spec), func() error { return c.confirmHost(ctx, s, spec.Node) }},
		{spec != nil, func() error { c.confirmNamespace(ctx, s.Now); return nil }},
	}

	faults := make([]error, len(reads))
	var all sync.WaitGroup
	for i, r := range reads {
		if r.needed {
			all.Go(func() { faults[i] = r.read() })
		}
	}

	all.Wait()

	err := errors.Join(faults...)
	if err == nil && first && s.PodMissed {
		return c.confirmObjects(ctx, s, spec) // with all that it left out
	}

	return err
}

// hasPast reports whether something may have been made for the claim before the attempt.
func hasPast(s *observed.Claim, spec *observed.AttemptSpec) bool {
	pods := s.PodMissed || len(s.Attempts)+len(s.Retained) > 0
	return spec == nil || spec.Op == contract.Delete || pods || s.Expandable()
}

// confirmPlaces reads the claims that pods mount, and their volumes. A cache may show the storage from before an
// administrator pointed a claim elsewhere. The pod would work in the new place, and its record would name the old one.
func (c *Controller) confirmPlaces(ctx context.Context, s *observed.Claim) error {
	var faults []error
	s.SetPlaces(c.Pods.Namespace, observed.Listers{
		Claim: func(namespace, name string) *corev1.PersistentVolumeClaim {
			claim, err := c.reader.ClaimNamed(ctx, namespace, name)
			faults = append(faults, err)

			return claim
		},
		Volume: func(name string) *corev1.PersistentVolume {
			v, err := c.reader.VolumeNamed(ctx, name)
			faults = append(faults, err)

			return v
		},
		Class: c.Cache.Class,
	})

	return errors.Join(faults...)
}

func (c *Controller) confirmClass(ctx context.Context, s *observed.Claim) error {
	class, err := c.reader.Class(ctx, s.ClassName)
	if err == nil {
		s.Class = class
	}

	return err
}

func (c *Controller) confirmClaim(
	ctx context.Context, s *observed.Claim, claim *corev1.PersistentVolumeClaim,
) error {
	claim, err := c.reader.Claim(ctx, claim)
	if err == nil {
		s.Claim = claim
	}

	return err
}

// confirmVolume reads the claim that has the volume, too, where that is another one than the volume was made for.
func (c *Controller) confirmVolume(ctx context.Context, s *observed.Claim) error {
	v, err := c.reader.Volume(ctx, s.UID)
	if err != nil {
		return err
	}

	s.SetVolume(v)
	s.Other = nil
	if !s.Given() {
		return nil
	}

	s.Other, err = c.reader.Claim(ctx, observed.GivenTo(v))

	return err
}

// confirmPods reads the saved pods last: each was saved before the pod itself could go.
func (c *Controller) confirmPods(ctx context.Context, s *observed.Claim) error {
	pods, err := c.reader.PodsOf(ctx, s.UID)
	if err != nil {
		return err
	}

	saved, err := c.reader.SavedOf(ctx, s.UID)
	if err == nil {
		c.setPods(s, pods, saved)
	}

	return err
}

// confirmFirst looks for the record of the claim's first pod, which may be gone with its name. The cache may show
// neither.
func (c *Controller) confirmFirst(ctx context.Context, s *observed.Claim) error {
	saved, err := c.reader.Saved(ctx, podspec.Name(contract.Provision, s.UID, 0))
	if saved != nil {
		s.PodMissed = true
	}

	return err
}

// nodeOf says whether a node with the volume's storage exists: one that its node affinity matches, or whose name the
// affinity has, since somebody may have changed the node's label. It is unknown where the affinity names no node.
func (c *Controller) nodeOf(ctx context.Context, s *observed.Claim) (observed.NodeState, error) {
	names, selectors, ok := podspec.NodeLocal(s.Config, s.Volume)
	if !ok {
		return observed.NodeUnknown, nil
	}

	for _, selector := range selectors {
		exists, err := c.reader.NodeMatching(ctx, selector)
		switch {
		case err != nil:
			return observed.NodeUnknown, err
		case exists:
			return observed.NodeExists, nil
		}
	}

	for _, name := range names {
		node, err := c.reader.Node(ctx, name)
		switch {
		case err != nil:
			return observed.NodeUnknown, err
		case node != nil:
			return observed.NodeExists, nil
		}
	}

	return observed.NodeGone, nil
}

// observeRefusing reads the node that does not take the claim's pod: nobody watches nodes. Where it cannot be read, an
// event says less.
func (c *Controller) observeRefusing(ctx context.Context, s *observed.Claim) {
	name := s.RefusedBy()
	if name == "" {
		return
	}

	node, err := c.reader.Node(ctx, name)
	if err != nil {
		klog.FromContext(ctx).Info("Say nothing of a node", append([]any{"err", err}, subject(s).Keys(nil)...)...)
		return
	}

	s.AttemptNode = node
}

// onHost reports whether the attempt is to make storage on one node. The class may have lost its configuration since.
func onHost(s *observed.Claim, spec *observed.AttemptSpec) bool {
	makes := spec != nil && spec.Op == contract.Provision && spec.Node != ""
	return makes && s.Config != nil && s.Config.NodeLocal
}

// confirmHost reads the label by which a node-local volume will select its node.
func (c *Controller) confirmHost(ctx context.Context, s *observed.Claim, name string) error {
	node, err := c.reader.Node(ctx, name)
	s.Host = observed.Host{Name: name}
	if node != nil {
		s.Host.Label = node.Labels[corev1.LabelHostname]
		s.Host.Unlabeled = s.Host.Label == ""
	}

	return err
}

// confirmNamespace reads the UID of the pods' namespace, where what was read is old. It belongs to what is read for a
// pod, so that nothing comes between the pods of the claim and the new one.
func (c *Controller) confirmNamespace(ctx context.Context, now time.Time) {
	if _, known := c.memory.namespace(now); known {
		return
	}

	uid, err := c.reader.NamespaceUID(ctx)
	if err != nil {
		klog.FromContext(ctx).Info("Create pods without an owner", "err", err)
	}

	c.memory.setNamespace(uid, now)
}

// confirmSource reads the claim that is to be cloned: a copy must not begin beside the removal of its original.
func (c *Controller) confirmSource(ctx context.Context, s *observed.Claim) error {
	if s.Source.Snapshot != nil {
		return c.confirmSnapshotSource(ctx, s)
	}

	if s.Source.Claim == nil {
		return nil
	}

	claim, err := c.reader.Claim(ctx, s.Source.Claim)
	if err == nil {
		s.Source.Claim = claim
	}

	return err
}

func (c *Controller) confirmStop(ctx context.Context, s *observed.Claim) error {
	cm, err := c.reader.ConfigMap(ctx, contract.StopDeletes)
	if err == nil {
		s.DeletionsStopped = observed.StoppedBy(cm)
	}

	return err
}
