package dispatcher

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// attemptOf turns an order into what the pod is made from.
func (d *Dispatcher) attemptOf(f *facts, o *order) (podspec.Attempt, error) {
	a := podspec.Attempt{Config: f.config, Node: o.node}
	var err error
	switch {
	case o.op == contract.Provision:
		a.Request = d.provisionRequest(f)
	case f.volume != nil:
		a.Volume = f.volume
		a.Request, err = volumeRequest(f)
	default:
		a.Request, err = undoRequest(f, o.record)
	}
	if err != nil {
		return a, err
	}
	a.Request.Operation, a.Request.Attempt = o.op, o.number
	if o.op == contract.Expand {
		a.Request.CurrentSizeBytes, a.Request.SizeBytes = a.Request.SizeBytes, o.size
	}
	a.Request.ServiceAccount = f.config.ServiceAccountName
	a.Request.TimeoutSeconds = int64(f.config.Timeout.Seconds())
	if o.op == contract.Provision {
		if a.Volume, err = podspec.Skeleton(a.Request, d.termsOf(f)); err != nil {
			return a, err
		}
		a.Volume.Annotations[contract.AnnRecord] = d.options.RecordKey.Sign(a.Volume)
	}
	return a, nil
}

func (d *Dispatcher) provisionRequest(f *facts) contract.Request {
	size := f.claim.Spec.Resources.Requests[corev1.ResourceStorage]
	r := contract.Request{
		VolumeName:   podspec.VolumeName(f.uid),
		Claim:        contract.Claim{Namespace: f.claim.Namespace, Name: f.claim.Name, UID: f.uid},
		StorageClass: f.class,
		SizeBytes:    size.Value(),
		VolumeMode:   string(podspec.ModeOf(f.claim.Spec.VolumeMode)),
		SelectedNode: f.claimNode(),
		Source:       f.source(),
		Identity:     f.identity(),

		AllowedTopologies: allowedTopologies(f.terms),
	}
	for _, mode := range f.claim.Spec.AccessModes {
		r.AccessModes = append(r.AccessModes, string(mode))
	}
	if d.creators.trusted(f.claim) {
		r.Username = printable(f.claim.Annotations[contract.AnnCreatedBy])
		if groups := printable(f.claim.Annotations[contract.AnnCreatedByGroups]); groups != "" {
			r.Groups = strings.Split(groups, ",")
		}
	}
	return r
}

// maxCreator bounds in bytes what a provisioner is told of a claim's creator. An identity provider's names may be any text.
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

func (d *Dispatcher) termsOf(f *facts) podspec.ClassTerms {
	terms := podspec.ClassTerms{
		Provisioner:   f.terms.Provisioner,
		ReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		MountOptions:  f.terms.MountOptions,
		ConfigStamp:   podspec.ConfigStamp(f.config),
		MadeBefore:    f.now.Add(f.config.StartTimeout + f.config.Timeout + slowClocks),
	}
	if f.terms.ReclaimPolicy != nil {
		terms.ReclaimPolicy = *f.terms.ReclaimPolicy
	}
	return terms
}

// volumeRequest is what is asked about a volume's storage, to be removed or expanded, by what it was found by when it was
// made. Properties that the class has gained since are added, so that a newer image finds what it needs; none that the
// volume has is replaced.
func volumeRequest(f *facts) (contract.Request, error) {
	identity, doubt := f.volumeIdentity()
	if doubt != "" {
		return contract.Request{}, errors.New(doubt) // decide holds such a volume: an administrator changed it since
	}
	identity.Properties = withGained(identity, f.config.Properties)
	size := f.volume.Spec.Capacity[corev1.ResourceStorage]
	r := contract.Request{
		VolumeName:   f.volume.Name,
		Claim:        contract.Claim{UID: f.uid},
		StorageClass: f.class,
		SizeBytes:    size.Value(),
		VolumeMode:   string(podspec.ModeOf(f.volume.Spec.VolumeMode)),
		Identity:     identity,
	}
	if ref := f.volume.Spec.ClaimRef; ref != nil {
		r.Claim.Namespace, r.Claim.Name = ref.Namespace, ref.Name
	}
	for _, mode := range f.volume.Spec.AccessModes {
		r.AccessModes = append(r.AccessModes, string(mode))
	}
	return r, nil
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

// undoRequest asks for the removal of what an attempt may have made.
func undoRequest(f *facts, record *corev1.Pod) (contract.Request, error) {
	request, err := podspec.RequestOf(record)
	if err != nil {
		return request, fmt.Errorf("undo attempt for claim %s: %w", f.uid, err)
	}
	request.Claim.UID, request.VolumeName = f.uid, podspec.VolumeName(f.uid) // an undo removes no other claim's storage, whatever the record says
	return request, nil
}
