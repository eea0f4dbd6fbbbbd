package observed

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

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// AttemptSpec is an attempt to start: the provisioner pod to create for it.
type AttemptSpec struct {
	Op     contract.Operation
	Number int
	// Node that the pod is bound to, or empty.
	Node string
	// Size in bytes that an expansion is to reach.
	Size int64
	// MadeBy is the pod of an earlier attempt that may have made storage. An undo removes that storage. A provision
	// may find it. It is nil where there is none.
	MadeBy *corev1.Pod
	// Suspect marks an expansion that follows one which may have reached a size without saying so, and a snapshot that
	// follows an attempt which may have made one.
	Suspect bool
}

// PodName is the name of the attempt's pod.
func (a AttemptSpec) PodName(uid string) string { return podspec.Name(a.Op, uid, a.Number) }

// Pod builds the attempt's pod. Its name is the lock: of two dispatchers that start the same attempt, one finds the
// name taken. The error says what about the class, the volume or the earlier attempt makes a pod impossible.
func (s *Claim) Pod(spec AttemptSpec, cluster podspec.Cluster) (*corev1.Pod, error) {
	attempt, err := s.attempt(spec)
	if err != nil {
		return nil, err
	}

	pod, err := podspec.Build(attempt, cluster)
	if err != nil {
		return nil, err
	}

	mayExist := spec.Op == contract.Provision && spec.MadeBy != nil
	if mayExist || spec.Suspect {
		pod.Annotations[contract.AnnSuspect] = s.suspect(spec.Op)
	}

	if s.Config.NodeLocal && spec.Node != "" {
		pod.Annotations[contract.AnnNode] = spec.Node
	}

	switch spec.Op {
	case contract.Delete:
		s.annotateDelete(pod, contract.Provision)
	case contract.DeleteSnapshot:
		s.annotateDelete(pod, contract.Snapshot)
	case contract.Detach:
		s.annotateDelete(pod, contract.Attach)
	}

	return pod, nil
}

// annotateDelete writes on a delete pod which attempts of the operation that makes had ended before it, and whether it
// undoes an unfit volume.
func (s *Claim) annotateDelete(pod *corev1.Pod, makes contract.Operation) {
	var uids []string
	for _, a := range s.Of(makes) {
		uids = append(uids, string(a.Pod.UID))
	}

	if len(uids) > 0 {
		pod.Annotations[contract.AnnUndoes] = strings.Join(uids, ",")
	}

	if makes == contract.Provision && s.Volume != nil && !s.Released() {
		pod.Annotations[contract.AnnUndo] = "true"
	}
}

// suspect is the value of contract.AnnSuspect: the time until which a storage system may still carry out what the
// earlier attempts asked for, or "true" where that time is over.
func (s *Claim) suspect(op contract.Operation) string {
	makes := contract.Provision
	if op == contract.Snapshot || podspec.OfAttachment(op) {
		makes = op
	}

	late := s.LateUntil(s.Of(makes))
	if s.Now.Before(late) {
		return late.Add(time.Second).UTC().Format(time.RFC3339) // cut to whole seconds
	}

	return "true"
}

func (s *Claim) attempt(spec AttemptSpec) (podspec.Attempt, error) {
	a := podspec.Attempt{Config: s.Config, Node: spec.Node}

	var err error
	switch {
	case spec.Op == contract.Provision:
		a.Request = s.provisionRequest()
		a.Request.NodeHostname = s.Host.label()
		if s.Pinned() {
			a.Source = s.Source.snapshotOf()
			a.Request.NodeHostname = podspec.Hostname(a.Source)
		}

		if spec.MadeBy != nil {
			a.Request.Location = location(spec.MadeBy)
		}
	case podspec.OfSnapshot(spec.Op):
		a.Volume = s.Volume
		a.Request, err = s.snapshotRequest()
	case podspec.OfAttachment(spec.Op):
		a.Volume = s.Volume
		a.Request, err = s.attachmentRequest(spec.MadeBy)
	case s.Volume != nil:
		a.Volume = s.Volume
		a.Request, err = s.volumeRequest()
	default:
		a.Request, err = s.undoRequest(spec.MadeBy)
	}

	if err != nil {
		return a, err
	}

	storage, doubt := s.StorageOf(spec.Op, spec.MadeBy)
	if doubt != "" {
		return a, errors.New(doubt) // an administrator changed the volume since the plan was made
	}

	a.Request.Operation, a.Request.Attempt, a.Request.Mounts = spec.Op, spec.Number, storage.Mounts
	a.Request.ServiceAccount = s.Config.ServiceAccountName
	a.Request.TimeoutSeconds = int64(s.Config.Timeout.Seconds())

	switch spec.Op {
	case contract.Expand:
		a.Request.CurrentSizeBytes, a.Request.SizeBytes = a.Request.SizeBytes, spec.Size
	case contract.Provision:
		a.Volume, err = podspec.Skeleton(a.Request, s.classFields())
		if err != nil {
			return a, err
		}

		a.Volume.Annotations[contract.AnnRecord] = s.RecordKey.Sign(a.Volume)
	}

	return a, nil
}

func (s *Claim) provisionRequest() contract.Request {
	size := Requested(s.Claim)
	r := contract.Request{
		VolumeName:   podspec.VolumeName(s.UID),
		Claim:        contract.Claim{Namespace: s.Claim.Namespace, Name: s.Claim.Name, UID: s.UID},
		StorageClass: s.ClassName,
		SizeBytes:    size.Value(),
		VolumeMode:   string(podspec.ModeOf(s.Claim.Spec.VolumeMode)),
		AccessModes:  modes(s.Claim.Spec.AccessModes),
		SelectedNode: s.NodeToMakeOn(),
		Source:       s.requestSource(),
		Identity:     s.newIdentity(),

		AllowedTopologies: allowedTopologies(s.Class),
	}
	if !s.CreatorKnown {
		return r
	}

	r.Username = printable(s.Claim.Annotations[contract.AnnCreatedBy])
	groups := printable(s.Claim.Annotations[contract.AnnCreatedByGroups])
	if groups != "" {
		r.Groups = strings.Split(groups, ",")
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

// maxCreator bounds in bytes what a provisioner gets of a claim's creator. An identity provider's names may be any
// text.
const maxCreator = 16 << 10

// printable is empty rather than cut or cleaned: half a name is another name.
func printable(text string) string {
	if len(text) > maxCreator || !Printable(text) {
		return ""
	}

	return text
}

// Printable reports whether a text is one line without characters that change how it looks.
func Printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unprintable)
}

func unprintable(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }

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

// ClockSkew is by how much the clocks of the dispatcher and the API server may differ, and a pod may be late that no
// dispatcher stopped in time, before a volume is taken for a copy from a backup.
const ClockSkew = time.Hour

func (s *Claim) classFields() podspec.ClassFields {
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

// volumeRequest asks for a volume's storage to be removed or expanded, by the identity that found it when it was made.
// Properties that the class has gained since are added, so that a newer image finds what it needs. None that the volume
// has is replaced.
func (s *Claim) volumeRequest() (contract.Request, error) {
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
func (s *Claim) claimNamed() (namespace, name string) {
	ref := s.Volume.Spec.ClaimRef
	if ref == nil {
		return "", ""
	}

	if made := s.ClaimRef(); made != nil && ref.UID == made.UID {
		return made.Namespace, made.Name
	}

	return ref.Namespace, ref.Name
}

// withGained are the properties of the identity, and those of the class whose environment name the identity does not
// use.
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

func location(pod *corev1.Pod) string { return NewAttempt(pod, "").Location() }

// undoRequest asks for the removal of what an attempt may have made. An undo removes no other claim's storage, whatever
// the attempt's pod says.
func (s *Claim) undoRequest(madeBy *corev1.Pod) (contract.Request, error) {
	request, err := podspec.RequestOf(madeBy)
	if err != nil {
		return request, fmt.Errorf("undo attempt for claim %s: %w", s.UID, err)
	}

	request.Claim.UID, request.VolumeName, request.Location = s.UID, podspec.VolumeName(s.UID), location(madeBy)

	return request, nil
}
