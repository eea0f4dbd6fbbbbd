package inspect

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/classes"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// observe is what the dispatcher observes of the claim with a UID, as far as the objects show it. For what only the dispatcher knows it assumes the usual
// case: the library has passed on every claim and volume, the volume's record is genuine, and no limit on deletions is reached. In
// other cases there is an event.
func (o *Objects) observe(uid string) *observed.Claim {
	key := o.keyOf(uid)
	s := &observed.Claim{Now: o.Now, UID: key, Provisioner: o.Dispatcher.Provisioner, Claim: o.claim(key)}
	volume := o.VolumeNamed(podspec.VolumeName(key))
	if volume != nil {
		volume = verified(volume)
	}
	s.SetVolume(volume)
	s.SetOther(o.ClaimNamed)
	s.SetElsewhere(o.VolumeNamed)
	s.SetPods(o.podsOf(key), o.indexed().saved[key], func(pod *corev1.Pod) string { return observed.PodProblem(o.eventsOn(pod.Namespace, pod.UID)) })
	s.AttemptNode = o.AttemptNode
	s.SetSnapshot(o.snapshotOf(key))
	s.ClassName = s.ClassByObjects("")
	if s.Foreign != nil && s.Claim == nil {
		s.ClassName = podspec.ClassOf(s.Foreign)
	}
	s.Class = o.class(s.ClassName)
	s.SetSource(o.ClaimNamed, o.VolumeNamed)
	s.SetSnapshotSource(o.requestNamed, o.contentNamed, o.configOf)
	classes.Observe(s, o.Dispatcher.Namespace, classes.Listers{Class: o.class, ConfigMap: o.configMap, InForce: o.inForce})
	if o.reads(Claims, Volumes) && !o.OneNamespace {
		s.SetPlaces(o.Dispatcher.Namespace, observed.Listers{Claim: o.ClaimNamed, Volume: o.VolumeNamed, Class: o.class})
	}
	if !o.Dispatcher.Insecure && len(o.Lacks) > 0 {
		s.PoliciesMissing = o.Lacks[0]
	}
	s.DeletionsStopped = observed.StoppedBy(o.Stop)
	s.Wanted = s.Claim != nil && !s.WaitsForNode() && requestedProvisioner(s.Claim) != ""
	s.SetSuccessor(o.ClaimNamed)
	if s.Released() {
		s.AttachedTo = observed.AttachedTo(o.attachmentsOf(s.Volume))
		s.SetCopiedBy(filter(o.Pods, func(p *corev1.Pod) bool { return observed.CopiedVolume(p) == s.Volume.Name }))
		storage := podspec.MountSource(s.Volume)
		s.SetSameStorage(filter(o.Volumes, func(v *corev1.PersistentVolume) bool { return observed.StorageByHand(v) == storage }))
		s.SetUser(filter(o.Claims, func(c *corev1.PersistentVolumeClaim) bool { return observed.GivenVolume(c) == s.Volume.Name }))
	}
	return s
}

// AttemptNodeOf is the node of the attempt for the claim with a UID that has not ended; empty where there is none.
func (o *Objects) AttemptNodeOf(uid string) string {
	running, _ := observed.Unfinished(o.observe(uid).Attempts)
	if running.Pod == nil {
		return ""
	}

	return running.Pod.Spec.NodeName
}

// ConsumersNamespace is the namespace of the claim with a UID, if it waits for the node of a pod that uses it, or is
// being deleted and waits for the end of such pods; else it is empty.
func (o *Objects) ConsumersNamespace(uid string) string {
	s := o.observe(uid)
	holder := s.Holder()
	waits := s.Pending() && s.WaitsForNode()
	goes := holder != nil && holder.DeletionTimestamp != nil
	if !waits && !goes {
		return ""
	}

	return holder.Namespace
}

// StartProblem is what the kubelet says of a pod that does not start, in events about it; empty for nothing.
func StartProblem(events []*corev1.Event) string { return observed.PodProblem(events) }

// verified is the volume as it is in the cache of the dispatcher that signed its record.
func verified(v *corev1.PersistentVolume) *corev1.PersistentVolume {
	v = v.DeepCopy()
	if record := v.Annotations[contract.AnnRecord]; record != "" && record != contract.RecordTrusted {
		delete(v.Annotations, contract.AnnRecord)
		v.Annotations[podspec.Verified] = "true"
	}
	return v
}

// inForce is the class's configuration, or else the problem. The dispatcher may still use an earlier, valid version.
func (o *Objects) inForce(class string) (*configmaps.Config, string) {
	j := o.resolve(class)
	if !j.Present {
		return nil, cmp.Or(j.Problem, o.meantFor(class))
	}

	return j.InForce, j.Problem
}
