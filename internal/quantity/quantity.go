package quantity

import (
	"regexp"

	"k8s.io/apimachinery/pkg/api/resource"
)

// form limits digits and exponent. apimachinery accepts 1e2147483647, and takes hours to compare it with another quantity.
var form = regexp.MustCompile(`^[+-]?[0-9.]{1,24}([eE][+-]?[0-9]{1,2}|[A-Za-z]{0,2})$`)

// Parse parses a quantity such as 12Gi, 100m or 1e9. It refuses more than 24 digits, and exponents of more than two digits.
func Parse(text string) (resource.Quantity, error) {
	if !form.MatchString(text) {
		return resource.Quantity{}, resource.ErrFormatWrong
	}
	return resource.ParseQuantity(text)
}
