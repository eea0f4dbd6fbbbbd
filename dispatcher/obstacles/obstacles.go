package obstacles

import (
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/resize"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// ToPod is what keeps every pod of the class from being created, until an administrator changes the policies or a
// ConfigMap.
func ToPod(s *observed.Claim) (podspec.Reason, string) {
	switch {
	case s.PoliciesMissing != "":
		return events.ReasonPoliciesMissing, s.PoliciesMissing
	case s.Config == nil:
		return events.ReasonConfigMissing, s.ConfigProblem
	}

	return podspec.ReasonNone, ""
}

// ToProvision is what keeps a claim from being tried. blocked says that an author of claims has to change something.
// Else an administrator has to change the class or its ConfigMap.
func ToProvision(s *observed.Claim) (reason podspec.Reason, why string, blocked bool) {
	if s.PoliciesMissing == "" && s.Class == nil {
		return events.ReasonConfigMissing, fmt.Sprintf("StorageClass %q does not exist", s.ClassName), false
	}

	reason, why = ToPod(s)
	if reason != podspec.ReasonNone {
		return reason, why, false
	}

	if faults := configmaps.CheckIdentity(s.Config.Properties, s.Identity().Parameters); len(faults) > 0 {
		return events.ReasonClaimRefused, fmt.Sprintf("StorageClass %q: %v", s.ClassName, faults.ToAggregate()), false
	}

	faults := refusals(s)
	for _, fault := range []string{refusedClone(s), refusedRestore(s)} {
		if fault != "" {
			faults = append(faults, fault)
		}
	}

	if len(faults) > 0 {
		return events.ReasonClaimRefused, strings.Join(faults, "; "), true
	}

	if s.Host.Unlabeled {
		return podspec.ReasonUnschedulable, fmt.Sprintf("node %s has no label %s, by which a volume selects it: "+
			"kubectl label node %[1]s %[2]s=%[1]s", s.Host.Name, corev1.LabelHostname), false
	}

	if missing := missingSource(s); missing != "" {
		return events.ReasonCloneWaits, missing, true
	}

	if missing := missingSnapshot(s); missing != "" {
		return events.ReasonSnapshotNotReady, missing, true
	}

	reason, why = ToStorage(s, contract.Provision, nil)

	return reason, why, false
}

// ToExpand is what keeps a volume from being expanded to the size. With ReasonExpansionRefused no pod will be asked to.
func ToExpand(s *observed.Claim, target resource.Quantity) (podspec.Reason, string) {
	if reason, why := ToPod(s); reason != podspec.ReasonNone {
		return reason, why
	}

	if _, doubt := s.VolumeIdentity(); doubt != "" {
		return events.ReasonRecord, doubt
	}

	refused := refusedSize(target, s.ClassName, s.Config)
	switch {
	case !s.Config.Expandable:
		refused = fmt.Sprintf("class %s cannot expand volumes: its ConfigMap %s has neither the script \"expand\" "+
			"nor expandable: \"true\"", s.ClassName, s.Config.Name)
	case refused == "" && resize.LastStepOf(s.Volume) == resize.Nobody:
		refused = fmt.Sprintf("volume %s is %s with a file system, which neither Kubernetes nor a provisioner pod "+
			"can grow: use volumeMode Block, or copy the data to a larger claim",
			s.Volume.Name, resize.SourceOf(s.Volume))
	}

	if refused != "" {
		return events.ReasonExpansionRefused, refused
	}

	return ToStorage(s, contract.Expand, nil)
}

// refusals says why a claim can never be served by its class, each with the field, its value and the remedy. A claim
// that asks for more than a plain volume must not get a plain volume: its user would find it empty.
func refusals(s *observed.Claim) []string {
	claim, config := s.Claim, s.Config
	var faults []string
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if claim.Spec.Selector != nil {
		say("spec.selector is set: a new volume cannot be selected by its labels; create the claim again without the " +
			"selector, which a backup tool may have put there")
	}

	if name := claim.Spec.VolumeAttributesClassName; name != nil && *name != "" {
		say("spec.volumeAttributesClassName is %s: provisioner pods know no VolumeAttributesClass; create the claim "+
			"without it", *name)
	}

	if fault := refusedSize(observed.Requested(claim), s.ClassName, config); fault != "" {
		say("%s", fault)
	}

	node := claim.Annotations[observed.AnnSelectedNode]
	if node != "" && len(validation.IsDNS1123Subdomain(node)) > 0 {
		say("annotation %s is %.64q, which is no name of a node; remove it", observed.AnnSelectedNode, node)
	}

	for _, mode := range claim.Spec.AccessModes {
		if !slices.Contains(config.AccessModes, mode) {
			say("spec.accessModes has %s: class %s offers %s", mode, s.ClassName, joined(config.AccessModes))
		}
	}

	if mode := podspec.ModeOf(claim.Spec.VolumeMode); !slices.Contains(config.VolumeModes, mode) {
		say("spec.volumeMode is %s: class %s offers %s", mode, s.ClassName, joined(config.VolumeModes))
	}

	return append(faults, refusedAnnotations(s)...)
}

// refusedAnnotations are for those that the provisioner would get. None is cut or cleaned: half a name is another name.
// A label has a form that the API server holds it to.
func refusedAnnotations(s *observed.Claim) (faults []string) {
	for _, name := range s.Config.ClaimAnnotations {
		text := s.Claim.Annotations[name]
		switch {
		case len(text) > contract.MaxClaimText:
			faults = append(faults, fmt.Sprintf("annotation %s has %d bytes: class %s takes %d at most; shorten it",
				name, len(text), s.ClassName, contract.MaxClaimText))
		case !observed.Printable(text):
			faults = append(faults, fmt.Sprintf("annotation %s is %q: class %s takes one line of printable "+
				"characters; write it again without the others", name, text, s.ClassName))
		}
	}

	return faults
}

// refusedSize is empty for sizes that are a number of bytes, within the class's bounds. The API server takes any: 1e50.
func refusedSize(size resource.Quantity, class string, config *configmaps.Config) string {
	const path = "spec.resources.requests.storage"
	bound := func(bytes int64) string { return resource.NewQuantity(bytes, resource.BinarySI).String() }
	switch {
	case size.Sign() <= 0:
		return fmt.Sprintf("%s is %s: ask for more than nothing", path, size.String())
	case size.CmpInt64(math.MaxInt64) >= 0:
		return fmt.Sprintf("%s is %s: no storage has so much; ask for less", path, size.String())
	case size.CmpInt64(config.MinSize) < 0:
		return fmt.Sprintf("%s is %s: class %s offers %s and more", path, size.String(), class, bound(config.MinSize))
	case config.MaxSize > 0 && size.CmpInt64(config.MaxSize) > 0:
		return fmt.Sprintf("%s is %s: class %s offers %s at most", path, size.String(), class, bound(config.MaxSize))
	}

	return ""
}

func joined[T ~string](values []T) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = string(v)
	}

	return strings.Join(words, ", ")
}

// refusedClone says why a claim can never be the clone that it asks to be, empty where it can, or asks for none. With
// its request ignored it would get an empty volume that its user takes for a copy.
func refusedClone(s *observed.Claim) string {
	name, fault := observed.CloneOf(s.Claim)
	switch {
	case name == "" || fault != "":
		return fault
	case s.Class.Parameters[contract.ParameterSmartClone] != "true":
		return fmt.Sprintf("the claim asks to be a clone of %s: class %s makes empty volumes only; its administrator "+
			"can allow clones with parameter %s: \"true\" if its provisioner makes them",
			name, s.ClassName, contract.ParameterSmartClone)
	case !s.Source.Bound():
		return ""
	}

	size, has := observed.Requested(s.Claim), observed.Capacity(s.Source.Volume)
	if size.Cmp(has) < 0 {
		return fmt.Sprintf("spec.resources.requests.storage is %s: a clone of %s cannot be smaller than its %s",
			size.String(), name, has.String())
	}

	mode, is := podspec.ModeOf(s.Claim.Spec.VolumeMode), podspec.ModeOf(s.Source.Volume.Spec.VolumeMode)
	if mode != is {
		return fmt.Sprintf("spec.volumeMode is %s: a clone of %s has to be %s like it", mode, name, is)
	}

	return ""
}

// missingSource says what a clone waits for, empty where its source is bound, or it is no clone.
func missingSource(s *observed.Claim) string {
	name, _ := observed.CloneOf(s.Claim)
	switch {
	case name == "" || s.Source.Bound():
		return ""
	case s.Source.Claim == nil:
		return fmt.Sprintf("the claim asks to be a clone of %s, which does not exist; it waits for it", name)
	}

	return fmt.Sprintf("the claim asks to be a clone of %s, which is not bound; it waits for it", name)
}
