package configmaps

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// keyPattern matches keys whose environment name is legal, [A-Z][A-Z0-9_]*. It is for the key and not for the name,
// since the upper case of some letters outside of ASCII is in ASCII.
var keyPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*$`)

// CheckName checks that the environment name of a property or parameter (contract.EnvName) is legal and not refused. A
// name with a prefix, such as csi.storage.k8s.io/fstype, has to be a qualified name as for labels.
func CheckName(key string, path *field.Path) field.ErrorList {
	if strings.Contains(key, "/") {
		var errs field.ErrorList
		for _, fault := range validation.IsQualifiedName(key) {
			errs = append(errs, field.Invalid(path, key, fault))
		}

		return errs
	}

	if !keyPattern.MatchString(key) {
		return field.ErrorList{field.Invalid(path, key,
			"has no environment name: it must begin with a letter and go on with letters, digits, '-', "+
				"'_' and '.'")}
	}

	name := contract.EnvName(key)
	if reason := refusedReason(name); reason != "" {
		fault := fmt.Sprintf("would set the environment variable %s, which is refused: %s; choose another name, for "+
			"example %q",
			name, reason, "backend-"+key)

		return field.ErrorList{field.Forbidden(path, fault)}
	}

	return nil
}

// CheckIdentity checks properties and the parameters of a StorageClass: their names, values and sizes, and that no two
// of them have the same environment name.
func CheckIdentity(properties, parameters map[string]string) field.ErrorList {
	path := field.NewPath("parameters")
	errs := append(checkPairs(properties, dataPath), checkPairs(parameters, path)...)
	owners := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		owners[contract.EnvName(key)] = key
	}

	for _, key := range slices.Sorted(maps.Keys(parameters)) {
		if owner, taken := owners[contract.EnvName(key)]; taken {
			errs = append(errs, duplicateEnvName(path.Key(key), dataPath.Key(owner), key))
		}
	}

	return errs
}

// checkPairs checks the names, values and size of properties or parameters.
func checkPairs(pairs map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	size := 0
	owners := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		size += len(key) + len(pairs[key])
		errs = append(errs, CheckName(key, path.Key(key))...)
		errs = append(errs, checkText(pairs[key], path.Key(key))...)

		name := contract.EnvName(key)
		if name == "" {
			continue
		}

		if owner, taken := owners[name]; taken {
			errs = append(errs, duplicateEnvName(path.Key(key), path.Key(owner), key))
			continue
		}

		owners[name] = key
	}

	if size > maxProperties {
		fault := fmt.Sprintf("the names and values of all properties or parameters have %d bytes, at most %d are "+
			"allowed; put large files into the image or a Secret (key secrets)", size, maxProperties)
		errs = append(errs, tooLong(path, fault))
	}

	return errs
}

func duplicateEnvName(path, other *field.Path, key string) *field.Error {
	err := field.Duplicate(path, contract.EnvName(key))
	err.Detail = fmt.Sprintf("%s has the same environment name; rename or remove one of them", other)

	return err
}

// refusedReason is why an environment name is refused, "" if it is not.
func refusedReason(name string) string {
	for _, r := range refused {
		prefix, open := strings.CutSuffix(r.pattern, "*")
		if name == r.pattern || open && strings.HasPrefix(name, prefix) {
			return r.reason
		}
	}

	return ""
}
