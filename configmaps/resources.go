package configmaps

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flex-provisioner/flex-provisioner/internal/quantity"
)

// resourcesForm has the fields that an administrator may set. There are no resource claims and extended resources: a
// class gets devices by the key devices.
type resourcesForm struct {
	Requests amounts `json:"requests"`
	Limits   amounts `json:"limits"`
}

// amounts is a ResourceList that is parsed by package quantity.
type amounts corev1.ResourceList

// UnmarshalJSON reads an object of quantities, which are text or numbers.
func (a *amounts) UnmarshalJSON(text []byte) error {
	var raw map[corev1.ResourceName]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return errors.New("requests and limits must be maps")
	}

	*a = amounts{}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		written := strings.Trim(string(raw[name]), `"`)
		amount, err := quantity.Parse(written)
		if err != nil {
			return fmt.Errorf("%s is %s, must be a quantity such as 100m, 2 or 512Mi", name, written)
		}

		(*a)[name] = amount
	}

	return nil
}

var resourceNames = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}

func parseResources(c *Config, value string, path *field.Path) field.ErrorList {
	var given resourcesForm
	if err := decode(value, &given); err != nil {
		return decodeError(path, value, err,
			"YAML with requests and limits ({requests: {cpu: 100m}, limits: {memory: 1Gi}})")
	}

	if len(given.Requests)+len(given.Limits) == 0 {
		return field.ErrorList{emptyValue(path)}
	}

	errs := checkQuantities(given.Requests, path.Child("requests"))
	errs = append(errs, checkQuantities(given.Limits, path.Child("limits"))...)
	for _, name := range resourceNames {
		request, requested := given.Requests[name]
		limit, limited := given.Limits[name]
		if limited && limit.Sign() == 0 {
			errs = append(errs,
				field.Invalid(path.Child("limits").Key(string(name)), limit.String(), "must be more than 0"))
		}

		if requested && limited && request.Cmp(limit) > 0 {
			errs = append(errs, field.Invalid(path.Child("requests").Key(string(name)), request.String(),
				"must be at most the limit, "+limit.String()))
		}
	}

	c.Resources = withDefaults(given)

	return errs
}

func checkQuantities(quantities amounts, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(quantities)) {
		amount, path := quantities[name], path.Key(string(name))
		unit, smallest := resource.Scale(0), "must be whole bytes: m means a thousandth, M and Mi mean megabytes"
		if name == corev1.ResourceCPU {
			unit, smallest = resource.Milli, "must be whole thousandths of a CPU, such as 100m"
		}

		_, exact := amount.AsScale(unit)
		switch {
		case !slices.Contains(resourceNames, name):
			errs = append(errs, field.NotSupported(path, name, resourceNames))
		case amount.Sign() < 0:
			errs = append(errs, field.Invalid(path, amount.String(), "must not be negative"))
		case !exact:
			errs = append(errs, field.Invalid(path, amount.String(), smallest))
		}
	}

	return errs
}

// standardRequests are those of a class that gives none.
var standardRequests = map[corev1.ResourceName]string{corev1.ResourceCPU: "10m", corev1.ResourceMemory: "32Mi"}

// withDefaults adds the defaults. It adapts them to the given values: a given request raises the default limit, a given
// limit lowers the default request.
func withDefaults(given resourcesForm) corev1.ResourceRequirements {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	maps.Copy(requests, given.Requests)
	maps.Copy(limits, given.Limits)
	if _, ok := limits[corev1.ResourceMemory]; !ok {
		limits[corev1.ResourceMemory] = maxQuantity(resource.MustParse("256Mi"), requests[corev1.ResourceMemory])
	}

	for name, standard := range standardRequests {
		if _, ok := requests[name]; ok {
			continue
		}

		requests[name] = resource.MustParse(standard)
		if limit, ok := limits[name]; ok && limit.Cmp(requests[name]) < 0 {
			requests[name] = limit.DeepCopy()
		}
	}

	return corev1.ResourceRequirements{Requests: requests, Limits: limits}
}

func maxQuantity(a, b resource.Quantity) resource.Quantity {
	if b.Cmp(a) > 0 {
		return b.DeepCopy()
	}

	return a
}
