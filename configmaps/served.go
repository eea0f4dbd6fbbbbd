package configmaps

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// maxShown is the limit in bytes on an invalid name in an error.
const maxShown = 64

// ServedAs is the class whose ConfigMap serves the StorageClass: the one that its parameter
// contract.ParameterConfigFromClass names, or itself. The parameters of the named class are not followed further.
func ServedAs(name string, parameters map[string]string) (string, field.ErrorList) {
	path := field.NewPath("parameters")
	for _, key := range slices.Sorted(maps.Keys(parameters)) {
		if reservedParameter(key) && key != contract.ParameterConfigFromClass {
			return "", field.ErrorList{field.Forbidden(path.Key(contract.Clip(key, maxShown)),
				"of the parameters "+contract.Prefix+" there is only "+
					contract.ParameterConfigFromClass+"; create the StorageClass again without this one")}
		}
	}

	named, found := parameters[contract.ParameterConfigFromClass]
	if !found {
		return name, nil
	}

	path = path.Key(contract.ParameterConfigFromClass)
	if faults := checkObjectName(named, path); len(faults) > 0 {
		return "", field.ErrorList{field.Invalid(path, contract.Clip(named, maxShown),
			"is no name of a StorageClass; create the StorageClass again with the name of one that has a ConfigMap")}
	}

	return named, nil
}

// Parameters are the parameters of a StorageClass that its provisioner sees: all but those with contract.Prefix.
func Parameters(all map[string]string) map[string]string {
	for key := range all {
		if reservedParameter(key) {
			visible := maps.Clone(all)
			maps.DeleteFunc(visible, func(key, _ string) bool { return reservedParameter(key) })

			return visible
		}
	}

	return all
}

func reservedParameter(key string) bool { return strings.HasPrefix(key, contract.Prefix) }
