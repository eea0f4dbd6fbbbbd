package configmaps

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// parsePriorityClass refuses the classes of Kubernetes' own pods, with which a provisioner would preempt other pods.
func parsePriorityClass(c *Config, value string, path *field.Path) field.ErrorList {
	c.PriorityClassName = value
	if strings.HasPrefix(value, "system-") {
		return field.ErrorList{field.Invalid(path, value,
			"must not be a class of Kubernetes' own pods (system-); name a PriorityClass of your own")}
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
	c.PodAnnotations, errs = textMap(value, path,
		"a YAML map of annotations (example.com/team: storage) or pairs (example.com/team=storage)")
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

// ownedDomains are the domains of labels and annotations that the dispatcher and its policies, Kubernetes or a
// container runtime act on. An annotation can choose a container's AppArmor profile, and with the plugins of a runtime
// (crio.io, nri.io) give it a device.
var ownedDomains = []string{strings.TrimSuffix(contract.Prefix, "/"), "kubernetes.io", "k8s.io", "crio.io", "cri-o.io",
	"nri.io"}

// ownedNames are prefixes of such names in reverse-domain notation.
var ownedNames = []string{"io.kubernetes.", "io.katacontainers.", "io.containerd.", "run.oci."}

// openDomains are subdomains of ownedDomains that everybody may use: for the names of an application, and for whether
// the autoscaler may remove its node.
var openDomains = []string{"app.kubernetes.io", "cluster-autoscaler.kubernetes.io"}

// checkOwner refuses the name of a label or annotation that a component of the cluster acts on.
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
			return field.ErrorList{field.Forbidden(path,
				"names of "+owned+" are acted on by others; of Kubernetes' own take "+
					strings.Join(openDomains, "/ or ")+"/, or a domain of your own")}
		}
	}

	return nil
}

// claimTexts is a list of names of labels or annotations, each with an environment name of its own. Of the dispatcher's
// own, some count only where an admission policy vouches for them: a provisioner gets those by other names.
func claimTexts(prefix, kind string, target func(*Config) *[]string) parser {
	return func(c *Config, value string, path *field.Path) field.ErrorList {
		names, errs := list(value, path)
		owners := map[string]string{}
		for i, name := range names {
			errs = append(errs, checkQualifiedName(name, kind, path.Index(i))...)
			if strings.HasPrefix(name, contract.Prefix) {
				errs = append(errs, field.Forbidden(path.Index(i),
					"names of "+contract.Prefix+" are the dispatcher's own; remove it"))
			}

			env := contract.ClaimTextEnvName(prefix, name)
			if owner, taken := owners[env]; taken && owner != name {
				errs = append(errs, field.Invalid(path.Index(i), name,
					"has the environment name "+env+", as "+owner+" has; remove one of them"))
			}

			owners[env] = name
		}

		*target(c) = names

		return errs
	}
}
