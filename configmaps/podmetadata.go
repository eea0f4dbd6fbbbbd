package configmaps

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// parsePriorityClass refuses the classes of Kubernetes' own pods, before which a provisioner would make other pods go.
func parsePriorityClass(c *Config, value string, path *field.Path) field.ErrorList {
	c.PriorityClassName = value
	if strings.HasPrefix(value, "system-") {
		return field.ErrorList{field.Invalid(path, value, "must not be a class of Kubernetes' own pods (system-); name a PriorityClass of your own")}
	}
	return checkObjectName(value, path)
}

func parsePodLabels(c *Config, value string, path *field.Path) (errs field.ErrorList) {
	c.PodLabels, errs = textMap(value, path, "a YAML map of labels (team: storage) or pairs (team=storage,tier=gold)")
	if n := len(c.PodLabels); n > maxItems {
		return append(errs, field.TooMany(path, n, maxItems))
	}
	for _, key := range slices.Sorted(maps.Keys(c.PodLabels)) {
		errs = append(errs, checkLabel(key, c.PodLabels[key], path.Key(key))...)
		errs = append(errs, checkOwner(key, path.Key(key))...)
	}
	return errs
}

func parsePodAnnotations(c *Config, value string, path *field.Path) (errs field.ErrorList) {
	c.PodAnnotations, errs = textMap(value, path, "a YAML map of annotations (example.com/team: storage) or pairs (example.com/team=storage)")
	if n := len(c.PodAnnotations); n > maxItems {
		return append(errs, field.TooMany(path, n, maxItems))
	}
	for _, key := range slices.Sorted(maps.Keys(c.PodAnnotations)) {
		errs = append(errs, checkQualifiedName(key, "an annotation's", path.Key(key))...)
		errs = append(errs, checkOwner(key, path.Key(key))...)
		errs = append(errs, checkText(c.PodAnnotations[key], path.Key(key))...)
	}
	return errs
}

// ownedDomains are those whose labels and annotations others act on: the dispatcher and its policies, Kubernetes, and what starts
// containers. An annotation cdi.k8s.io gives a container a device, and one of crio.io or nri.io can.
var ownedDomains = []string{strings.TrimSuffix(contract.Prefix, "/"), "kubernetes.io", "k8s.io", "crio.io", "cri-o.io", "nri.io"}

// ownedNames are beginnings of such names that are written the other way round.
var ownedNames = []string{"io.kubernetes.", "io.katacontainers.", "io.containerd.", "run.oci."}

// openDomains are parts of ownedDomains that are there for everybody: what an application is called, and whether the autoscaler
// may remove its node.
var openDomains = []string{"app.kubernetes.io", "cluster-autoscaler.kubernetes.io"}

// checkOwner refuses the name of a label or annotation that something else than people acts on.
func checkOwner(key string, path *field.Path) field.ErrorList {
	domain, _, _ := strings.Cut(key, "/")
	for _, name := range ownedNames {
		if strings.HasPrefix(strings.ToLower(key), name) {
			return field.ErrorList{field.Forbidden(path, "names that begin with "+name+" are for container runtimes")}
		}
	}
	if slices.Contains(openDomains, domain) {
		return nil
	}
	for _, owned := range ownedDomains {
		if domain == owned || strings.HasSuffix(domain, "."+owned) {
			return field.ErrorList{field.Forbidden(path, "names of "+owned+" are acted on by others; of Kubernetes' own take "+strings.Join(openDomains, "/ or ")+"/, or a domain of your own")}
		}
	}
	return nil
}
