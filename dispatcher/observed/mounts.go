package observed

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Place is where a claim that pods mount has its storage.
type Place struct {
	// Source is that of the claim's volume; see podspec.MountSource. It is empty where the claim is not bound.
	Source string
	// Problem says why there is no source, empty where there is one.
	Problem string
	// FirstPod reports whether the claim is bound once a pod mounts it.
	FirstPod bool
}

// Listers find the objects that SetPlaces needs. Each returns nil for an object that does not exist.
type Listers struct {
	Claim  func(namespace, name string) *corev1.PersistentVolumeClaim
	Volume func(name string) *corev1.PersistentVolume
	Class  func(name string) *storagev1.StorageClass
}

// SetPlaces finds the storage of all claims that a pod for this claim may mount. namespace is that of the pods.
func (s *Claim) SetPlaces(namespace string, of Listers) {
	s.Places = map[string]Place{}
	for _, list := range s.knownMounts() {
		for _, m := range list {
			_, known := s.Places[m.Claim]
			if m.Claim != "" && !known {
				s.Places[m.Claim] = placeOf(namespace, m.Claim, of)
			}
		}
	}
}

// knownMounts are those of the class, of the volume, and of each attempt.
func (s *Claim) knownMounts() [][]contract.Mount {
	all := [][]contract.Mount{s.ClassMounts()}
	if s.Volume != nil {
		if mounts, err := podspec.MountsOf(s.Volume); err == nil {
			all = append(all, mounts)
		}
	}

	for _, a := range s.Attempts {
		if request, err := podspec.RequestOf(a.Pod); err == nil {
			all = append(all, request.Mounts)
		}
	}

	return all
}

func placeOf(namespace, name string, of Listers) Place {
	claim := of.Claim(namespace, name)
	if claim == nil {
		return Place{Problem: fmt.Sprintf("claim %s/%s does not exist", namespace, name)}
	}

	volume := of.Volume(claim.Spec.VolumeName)
	if volume != nil && podspec.Bound(claim, volume) {
		return Place{Source: podspec.MountSource(volume)}
	}

	firstPod := claim.Status.Phase == corev1.ClaimPending && waitsForConsumer(of.Class(podspec.ClassOfClaim(claim)))

	return Place{Problem: fmt.Sprintf("claim %s/%s is not bound", namespace, name), FirstPod: firstPod}
}

// ClassMounts are what a new pod of the class mounts. It is not nil. The source of a claim is its present one, empty
// where there is none.
func (s *Claim) ClassMounts() []contract.Mount {
	mounts := []contract.Mount{}
	if s.Config == nil {
		return mounts
	}

	for _, h := range s.Config.HostPaths {
		mounts = append(mounts, contract.Mount{Path: h.Path, ReadOnly: h.ReadOnly})
	}

	for _, m := range s.Config.MountClaims {
		mounts = append(mounts, contract.Mount{Claim: m.Claim, Source: s.Places[m.Claim].Source, Path: m.Path})
	}

	for _, d := range s.Config.Devices {
		mounts = append(mounts,
			contract.Mount{Claim: d.Claim, Source: s.Places[d.Claim].Source, Path: d.Path, Device: true})
	}

	return mounts
}

// Storage is what a pod mounts, and whether that is by a record, or as the class has it now.
type Storage struct {
	Mounts   []contract.Mount
	Recorded bool
}

// StorageOf is what the pod of an operation has to mount. madeBy is the pod whose attempt an undo is for. doubt says
// why the volume's record cannot be used, empty where it can.
//
// As for the identity, a provisioner wrote the volume. Its mounts count where the dispatcher signed them. Else they may
// only say what the class mounts: an administrator who vouches for a record has not looked at which claims of other
// classes it names.
func (s *Claim) StorageOf(op contract.Operation, madeBy *corev1.Pod) (storage Storage, doubt string) {
	now := Storage{Mounts: s.ClassMounts()}
	if op == contract.Provision {
		return now, ""
	}

	if s.Volume != nil {
		return s.volumeStorage(now)
	}

	if madeBy == nil {
		return now, ""
	}

	request, err := podspec.RequestOf(madeBy)
	if err == nil && request.Mounts != nil {
		return Storage{Mounts: request.Mounts, Recorded: true}, ""
	}

	return now, ""
}

func (s *Claim) volumeStorage(now Storage) (storage Storage, doubt string) {
	mounts, err := podspec.MountsOf(s.Volume)
	remedy := fmt.Sprintf("to use what class %s mounts now: %s", s.ClassName, s.without(contract.AnnMounts))
	switch {
	case err != nil:
		return now, fmt.Sprintf("annotation %s of volume %s is not JSON of mounts; %s",
			contract.AnnMounts, s.Volume.Name, remedy)
	case mounts == nil:
		return now, ""
	case podspec.Recorded(s.Volume):
		return Storage{Mounts: mounts, Recorded: true}, ""
	case sameMounts(mounts, now.Mounts):
		return now, ""
	}

	return now, fmt.Sprintf("annotation %s of volume %s is not signed by this dispatcher, and differs from what "+
		"class %s mounts: %s; to use it, let the class mount the same; %s",
		contract.AnnMounts, s.Volume.Name, s.ClassName,
		podspec.Clip(strings.Join(differences(mounts, now.Mounts), ", "), 200), remedy)
}

// BeforePlaces reports whether the volume was made before its record said where it is.
func BeforePlaces(v *corev1.PersistentVolume) bool {
	_, found := v.Annotations[contract.AnnMounts]
	return !found
}

// sameMounts reports whether two pods mount the same storage at the same paths. A source that is not known is that of
// its claim.
func sameMounts(a, b []contract.Mount) bool { return len(differences(a, b)) == 0 }

// differences are the paths at which two pods mount different storage, sorted.
func differences(a, b []contract.Mount) []string {
	var paths []string
	for _, pair := range [][2][]contract.Mount{{a, b}, {b, a}} {
		for _, m := range pair[0] {
			if !slices.ContainsFunc(pair[1], func(other contract.Mount) bool { return sameMount(m, other) }) {
				paths = append(paths, m.Path)
			}
		}
	}

	slices.Sort(paths)

	return slices.Compact(paths)
}

func sameMount(a, b contract.Mount) bool {
	if a.Source == "" || b.Source == "" {
		a.Source, b.Source = "", ""
	}

	return a == b
}

// LocationOf is the location that the provisioner wrote on its volume. It is empty if there is none, or an invalid one.
func LocationOf(v *corev1.PersistentVolume) string {
	location := v.Annotations[contract.AnnLocation]
	if _, valid := contract.LocationLine(location); !valid {
		return ""
	}

	return location
}

// ExpectedLocation is the location that the volume has to have by the pod of the latest attempt, empty where the volume
// has it, or the pod said none.
func (s *Claim) ExpectedLocation(provisions []Attempt) string {
	newest, ok := Last(provisions)
	if !ok || newest.Location() == LocationOf(s.Volume) {
		return ""
	}

	return newest.Location()
}
