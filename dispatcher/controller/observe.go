package controller

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/classes"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/snapshot"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// observe takes a snapshot from the caches.
func (c *Controller) observe(class, uid string) *snapshot.Snapshot {
	// What is handed over after this has to be newer than what the caches show below.
	revision := c.memory.handedOver()
	s := &snapshot.Snapshot{Now: c.Now(), UID: uid, ClassName: class, Provisioner: c.ProvisionerName, RecordKey: c.RecordKey, Revision: revision,
		Claim: c.Cache.Claim(uid), Class: c.Cache.Class(class)}
	s.SetVolume(c.Cache.Volume(podspec.VolumeName(uid)))
	s.Quiet = !c.Recorder.Warned(uid) && c.queue.Active(class) > 1
	s.SetSource(c.Cache.ClaimNamed, c.Cache.Volume)
	c.setPods(s, c.Cache.PodsOf(uid))
	c.observeConfig(s)
	policies := c.Policies()
	s.PoliciesMissing, s.CreatorKnown = policies.Missing, policies.CreatorKnown(s.Claim)
	c.observeMemory(s)
	s.DeletionsStopped = snapshot.StoppedBy(c.Cache.StopDeletes())
	c.observeDeletions(s)
	return s
}

// observeConfig finds the configuration in force for the snapshot's class.
func (c *Controller) observeConfig(s *snapshot.Snapshot) {
	classes.Observe(s, c.Pods.Namespace, classes.Known{Class: c.Cache.Class, ConfigMap: c.Cache.ConfigMap, InForce: c.memory.config})
}

func (c *Controller) setPods(s *snapshot.Snapshot, pods []*corev1.Pod) {
	for _, pod := range pods {
		c.memory.arrived(s.UID, pod)
	}
	s.SetPods(pods, func(pod *corev1.Pod) string { return c.Cache.PodProblem(pod.UID) })
}

func (c *Controller) observeMemory(s *snapshot.Snapshot) {
	m := c.memory.claim(s.UID)
	s.Wanted, s.WantedSince, s.Rescheduled = m.wanted, m.since, m.rescheduled
	if s.Repaired = (time.Time{}); s.Volume != nil && s.Volume.UID == m.repaired {
		s.Repaired = m.repairedAt
	}
	s.Released = s.Volume != nil && s.Volume.UID == m.released && snapshot.AwaitsDeletion(s.Volume)
}

// arrivalGrace is how long a pod that was created may take to reach the cache before the API server is asked for it.
const arrivalGrace = 2 * time.Second

// podMissing says that the cache does not show the pod that was created last, so that nothing can be decided: another pod could be
// ordered beside it. Its arrival leads to another look. One that never arrives has come and gone between two lists, which is
// remembered until another one is created.
func (c *Controller) podMissing(ctx context.Context, s *snapshot.Snapshot) (bool, error) {
	name := c.memory.claim(s.UID).expected.name
	if name == "" {
		return false, nil
	}
	pod, err := c.reader.Pod(ctx, name)
	if err != nil {
		return false, err
	}
	if pod == nil {
		s.PodMissed = true
		return false, nil
	}
	c.memory.expect(s.UID, pod) // what was not answered when it was created
	return !slices.ContainsFunc(s.All(), func(a snapshot.Attempt) bool { return a.Pod.UID == pod.UID }), nil
}

// confirm replaces what the caches say of the claim, its volume and its pods by what the API server says now. A cache may lag by any
// time. A claim that was bound and deleted meanwhile would be provisioned a second time, a delete be ordered beside a provision of
// the former leader, and what another leader made for a claim that the cache does not show yet be undone.
//
// Volume and pods are read for a first provision only where the cache shows pods, or missed one. While a claim waits its first pod
// stays, also after its volume is made, so that a dispatcher that knows of none is about to order a name that is taken. No pod stays
// after an expansion, so that for the next one, and for a delete, they are always read.
//
// The class decides whether what an attempt may have made is made use of by the next one, or is undone. So it is read where there are
// attempts and no volume: of two leaders, of which one knows the class as another provisioner's, one would undo beside the other's retry.
//
// One of the reads may take long, because the client tried it again, and the others be old by then. They are all made again, but not
// for ever, since the API server may be slow throughout.
func (c *Controller) confirm(ctx context.Context, s *snapshot.Snapshot, order *snapshot.Order) error {
	for try := 1; ; try++ {
		began := time.Now()
		s.Confirmed = began
		if err := c.confirmOnce(ctx, s, order); err != nil || try == 3 || time.Since(began) < fresh {
			return err
		}
	}
}

const (
	// fresh is how old what was confirmed should be when it is acted on.
	fresh = time.Second
	// stale is how old it may be at most. A process that was stopped meanwhile may not be the leader any more. It is less than a
	// Lease lasts, so that nothing of a later leader is unknown for long.
	stale = 10 * time.Second
)

func (c *Controller) confirmOnce(ctx context.Context, s *snapshot.Snapshot, order *snapshot.Order) error {
	var faults [5]error
	var all sync.WaitGroup
	claim := s.ClaimRef()
	deletes := order != nil && order.Op == contract.Delete
	known := deletes || s.PodMissed || len(s.Attempts)+len(s.Retained) > 0 || s.Expandable()
	if known && s.Volume == nil && claim != nil && s.ClassName != "" {
		all.Go(func() { faults[0] = c.confirmClass(ctx, s) })
	}
	if claim != nil {
		all.Go(func() { faults[1] = c.confirmClaim(ctx, s, claim) })
	}
	if known || order == nil || order.Op != contract.Provision {
		all.Go(func() { faults[2] = c.confirmVolume(ctx, s) })
	}
	if known {
		all.Go(func() { faults[3] = c.confirmPods(ctx, s) })
	}
	if deletes {
		// A backup of etcd that was taken while deletions were stopped may be restored under a dispatcher whose cache is of the time before.
		all.Go(func() { faults[4] = c.confirmStop(ctx, s) })
	}
	all.Wait()
	if err := errors.Join(faults[:]...); err != nil {
		return err
	}
	c.observeConfig(s) // the volume may have another record by now
	s.SetSource(c.Cache.ClaimNamed, c.Cache.Volume)
	c.observeMemory(s)
	c.observeDeletions(s)
	return nil
}

func (c *Controller) confirmClass(ctx context.Context, s *snapshot.Snapshot) error {
	class, err := c.reader.Class(ctx, s.ClassName)
	if err == nil {
		s.Class = class
	}
	return err
}

func (c *Controller) confirmClaim(ctx context.Context, s *snapshot.Snapshot, claim *corev1.PersistentVolumeClaim) error {
	claim, err := c.reader.Claim(ctx, claim)
	if err == nil {
		s.Claim = claim
	}
	return err
}

func (c *Controller) confirmVolume(ctx context.Context, s *snapshot.Snapshot) error {
	v, err := c.reader.Volume(ctx, s.UID)
	if err == nil {
		s.SetVolume(v)
	}
	return err
}

func (c *Controller) confirmPods(ctx context.Context, s *snapshot.Snapshot) error {
	pods, err := c.reader.PodsOf(ctx, s.UID)
	if err == nil {
		c.setPods(s, pods)
	}
	return err
}

func (c *Controller) confirmStop(ctx context.Context, s *snapshot.Snapshot) error {
	cm, err := c.reader.ConfigMap(ctx, contract.StopDeletes)
	if err == nil {
		s.DeletionsStopped = snapshot.StoppedBy(cm)
	}
	return err
}
