package observed

import (
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// RecordedConfig is the name of the ConfigMap by which the volume, or where there is none the newest attempt, was made;
// empty where nobody says so who can be believed. A provisioner wrote the volume: an administrator who vouches for its
// identity has not looked at which image and ServiceAccount it would get.
func (s *Claim) RecordedConfig() string {
	newest, tried := Last(s.Attempts)

	var stamp string
	switch {
	case s.Volume != nil && podspec.Recorded(s.Volume):
		stamp = s.Volume.Annotations[contract.AnnConfig]
	case s.Volume == nil && tried:
		stamp = newest.Pod.Annotations[contract.AnnConfig]
	}

	name, _, _ := strings.Cut(stamp, "/")

	return name
}

// Identity is what new storage of the class is found by: the properties of its ConfigMap and its parameters.
func (s *Claim) Identity() contract.Identity {
	identity := contract.Identity{Properties: s.Config.Properties}
	if s.Class != nil {
		identity.Parameters = configmaps.Parameters(s.Class.Parameters)
	}

	return identity
}

// newIdentity is the identity of new storage for the claim. A claim of the caches has no labels, and of its annotations
// few: it has to be read from the API server.
func (s *Claim) newIdentity() contract.Identity {
	identity := s.Identity()
	identity.ClaimLabels = chosen(s.Claim.Labels, s.Config.ClaimLabels)
	identity.ClaimAnnotations = chosen(s.Claim.Annotations, s.Config.ClaimAnnotations)

	return identity
}

// chosen are the texts of these names, each empty where there is none.
func chosen(texts map[string]string, names []string) map[string]string {
	if len(names) == 0 {
		return nil
	}

	some := map[string]string{}
	for _, name := range names {
		some[name] = texts[name]
	}

	return some
}

func sameIdentity(a, b contract.Identity) bool {
	return maps.Equal(a.Properties, b.Properties) && maps.Equal(a.Parameters, b.Parameters) &&
		maps.Equal(a.ClaimLabels, b.ClaimLabels) && maps.Equal(a.ClaimAnnotations, b.ClaimAnnotations)
}

// IdentityChanged reports whether the next attempt makes something else than this one may have made, or makes it
// elsewhere.
func (s *Claim) IdentityChanged(a Attempt) bool {
	request, err := podspec.RequestOf(a.Pod)
	if err != nil {
		return false
	}

	elsewhere := request.Mounts != nil && !sameMounts(request.Mounts, s.ClassMounts())
	if elsewhere {
		return true
	}

	next := s.newIdentity()
	if s.Confirmed.IsZero() { // the caches do not know them
		next.ClaimLabels, next.ClaimAnnotations = request.ClaimLabels, request.ClaimAnnotations
	}

	return !sameIdentity(request.Identity, next) || !reflect.DeepEqual(request.Source, s.requestSource())
}

// VolumeIdentity is what the volume's storage is found by. doubt says why it cannot be used, empty where it can.
//
// A provisioner wrote the volume. So its annotation counts only where the dispatcher signed it, an administrator
// vouches for it, or it says nothing else than the class does. A class that does not exist says nothing.
func (s *Claim) VolumeIdentity() (identity contract.Identity, doubt string) {
	if ref := s.Volume.Spec.ClaimRef; ref != nil && !namesClaim(ref) {
		return contract.Identity{}, fmt.Sprintf("spec.claimRef of volume %s is %.64q/%.64q, which names no claim; "+
			"correct it", s.Volume.Name, ref.Namespace, ref.Name)
	}

	if s.Volume.Annotations[contract.AnnIdentity] == "" {
		if s.Class == nil {
			return contract.Identity{}, fmt.Sprintf("volume %s has no annotation %s, and StorageClass %q does not "+
				"exist, whose parameters may say where the storage is: create the class again",
				s.Volume.Name, contract.AnnIdentity, s.ClassName)
		}

		return s.Identity(), ""
	}

	identity, err := podspec.IdentityOf(s.Volume)
	if err != nil {
		return identity, fmt.Sprintf("annotation %s of volume %s is not JSON of properties and parameters; to use "+
			"those of class %s: %s",
			contract.AnnIdentity, s.Volume.Name, s.ClassName, s.without(contract.AnnIdentity))
	}

	if faults := configmaps.CheckIdentity(identity.Properties, identity.Parameters); len(faults) > 0 {
		return identity, fmt.Sprintf("annotation %s of volume %s cannot be used: %v; to use the properties and "+
			"parameters of class %s: %s", contract.AnnIdentity, s.Volume.Name, faults.ToAggregate(), s.ClassName,
			s.without(contract.AnnIdentity))
	}

	asClass := s.Class != nil && sameIdentity(identity, s.Identity())
	if podspec.Recorded(s.Volume) || podspec.Trusted(s.Volume) || asClass {
		return identity, ""
	}

	return identity, fmt.Sprintf("annotation %[1]s of volume %[2]s is not signed by this dispatcher, and differs "+
		"from class %[3]s; if it is right: kubectl annotate pv %[2]s --overwrite %[4]s=%[5]s; to use the "+
		"properties and parameters of the class: %[6]s", contract.AnnIdentity, s.Volume.Name, s.ClassName,
		contract.AnnRecord, contract.RecordTrusted, s.without(contract.AnnIdentity))
}

// without says how an administrator takes an annotation off the volume. That of a snapshot is on record, whether the
// volume exists or not.
func (s *Claim) without(annotation string) string {
	if s.Snapshot != nil && s.Snapshot.Content != nil {
		return fmt.Sprintf("kubectl edit volumesnapshotcontent %s, and take %s out of its annotation %s",
			s.Snapshot.Content.Name, annotation, contract.AnnVolume)
	}

	return fmt.Sprintf("kubectl annotate pv %s %s-", s.Volume.Name, annotation)
}

// ExpectedRecord are the annotations that a new volume has to have, by the pod of the latest attempt, nil where the
// volume has them. The container of an earlier attempt may have made the volume. Its storage is found by the same
// identity, since another one would have been undone.
func (s *Claim) ExpectedRecord(provisions []Attempt) map[string]string {
	newest, ok := Last(provisions)
	if !ok {
		return nil
	}

	ended := newest.Outcome.Final()
	proved := ended || !podspec.Restored(s.Volume)
	if podspec.Recorded(s.Volume) && proved {
		return nil
	}

	// A pod that has not ended may have made the volume, however late it came. One that has ended proves nothing about
	// a volume that was created long after that: a backup tool may have.
	madeBefore := s.Volume.CreationTimestamp.Time
	if latest := s.Ended(newest).Add(ClockSkew); ended && latest.Before(madeBefore) {
		madeBefore = latest
	}

	request, err := podspec.RequestOf(newest.Pod)
	if err != nil {
		return nil // the dispatcher wrote it, so that it can be read
	}

	expected, err := podspec.Skeleton(request, podspec.ClassFields{Provisioner: s.Provisioner,
		ConfigStamp: newest.Pod.Annotations[contract.AnnConfig], MadeBefore: madeBefore})
	if err != nil {
		return nil
	}

	expected.Name, expected.Spec.StorageClassName = s.Volume.Name, podspec.ClassOf(s.Volume)
	expected.Annotations[contract.AnnRecord] = s.RecordKey.Sign(expected)

	return expected.Annotations
}
