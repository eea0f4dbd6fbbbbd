package configmaps

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func parseNodeSelector(c *Config, value string, path *field.Path) (errs field.ErrorList) {
	c.NodeSelector, errs = textMap(value, path, "a YAML map of labels (disk: ssd) or pairs (disk=ssd,zone=west)")
	for _, key := range slices.Sorted(maps.Keys(c.NodeSelector)) {
		errs = append(errs, checkLabel(key, c.NodeSelector[key], path.Key(key))...)
	}

	return errs
}

// textMap takes a YAML map where there is a colon, which no label can contain, and pairs otherwise. form describes
// both.
func textMap(value string, path *field.Path, form string) (map[string]string, field.ErrorList) {
	read := mapFromPairs
	if strings.Contains(value, ":") {
		read = mapFromYAML
	}

	texts, errs := read(value, path, form)
	if len(errs) == 0 && len(texts) == 0 {
		return nil, field.ErrorList{emptyValue(path)}
	}

	return texts, errs
}

func mapFromPairs(value string, path *field.Path, form string) (map[string]string, field.ErrorList) {
	pairs, errs := list(value, path)
	texts := map[string]string{}
	for i, pair := range pairs {
		key, text, found := strings.Cut(pair, "=")
		key, text = strings.TrimSpace(key), strings.TrimSpace(text)
		if !found {
			errs = append(errs, field.Invalid(path.Index(i), pair, "must be "+form))
			continue
		}

		if other, doubled := texts[key]; doubled && other != text {
			errs = append(errs, field.Duplicate(path.Index(i), key))
		}

		texts[key] = text
	}

	return texts, errs
}

func mapFromYAML(value string, path *field.Path, form string) (map[string]string, field.ErrorList) {
	var decoded map[string]any
	if err := decode(value, &decoded); err != nil {
		return nil, decodeError(path, value, err, form)
	}

	var errs field.ErrorList
	texts := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(decoded)) {
		switch text := decoded[key].(type) {
		case string:
			texts[key] = text
		case map[string]any, []any:
			errs = append(errs,
				field.TypeInvalid(path.Key(key), field.OmitValueType{}, "must be text, not a list or map"))
		default:
			errs = append(errs, field.TypeInvalid(path.Key(key), text, "must be text: put it in quotes"))
		}
	}

	return texts, errs
}

func checkLabel(key, value string, path *field.Path) field.ErrorList {
	return append(checkLabelName(key, path), checkLabelValue(value, path)...)
}

func checkLabelName(name string, path *field.Path) field.ErrorList {
	return checkQualifiedName(name, "a label's", path)
}

func checkQualifiedName(name, kind string, path *field.Path) field.ErrorList {
	if len(validation.IsQualifiedName(name)) == 0 {
		return nil
	}

	return field.ErrorList{field.Invalid(path, name,
		"must be "+kind+" name, such as disk or example.com/disk: at most 63 letters, digits, '-', '_' and '.', "+
			"perhaps after a domain and '/'")}
}

func checkLabelValue(value string, path *field.Path) field.ErrorList {
	if len(validation.IsValidLabelValue(value)) == 0 {
		return nil
	}

	return field.ErrorList{field.Invalid(path, value,
		"must be a label's value: at most 63 letters, digits, '-', '_' and '.', with a letter or digit first "+
			"and last")}
}

func parseTolerations(c *Config, value string, path *field.Path) field.ErrorList {
	if err := decode(value, &c.Tolerations); err != nil {
		return decodeError(path, value, err, "a YAML list of tolerations ([{key: storage, operator: Exists}])")
	}

	switch n := len(c.Tolerations); {
	case n == 0:
		return field.ErrorList{emptyValue(path)}
	case n > maxItems:
		return field.ErrorList{field.TooMany(path, n, maxItems)}
	}

	var errs field.ErrorList
	for i, t := range c.Tolerations {
		errs = append(errs, checkToleration(t, path.Index(i))...)
	}

	return errs
}

// checkToleration follows ValidateTolerations of k8s.io/kubernetes pkg/apis/core/validation, but for the operators Lt
// and Gt: the oldest clusters that are supported refuse pods that use them.
func checkToleration(t corev1.Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = append(errs, checkLabelName(t.Key, path.Child("key"))...)
	} else if t.Operator != corev1.TolerationOpExists {
		errs = append(errs, field.Required(path.Child("key"),
			"only a toleration with operator Exists may leave it out, which tolerates every taint"))
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
			[]corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule,
				corev1.TaintEffectNoExecute}))
	}

	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		errs = append(errs,
			field.Invalid(path.Child("effect"), t.Effect, "must be NoExecute where tolerationSeconds is set"))
	}

	return errs
}
