package reconcile

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/snapshot"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// provision is for a claim that waits and has no volume.
func (p *Plan) provision(s *snapshot.Snapshot, provisions []snapshot.Attempt) {
	if running, ok := snapshot.Unfinished(provisions); ok {
		p.await(s, running)
		return
	}
	newest, tried := snapshot.Last(provisions)
	if tried {
		p.sayFailed(s, newest)
		if newest.Outcome.Phase == podspec.Succeeded {
			p.Confirm = Everything // the volume may be on its way to the cache
		}
	}
	made, suspected := snapshot.Suspect(provisions)
	if tried && s.SelectedNode() != "" && failedOnNode(newest) && newest.Pod.UID != s.Rescheduled && (!suspected || s.Config != nil && !s.Config.NodeLocal) {
		p.do(Reschedule{newest.Pod.UID})
		if !suspected {
			p.cleanUpKeepingNames(s, provisions...)
		}
		return
	}
	if !s.Wanted {
		p.do(ResyncClaim{})
		p.Forget = !tried
		return
	}
	reason, message := obstacle(s)
	if reason == podspec.ReasonNone {
		reason, message = unserved(s)
		p.Blocked = reason != podspec.ReasonNone
	}
	if reason != podspec.ReasonNone {
		p.say(events.ClaimWaits(reason, message))
		return
	}
	if suspected && s.IdentityChanged(made) {
		// The new properties do not find the storage of the earlier attempt.
		p.say(events.Undo(made.Pod))
		p.undo(s, provisions, made)
		return
	}
	if at := nextProvision(s); s.Now.Before(at) {
		p.delay(at)
		return
	}
	order := snapshot.Order{Op: contract.Provision, Node: s.SelectedNode()}
	if suspected {
		order.Record = made.Pod
		if node := made.Node(); s.Config.NodeLocal && node != "" {
			order.Node = node
		}
	}
	p.create(s, order)
}

// create orders the operation's next attempt, on confirmed facts alone. It replaces the operation's ended pods.
func (p *Plan) create(s *snapshot.Snapshot, order snapshot.Order) {
	order.Number = s.NextNumber(order.Op)
	p.Confirm = Everything
	p.do(CreatePod{order})
	p.replace(s, order.Op)
}

// failedOnNode says that an attempt ended because of its node, and made nothing there.
func failedOnNode(a snapshot.Attempt) bool {
	return a.Outcome.Reason == podspec.ReasonNotHere || !a.Outcome.MayHaveRun && a.Pod.Spec.NodeName == ""
}

// nextProvision is when the next provision may start. It follows the latest one, also if that was cleaned up after its storage had
// been removed: a provisioner that makes unfit volumes is not asked for the next one at once.
func nextProvision(s *snapshot.Snapshot) (at time.Time) {
	if latest, ok := s.Latest(contract.Provision); ok {
		return retryAt(s, latest)
	}
	return at
}

// obstacle is what keeps a claim from being tried, until an administrator changes the class or its ConfigMap.
func obstacle(s *snapshot.Snapshot) (podspec.Reason, string) {
	if s.PoliciesMissing != "" {
		return events.ReasonPoliciesMissing, s.PoliciesMissing
	}
	if s.Class == nil {
		return events.ReasonConfigMissing, fmt.Sprintf("StorageClass %q does not exist", s.ClassName)
	}
	if s.Config == nil {
		return events.ReasonConfigMissing, s.ConfigProblem
	}
	if faults := configmaps.CheckIdentity(s.Config.Properties, s.Identity().Parameters); len(faults) > 0 {
		return events.ReasonClaimRefused, fmt.Sprintf("StorageClass %q: %v", s.ClassName, faults.ToAggregate())
	}
	return podspec.ReasonNone, ""
}

// unserved is what keeps a claim of a class that is in order from being tried, until an author of claims changes something.
func unserved(s *snapshot.Snapshot) (podspec.Reason, string) {
	faults := refusals(s)
	if fault := refusedClone(s); fault != "" {
		faults = append(faults, fault)
	}
	if len(faults) > 0 {
		return events.ReasonClaimRefused, strings.Join(faults, "; ")
	}
	if missing := missingSource(s); missing != "" {
		return events.ReasonCloneWaits, missing
	}
	return podspec.ReasonNone, ""
}

// refusals says why a claim can never be served by its class, each with the field, its value and the remedy. A claim that asks
// for more than a plain volume must not get a plain volume: its user would find it empty.
func refusals(s *snapshot.Snapshot) []string {
	claim, config := s.Claim, s.Config
	var faults []string
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if claim.Spec.Selector != nil {
		say("spec.selector is set: a new volume cannot be selected by its labels; remove the selector")
	}
	if name := claim.Spec.VolumeAttributesClassName; name != nil && *name != "" {
		say("spec.volumeAttributesClassName is %s: provisioner pods know no VolumeAttributesClass; create the claim without it", *name)
	}
	if fault := refusedSize(snapshot.Requested(claim), s.ClassName, config); fault != "" {
		say("%s", fault)
	}
	if node := claim.Annotations[snapshot.AnnSelectedNode]; len(validation.IsDNS1123Subdomain(node)) > 0 && node != "" {
		say("annotation %s is %.64q, which is no name of a node; remove it", snapshot.AnnSelectedNode, node)
	}
	for _, mode := range claim.Spec.AccessModes {
		if !slices.Contains(config.AccessModes, mode) {
			say("spec.accessModes has %s: class %s offers %s", mode, s.ClassName, joined(config.AccessModes))
		}
	}
	if mode := podspec.ModeOf(claim.Spec.VolumeMode); !slices.Contains(config.VolumeModes, mode) {
		say("spec.volumeMode is %s: class %s offers %s", mode, s.ClassName, joined(config.VolumeModes))
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

// refusedClone says why a claim can never be the clone that it asks to be, empty where it can, or asks for none. With its request
// ignored it would get an empty volume that its user takes for a copy.
func refusedClone(s *snapshot.Snapshot) string {
	name, fault := snapshot.CloneOf(s.Claim)
	switch {
	case name == "" || fault != "":
		return fault
	case s.Class.Parameters[contract.ParameterSmartClone] != "true":
		return fmt.Sprintf("the claim asks to be a clone of %s: class %s makes empty volumes only; its administrator can allow clones with parameter %s: \"true\" if its provisioner makes them",
			name, s.ClassName, contract.ParameterSmartClone)
	case !s.Source.Bound():
		return ""
	}
	size, has := snapshot.Requested(s.Claim), snapshot.Capacity(s.Source.Volume)
	if size.Cmp(has) < 0 {
		return fmt.Sprintf("spec.resources.requests.storage is %s: a clone of %s cannot be smaller than its %s", size.String(), name, has.String())
	}
	if mode, is := podspec.ModeOf(s.Claim.Spec.VolumeMode), podspec.ModeOf(s.Source.Volume.Spec.VolumeMode); mode != is {
		return fmt.Sprintf("spec.volumeMode is %s: a clone of %s has to be %s like it", mode, name, is)
	}
	return ""
}

// missingSource says what a clone waits for, empty where its source is bound, or it is no clone.
func missingSource(s *snapshot.Snapshot) string {
	name, _ := snapshot.CloneOf(s.Claim)
	switch {
	case name == "" || s.Source.Bound():
		return ""
	case s.Source.Claim == nil:
		return fmt.Sprintf("the claim asks to be a clone of %s, which does not exist; it waits for it", name)
	}
	return fmt.Sprintf("the claim asks to be a clone of %s, which is not bound; it waits for it", name)
}
