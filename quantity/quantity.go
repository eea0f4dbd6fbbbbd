package quantity

import (
	"regexp"

	"k8s.io/apimachinery/pkg/api/resource"
)

// form bounds digits and exponent. apimachinery takes 1e2147483647 as well, and hours to compare it with anything.
var form = regexp.MustCompile(`^[+-]?[0-9.]{1,24}([eE][+-]?[0-9]{1,2}|[A-Za-z]{0,2})$`)

// Parse reads a quantity such as 12Gi, 100m or 1e9. It refuses what has more than 24 digits or an exponent of more than two.
func Parse(text string) (resource.Quantity, error) {
	if !form.MatchString(text) {
		return resource.Quantity{}, resource.ErrFormatWrong
	}
	return resource.ParseQuantity(text)
}
