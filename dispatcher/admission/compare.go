package admission

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// diffPolicy names by its path what differs from the shipped policy, empty where nothing does.
//
// Every field is compared, so that none has to be remembered that could narrow a policy. Two differences are welcome:
//   - Validations may be added, in any place: they refuse more. Nothing else may be added; a match condition, an
//     excluded rule or a variable can make the shipped validations mean less.
//   - What is said of a refusal, or recorded of a request, may differ: it decides nothing. A messageExpression or an
//     audit annotation that fails makes the API server refuse, by the failure policy, or fall back to another message.
func diffPolicy(got, want *admissionv1.ValidatingAdmissionPolicySpec) string {
	g, w := comparablePolicy(got), comparablePolicy(want)
	here := listed(g["validations"])
	for i, rule := range listed(w["validations"]) {
		at := slices.IndexFunc(here, func(v any) bool { return diff("", v, rule) == "" })
		if at < 0 {
			return fmt.Sprintf("spec.validations lacks the shipped [%d], %s", i, quoted(rule))
		}

		here = slices.Delete(here, at, at+1) // the next one is most often the first then
	}

	delete(g, "validations")
	delete(w, "validations")

	return diff("spec", g, w)
}

// diffBinding names by its path what differs from the shipped binding, empty where nothing does. To record in the audit
// log beside refusing takes nothing away. The policy's name is not compared: by it the binding was found.
func diffBinding(got, want *admissionv1.ValidatingAdmissionPolicyBindingSpec) string {
	return diff("spec", comparableBinding(got), comparableBinding(want))
}

// comparablePolicy has the defaults of the API, and no field that decides nothing.
func comparablePolicy(spec *admissionv1.ValidatingAdmissionPolicySpec) map[string]any {
	spec = spec.DeepCopy()
	setDefault(&spec.FailurePolicy, admissionv1.Fail)
	setMatchDefaults(&spec.MatchConstraints)
	spec.AuditAnnotations = nil
	for i := range spec.Validations {
		v := &spec.Validations[i]
		v.Message, v.MessageExpression, v.Reason = "", "", nil
	}

	return asJSON(spec)
}

func comparableBinding(spec *admissionv1.ValidatingAdmissionPolicyBindingSpec) map[string]any {
	spec = spec.DeepCopy()
	spec.PolicyName = ""
	setMatchDefaults(&spec.MatchResources)
	spec.ValidationActions = slices.DeleteFunc(spec.ValidationActions, func(a admissionv1.ValidationAction) bool {
		return a == admissionv1.Audit
	})

	return asJSON(spec)
}

// setMatchDefaults sets the defaults of the API. Without any, everything matches.
func setMatchDefaults(match **admissionv1.MatchResources) {
	setDefault(match, admissionv1.MatchResources{})
	m := *match
	setDefault(&m.MatchPolicy, admissionv1.Equivalent)
	setDefault(&m.NamespaceSelector, metav1.LabelSelector{})
	setDefault(&m.ObjectSelector, metav1.LabelSelector{})

	for _, rules := range [][]admissionv1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range rules {
			setDefault(&rules[i].Scope, admissionv1.AllScopes)
		}
	}
}

func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// asJSON is an object of the API as maps and lists, without what is empty.
func asJSON(object any) map[string]any {
	var fields map[string]any
	data, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(data, &fields)
	}

	if err != nil {
		panic(err) // types of the API are made for this
	}

	return fields
}

// diff names the first path, in the order of the fields' names, where two JSON values differ. White space within text
// is evened out: tools that rewrite YAML fold expressions as they like.
func diff(path string, got, want any) string {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok {
			break
		}

		fields := maps.Clone(want)
		maps.Copy(fields, got)
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			if at := diff(path+"."+field, got[field], want[field]); at != "" {
				return at
			}
		}

		return ""
	case []any:
		got, ok := got.([]any)
		if !ok {
			break
		}

		for i := range max(len(got), len(want)) {
			if at := diff(fmt.Sprintf("%s[%d]", path, i), item(got, i), item(want, i)); at != "" {
				return at
			}
		}

		return ""
	case string:
		if got, ok := got.(string); ok && slices.Equal(strings.Fields(got), strings.Fields(want)) {
			return ""
		}
	default:
		// It is a number, a bool or nothing.
		if got == want {
			return ""
		}
	}

	return fmt.Sprintf("%s is %s, want %s", path, quoted(got), quoted(want))
}

func listed(value any) []any {
	list, _ := value.([]any)
	return list
}

func item(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}

	return nil
}

// maxQuoted bounds in bytes what is quoted of a policy, whose expressions are long.
const maxQuoted = 120

func quoted(value any) string {
	text, ok := value.(string)
	switch {
	case value == nil:
		return "none"
	case !ok:
		data, err := json.Marshal(value)
		if err != nil {
			panic(err) // it came from JSON
		}

		text = string(data)
	}

	return podspec.Clip(podspec.OneLine(text), maxQuoted)
}
