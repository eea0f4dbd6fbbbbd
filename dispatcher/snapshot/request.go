package snapshot

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// Order is a provisioner pod to create.
type Order struct {
	Op     contract.Operation
	Number int
	// Node that the pod is bound to, or empty.
	Node string
	// Size in bytes that an expansion is to reach.
	Size int64
	// Record is the pod whose attempt may have made storage: of an undo, the storage to remove; of a provision, the storage that
	// may exist already.
	Record *corev1.Pod
	// Suspect marks an expansion that follows one which may have reached a size without saying so.
	Suspect bool
}

// PodName is the name of the order's pod.
func (o Order) PodName(uid string) string { return podspec.Name(o.Op, uid, o.Number) }

// Pod builds the order's pod. Its name is the lock: of two dispatchers that order the same, one finds the name taken. The error
// says what about the class, the volume or the record makes a pod impossible.
func (s *Snapshot) Pod(o Order, cluster podspec.Cluster) (*corev1.Pod, error) {
	attempt, err := s.attempt(o)
	if err != nil {
		return nil, err
	}
	pod, err := podspec.Build(attempt, cluster)
	if err != nil {
		return nil, err
	}
	if o.Op == contract.Provision && o.Record != nil || o.Suspect {
		pod.Annotations[contract.AnnSuspect] = s.suspect()
	}
	if s.Config.NodeLocal && o.Node != "" {
		pod.Annotations[contract.AnnNode] = o.Node
	}
	if ended := s.Of(contract.Provision); o.Op == contract.Delete && len(ended) > 0 {
		uids := make([]string, len(ended))
		for i, a := range ended {
			uids[i] = string(a.Pod.UID)
		}
		pod.Annotations[contract.AnnUndoes] = strings.Join(uids, ",")
	}
	if o.Op == contract.Delete && s.Volume != nil && !s.Released() {
		pod.Annotations[contract.AnnUndo] = "true"
	}
	return pod, nil
}

// suspect is the value of contract.AnnSuspect: the time until which what the earlier attempts asked for may still be done, or "true" where
// that is over.
func (s *Snapshot) suspect() string {
	if late := s.LateUntil(s.Of(contract.Provision)); s.Now.Before(late) {
		return late.Add(time.Second).UTC().Format(time.RFC3339) // cut to whole seconds
	}
	return "true"
}

func (s *Snapshot) attempt(o Order) (podspec.Attempt, error) {
	a := podspec.Attempt{Config: s.Config, Node: o.Node}
	var err error
	switch {
	case o.Op == contract.Provision:
		a.Request = s.provisionRequest()
		if o.Record != nil {
			a.Request.Location = location(o.Record)
		}
	case s.Volume != nil:
		a.Volume = s.Volume
		a.Request, err = s.volumeRequest()
	default:
		a.Request, err = s.undoRequest(o.Record)
	}
	if err != nil {
		return a, err
	}
	storage, doubt := s.StorageOf(o.Op, o.Record)
	if doubt != "" {
		return a, errors.New(doubt) // an administrator changed the volume since the plan was made
	}
	a.Request.Operation, a.Request.Attempt, a.Request.Mounts = o.Op, o.Number, storage.Mounts
	if o.Op == contract.Expand {
		a.Request.CurrentSizeBytes, a.Request.SizeBytes = a.Request.SizeBytes, o.Size
	}
	a.Request.ServiceAccount = s.Config.ServiceAccountName
	a.Request.TimeoutSeconds = int64(s.Config.Timeout.Seconds())
	if o.Op == contract.Provision {
		if a.Volume, err = podspec.Skeleton(a.Request, s.classFields()); err != nil {
			return a, err
		}
		a.Volume.Annotations[contract.AnnRecord] = s.RecordKey.Sign(a.Volume)
	}
	return a, nil
}

func (s *Snapshot) provisionRequest() contract.Request {
	size := Requested(s.Claim)
	r := contract.Request{
		VolumeName:   podspec.VolumeName(s.UID),
		Claim:        contract.Claim{Namespace: s.Claim.Namespace, Name: s.Claim.Name, UID: s.UID},
		StorageClass: s.ClassName,
		SizeBytes:    size.Value(),
		VolumeMode:   string(podspec.ModeOf(s.Claim.Spec.VolumeMode)),
		AccessModes:  modes(s.Claim.Spec.AccessModes),
		SelectedNode: s.SelectedNode(),
		Source:       s.requestSource(),
		Identity:     s.Identity(),

		AllowedTopologies: allowedTopologies(s.Class),
	}
	if s.CreatorKnown {
		r.Username = printable(s.Claim.Annotations[contract.AnnCreatedBy])
		if groups := printable(s.Claim.Annotations[contract.AnnCreatedByGroups]); groups != "" {
			r.Groups = strings.Split(groups, ",")
		}
	}
	return r
}

func modes(list []corev1.PersistentVolumeAccessMode) []string {
	var names []string
	for _, mode := range list {
		names = append(names, string(mode))
	}
	return names
}

// maxCreator bounds in bytes what a provisioner gets of a claim's creator. An identity provider's names may be any text.
const maxCreator = 16 << 10

// printable is empty rather than cut or cleaned: half a name is another name.
func printable(text string) string {
	if len(text) > maxCreator || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool {
		return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
	}) {
		return ""
	}
	return text
}

func allowedTopologies(class *storagev1.StorageClass) []map[string][]string {
	var list []map[string][]string
	for _, term := range class.AllowedTopologies {
		keys := map[string][]string{}
		for _, e := range term.MatchLabelExpressions {
			keys[e.Key] = e.Values
		}
		list = append(list, keys)
	}
	return list
}

// ClockSkew is by how much the clocks of the dispatcher and the API server may differ, and a pod may be late that no dispatcher
// stopped in time, before a volume is taken for a copy from a backup.
const ClockSkew = time.Hour

func (s *Snapshot) classFields() podspec.ClassFields {
	fields := podspec.ClassFields{
		Provisioner:   s.Class.Provisioner,
		ReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		MountOptions:  s.Class.MountOptions,
		ConfigStamp:   podspec.ConfigStamp(s.Config),
		MadeBefore:    s.Now.Add(s.Config.StartTimeout + s.Config.Timeout + ClockSkew),
	}
	if s.Class.ReclaimPolicy != nil {
		fields.ReclaimPolicy = *s.Class.ReclaimPolicy
	}
	return fields
}

// volumeRequest asks for a volume's storage to be removed or expanded, by the identity that found it when it was made. Properties
// that the class has gained since are added, so that a newer image finds what it needs. None that the volume has is replaced.
func (s *Snapshot) volumeRequest() (contract.Request, error) {
	identity, doubt := s.VolumeIdentity()
	if doubt != "" {
		return contract.Request{}, errors.New(doubt) // an administrator changed the volume since the plan was made
	}
	identity.Properties = withGained(identity, s.Config.Properties)
	size := Capacity(s.Volume)
	r := contract.Request{
		VolumeName:   s.Volume.Name,
		Claim:        contract.Claim{UID: s.UID},
		StorageClass: s.ClassName,
		SizeBytes:    size.Value(),
		VolumeMode:   string(podspec.ModeOf(s.Volume.Spec.VolumeMode)),
		AccessModes:  modes(s.Volume.Spec.AccessModes),
		Location:     LocationOf(s.Volume),
		Identity:     identity,
	}
	r.Claim.Namespace, r.Claim.Name = s.claimNamed()
	return r, nil
}

// claimNamed is the namespace and name of the claim that the volume belongs to. A provisioner wrote the claimRef, and
// policies see its UID alone. So where the UID is that of the claim that the volume was made for, the claim says its
// name, or the pod of an attempt.
func (s *Snapshot) claimNamed() (namespace, name string) {
	ref := s.Volume.Spec.ClaimRef
	if ref == nil {
		return "", ""
	}
	if made := s.ClaimRef(); made != nil && ref.UID == made.UID {
		return made.Namespace, made.Name
	}
	return ref.Namespace, ref.Name
}

// withGained are the properties of the identity, and those of the class whose environment name the identity does not use.
func withGained(identity contract.Identity, properties map[string]string) map[string]string {
	all, taken := map[string]string{}, map[string]bool{}
	for _, known := range []map[string]string{identity.Properties, identity.Parameters} {
		for key := range known {
			taken[contract.EnvName(key)] = true
		}
	}
	maps.Copy(all, identity.Properties)
	for key, value := range properties {
		if !taken[contract.EnvName(key)] {
			all[key] = value
		}
	}
	return all
}

func location(record *corev1.Pod) string { return NewAttempt(record, "").Location() }

// undoRequest asks for the removal of what an attempt may have made. An undo removes no other claim's storage, whatever the
// record says.
func (s *Snapshot) undoRequest(record *corev1.Pod) (contract.Request, error) {
	request, err := podspec.RequestOf(record)
	if err != nil {
		return request, fmt.Errorf("undo attempt for claim %s: %w", s.UID, err)
	}
	request.Claim.UID, request.VolumeName, request.Location = s.UID, podspec.VolumeName(s.UID), location(record)
	return request, nil
}
