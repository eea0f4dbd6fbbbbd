package configmaps

import (
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// parseMaxSize reads a size in whole bytes. The pattern keeps exponents away from apimachinery that it would take hours for.
func parseMaxSize(c *Config, value string, path *field.Path) field.ErrorList {
	wrong := field.ErrorList{field.Invalid(path, value, "must be a size in whole bytes and more than 0, such as 500Gi")}
	if !amountPattern.MatchString(value) {
		return wrong
	}
	size, err := resource.ParseQuantity(value)
	if err != nil || size.Sign() <= 0 {
		return wrong
	}
	if _, exact := size.AsScale(0); !exact {
		return wrong
	}
	c.MaxSize = size
	return nil
}
