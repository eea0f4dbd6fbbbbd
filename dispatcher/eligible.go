package dispatcher

import (
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// obstacle is what keeps the claim from being tried at all, until an administrator changes the class or its ConfigMap.
func (f *facts) obstacle() (podspec.Reason, string) {
	if f.uncontained != "" {
		return ReasonUncontained, f.uncontained
	}
	if f.terms == nil {
		return ReasonConfigMissing, fmt.Sprintf("StorageClass %q does not exist", f.class)
	}
	if f.config == nil {
		return ReasonConfigMissing, f.configProblem
	}
	if faults := configmaps.CheckIdentity(f.config.Properties, f.terms.Parameters); len(faults) > 0 {
		return ReasonClaimRefused, fmt.Sprintf("StorageClass %q: %v", f.class, faults.ToAggregate())
	}
	faults := refusals(f.claim, f.config)
	if fault := f.refusedClone(); fault != "" {
		faults = append(faults, fault)
	}
	if len(faults) > 0 {
		return ReasonClaimRefused, joined(faults)
	}
	if awaited := f.awaitedOrigin(); awaited != "" {
		return ReasonCloneWaits, awaited
	}
	return podspec.ReasonNone, ""
}

// refusals says why a claim can never be served by its class, each with the field, its value and the remedy. A claim
// that asks for more than a plain volume must not get a plain volume: its user would find it empty.
func refusals(claim *corev1.PersistentVolumeClaim, config *configmaps.Config) []string {
	var faults []string
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if claim.Spec.Selector != nil {
		say("spec.selector is set: a new volume cannot be selected by its labels; remove the selector")
	}
	if fault := refusedSize(requestOf(claim), config); fault != "" {
		say("%s", fault)
	}
	if node := claim.Annotations[annSelectedNode]; len(validation.IsDNS1123Subdomain(node)) > 0 && node != "" {
		say("annotation %s is %.64q, which is no name of a node; remove it", annSelectedNode, node)
	}
	for _, mode := range claim.Spec.AccessModes {
		if !slices.Contains(config.AccessModes, mode) {
			say("spec.accessModes has %s: class %s offers %s", mode, config.StorageClass, list(config.AccessModes))
		}
	}
	if mode := podspec.ModeOf(claim.Spec.VolumeMode); !slices.Contains(config.VolumeModes, mode) {
		say("spec.volumeMode is %s: class %s offers %s", mode, config.StorageClass, list(config.VolumeModes))
	}
	return faults
}

// refusedSize is empty for sizes that are a number of bytes, within the class's bounds. The API server takes any: 1e50.
func refusedSize(size resource.Quantity, config *configmaps.Config) string {
	const path = "spec.resources.requests.storage"
	bound := func(bytes int64) string { return resource.NewQuantity(bytes, resource.BinarySI).String() }
	switch {
	case size.Sign() <= 0:
		return fmt.Sprintf("%s is %s: ask for more than nothing", path, size.String())
	case size.CmpInt64(math.MaxInt64) >= 0:
		return fmt.Sprintf("%s is %s: no storage has so much; ask for less", path, size.String())
	case size.CmpInt64(config.MinSize) < 0:
		return fmt.Sprintf("%s is %s: class %s offers %s and more", path, size.String(), config.StorageClass, bound(config.MinSize))
	case config.MaxSize > 0 && size.CmpInt64(config.MaxSize) > 0:
		return fmt.Sprintf("%s is %s: class %s offers %s at most", path, size.String(), config.StorageClass, bound(config.MaxSize))
	}
	return ""
}

func list[T ~string](values []T) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = string(v)
	}
	return strings.Join(words, ", ")
}

func joined(faults []string) string { return strings.Join(faults, "; ") }
