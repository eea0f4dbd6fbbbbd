package configmaps

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flex-provisioner/flex-provisioner/internal/quantity"
)

// maxItems is the limit on the items of each list, which become volumes or other entries of the pod.
const maxItems = 16

// list splits a value at commas and line ends. It refuses a list that is empty, too long, or has duplicates.
func list(value string, path *field.Path) ([]string, field.ErrorList) {
	var items []string
	var errs field.ErrorList
	seen := map[string]bool{}
	for _, item := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == '\n' }) {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}

		if seen[item] {
			errs = append(errs, field.Duplicate(path.Index(len(items)), item))
		}

		seen[item] = true
		items = append(items, item)
	}

	if len(items) == 0 {
		return nil, field.ErrorList{emptyValue(path)}
	}

	if len(items) > maxItems {
		return nil, field.ErrorList{field.TooMany(path, len(items), maxItems)}
	}

	return items, errs
}

// checkObjectName checks the names of StorageClasses, ServiceAccounts, Secrets and claims. Its message is shorter than
// that of apimachinery, which has a regular expression.
func checkObjectName(name string, path *field.Path) field.ErrorList {
	if len(validation.IsDNS1123Subdomain(name)) == 0 {
		return nil
	}

	return field.ErrorList{field.Invalid(path, name,
		"must be the name of a Kubernetes object: at most 253 lower-case letters, digits, '-' and '.', with a "+
			"letter or digit first, last and beside each '.'")}
}

func objectName(target func(*Config) *string) parser {
	return func(c *Config, value string, path *field.Path) field.ErrorList {
		*target(c) = value
		return checkObjectName(value, path)
	}
}

func objectNames(target func(*Config) *[]string) parser {
	return func(c *Config, value string, path *field.Path) field.ErrorList {
		names, errs := list(value, path)
		for i, name := range names {
			errs = append(errs, checkObjectName(name, path.Index(i))...)
		}

		*target(c) = names

		return errs
	}
}

// choices is a list of words out of all, without duplicates.
func choices[T ~string](target func(*Config) *[]T, all ...T) parser {
	known := map[T]bool{}
	for _, word := range all {
		known[word] = true
	}

	return func(c *Config, value string, path *field.Path) field.ErrorList {
		words, errs := list(value, path)
		for i, word := range words {
			if !known[T(word)] {
				errs = append(errs, field.NotSupported(path.Index(i), word, all))
			}

			*target(c) = append(*target(c), T(word))
		}

		return errs
	}
}

func script(target func(*Config) *string) parser {
	return func(c *Config, value string, _ *field.Path) field.ErrorList {
		*target(c) = value
		return nil
	}
}

func boolean(target func(*Config) *bool) parser {
	return func(c *Config, value string, path *field.Path) field.ErrorList {
		if value != "true" && value != "false" {
			return field.ErrorList{field.NotSupported(path, value, []string{"true", "false"})}
		}

		*target(c) = value == "true"

		return nil
	}
}

// duration requires whole seconds, which are the unit of a pod's activeDeadlineSeconds.
func duration(target func(*Config) *time.Duration, low, high time.Duration) parser {
	return func(c *Config, value string, path *field.Path) field.ErrorList {
		d, err := time.ParseDuration(value)
		switch {
		case err != nil:
			return field.ErrorList{field.Invalid(path, value,
				"must be a duration with its unit, such as 90s, 10m or 1h30m")}
		case d < low || d > high:
			return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("must lie between %s and %s", low, high))}
		case d%time.Second != 0:
			return field.ErrorList{field.Invalid(path, value, "must be whole seconds")}
		}

		*target(c) = d

		return nil
	}
}

// parseClaimSizes parses two limits, one of which may be missing.
func parseClaimSizes(c *Config, value string, path *field.Path) field.ErrorList {
	low, high, found := strings.Cut(value, "-")
	minimum, lowFits := wholeBytes(low)
	maximum, highFits := wholeBytes(high)
	form := found && low+high != ""
	switch {
	case !form || !lowFits || !highFits:
		return field.ErrorList{field.Invalid(path, value,
			"must be two quantities of whole bytes such as 1Gi-10Ti, or one of them: 1Gi- or -10Ti")}
	case maximum > 0 && minimum > maximum:
		return field.ErrorList{field.Invalid(path, value,
			"must not begin with the larger size: no claim could be served")}
	}

	c.MinSize, c.MaxSize = minimum, maximum

	return nil
}

// wholeBytes parses a limit in bytes. It is 0 for a missing one.
func wholeBytes(value string) (bytes int64, fits bool) {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0, true
	}

	size, err := quantity.Parse(value)
	if err != nil {
		return 0, false
	}

	_, exact := size.AsScale(0)
	inRange := size.Sign() > 0 && size.CmpInt64(math.MaxInt64) < 0

	return size.Value(), exact && inRange
}

// number parses decimal digits without a sign.
func number(value string, high int64, path *field.Path) (int64, field.ErrorList) {
	n, err := strconv.ParseUint(value, 10, 63)
	if err != nil || int64(n) > high {
		return 0, field.ErrorList{field.Invalid(path, value, fmt.Sprintf("must be a whole number from 0 to %d", high))}
	}

	return int64(n), nil
}

func parseMaxConcurrent(c *Config, value string, path *field.Path) field.ErrorList {
	n, errs := number(value, 10000, path)
	c.MaxConcurrent = int(n)

	return errs
}

// parseLiteralToken ignores the token itself.
func parseLiteralToken(c *Config, _ string, _ *field.Path) field.ErrorList {
	c.LiteralToken = true
	return nil
}

func parsePullPolicy(c *Config, value string, path *field.Path) field.ErrorList {
	switch policy := corev1.PullPolicy(value); policy {
	case corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
		c.ImagePullPolicy = policy
		return nil
	default:
		return field.ErrorList{field.NotSupported(path, value,
			[]corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever})}
	}
}

// Values of the key flexctl.
const (
	flexctlMounted = "mounted"
	flexctlInImage = "in-image"
)

func parseFlexctl(c *Config, value string, path *field.Path) field.ErrorList {
	c.FlexctlInImage = value == flexctlInImage
	if value != flexctlMounted && value != flexctlInImage {
		return field.ErrorList{field.NotSupported(path, value, []string{flexctlMounted, flexctlInImage})}
	}

	return nil
}

func parseDeleteLimit(c *Config, value string, path *field.Path) field.ErrorList {
	n, errs := number(value, 10000, path)
	limit := int(n)
	c.DeleteLimit = &limit

	return errs
}
