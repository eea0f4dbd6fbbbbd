package configmaps

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const selectorForm = "a YAML map of labels (disk: ssd) or pairs (disk=ssd,zone=west)"

// parseNodeSelector takes a YAML map where there is a colon, which no label can contain, and pairs otherwise.
func parseNodeSelector(c *Config, value string, path *field.Path) field.ErrorList {
	read := selectorFromPairs
	if strings.Contains(value, ":") {
		read = selectorFromYAML
	}
	selector, errs := read(value, path)
	if len(errs) == 0 && len(selector) == 0 {
		return field.ErrorList{empty(path)}
	}
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		errs = append(errs, checkLabel(key, selector[key], path.Key(key))...)
	}
	c.NodeSelector = selector
	return errs
}

func selectorFromPairs(value string, path *field.Path) (map[string]string, field.ErrorList) {
	pairs, errs := list(value, path)
	selector := map[string]string{}
	for i, pair := range pairs {
		key, label, found := strings.Cut(pair, "=")
		key, label = strings.TrimSpace(key), strings.TrimSpace(label)
		if !found {
			errs = append(errs, field.Invalid(path.Index(i), pair, "must be "+selectorForm))
			continue
		}
		if other, doubled := selector[key]; doubled && other != label {
			errs = append(errs, field.Duplicate(path.Index(i), key))
		}
		selector[key] = label
	}
	return selector, errs
}

func selectorFromYAML(value string, path *field.Path) (map[string]string, field.ErrorList) {
	var decoded map[string]any
	if err := decode(value, &decoded); err != nil {
		return nil, notDecoded(path, value, err, selectorForm)
	}
	var errs field.ErrorList
	selector := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(decoded)) {
		switch label := decoded[key].(type) {
		case string:
			selector[key] = label
		case map[string]any, []any:
			errs = append(errs, field.TypeInvalid(path.Key(key), field.OmitValueType{}, "must be text, not a list or map"))
		default:
			errs = append(errs, field.TypeInvalid(path.Key(key), label, "must be text: put it in quotes"))
		}
	}
	return selector, errs
}

func checkLabel(key, value string, path *field.Path) field.ErrorList {
	return append(checkLabelName(key, path), checkLabelValue(value, path)...)
}

func checkLabelName(name string, path *field.Path) field.ErrorList {
	if len(validation.IsQualifiedName(name)) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, name, "must be a label's name, such as disk or example.com/disk: at most 63 letters, digits, '-', '_' and '.', "+
		"perhaps after a domain and '/'")}
}

func checkLabelValue(value string, path *field.Path) field.ErrorList {
	if len(validation.IsValidLabelValue(value)) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, "must be a label's value: at most 63 letters, digits, '-', '_' and '.', with a letter or digit first and last")}
}

func parseTolerations(c *Config, value string, path *field.Path) field.ErrorList {
	if err := decode(value, &c.Tolerations); err != nil {
		return notDecoded(path, value, err, "a YAML list of tolerations ([{key: storage, operator: Exists}])")
	}
	switch n := len(c.Tolerations); {
	case n == 0:
		return field.ErrorList{empty(path)}
	case n > maxItems:
		return field.ErrorList{field.TooMany(path, n, maxItems)}
	}
	var errs field.ErrorList
	for i, t := range c.Tolerations {
		errs = append(errs, checkToleration(t, path.Index(i))...)
	}
	return errs
}

// checkToleration follows ValidateTolerations of k8s.io/kubernetes pkg/apis/core/validation, but for the operators Lt and
// Gt: the oldest clusters that are supported refuse pods that use them.
func checkToleration(t corev1.Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = append(errs, checkLabelName(t.Key, path.Child("key"))...)
	} else if t.Operator != corev1.TolerationOpExists {
		errs = append(errs, field.Required(path.Child("key"), "only a toleration with operator Exists may leave it out, which tolerates every taint"))
	}
	switch t.Operator {
	case corev1.TolerationOpEqual, "":
		errs = append(errs, checkLabelValue(t.Value, path.Child("value"))...)
	case corev1.TolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(path.Child("value"), t.Value, "must be left out with operator Exists"))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("operator"), t.Operator,
			[]corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}))
	}
	switch t.Effect {
	case "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
	default:
		errs = append(errs, field.NotSupported(path.Child("effect"), t.Effect,
			[]corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}))
	}
	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		errs = append(errs, field.Invalid(path.Child("effect"), t.Effect, "must be NoExecute where tolerationSeconds is set"))
	}
	return errs
}
