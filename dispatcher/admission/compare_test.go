package admission

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// mutation changes one thing of an object of the API.
type mutation struct {
	path string
	// do changes a copy of the object.
	do func(root reflect.Value)
}

// mutations are all that can be changed in an object by one step: each value, each item of a list or map that goes or comes,
// and each optional field that is set or unset. They come from the types, so that a field which a new version of Kubernetes
// brings is among them.
func mutations(value reflect.Value, path string, at func(root reflect.Value) reflect.Value) []mutation {
	var all []mutation
	add := func(path string, do func(v reflect.Value)) {
		all = append(all, mutation{path, func(root reflect.Value) { do(at(root)) }})
	}
	switch value.Kind() {
	case reflect.Struct:
		for i := range value.NumField() {
			all = append(all, mutations(value.Field(i), path+fieldName(value.Type().Field(i)), func(root reflect.Value) reflect.Value { return at(root).Field(i) })...)
		}
	case reflect.Pointer:
		if value.IsNil() {
			add(path, func(v reflect.Value) { v.Set(something(v.Type())) })
			break
		}

		add(path, func(v reflect.Value) { v.SetZero() })
		all = append(all, mutations(value.Elem(), path, func(root reflect.Value) reflect.Value { return at(root).Elem() })...)
	case reflect.Slice:
		add(path, func(v reflect.Value) { v.Set(reflect.Append(v, something(v.Type().Elem()))) })
		for i := range value.Len() {
			add(path, func(v reflect.Value) { v.Set(reflect.AppendSlice(v.Slice(0, i), v.Slice(i+1, v.Len()))) })
			all = append(all, mutations(value.Index(i), fmt.Sprintf("%s[%d]", path, i), func(root reflect.Value) reflect.Value { return at(root).Index(i) })...)
		}
	case reflect.Map:
		add(path, func(v reflect.Value) {
			if v.IsNil() {
				v.Set(reflect.MakeMap(v.Type()))
			}

			v.SetMapIndex(something(v.Type().Key()), something(v.Type().Elem()))
		})
		for _, key := range value.MapKeys() {
			add(path, func(v reflect.Value) { v.SetMapIndex(key, reflect.Value{}) })
			add(path+"."+key.String(), func(v reflect.Value) { v.SetMapIndex(key, something(v.Type().Elem())) })
		}
	default:
		add(path, func(v reflect.Value) { v.Set(something(v.Type())) })
	}

	return all
}

// fieldName is as the API has it, empty for fields that are inlined.
func fieldName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	if name != "" {
		name = "." + name
	}

	return name
}

// something is a value that nothing has by default or as shipped, with all of its fields set.
func something(of reflect.Type) reflect.Value {
	v := reflect.New(of).Elem()
	switch of.Kind() {
	case reflect.String:
		v.SetString("mutant")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(4711)
	case reflect.Pointer:
		v.Set(reflect.New(of.Elem()))
		v.Elem().Set(something(of.Elem()))
	case reflect.Slice:
		v.Set(reflect.Append(v, something(of.Elem())))
	case reflect.Map:
		v.Set(reflect.MakeMap(of))
		v.SetMapIndex(something(of.Key()), something(of.Elem()))
	case reflect.Struct:
		for i := range v.NumField() {
			v.Field(i).Set(something(of.Field(i).Type))
		}
	default:
		panic("no value of type " + of.String())
	}

	return v
}

// decidesNothing are the paths that may differ, in so many words: [] stands for any item.
var decidesNothing = map[string]bool{
	"spec.validations[].message": true, "spec.validations[].messageExpression": true, "spec.validations[].reason": true,
	"spec.auditAnnotations": true,
	// The name by which the binding was found.
	"spec.policyName": true,
}

func anyItem(path string) string {
	var b strings.Builder
	for part := range strings.SplitAfterSeq(path, "[") {
		if _, rest, ok := strings.Cut(part, "]"); ok {
			part = "]" + rest
		}

		b.WriteString(part)
	}

	return b.String()
}

// Whatever is changed in a policy or in its binding is noticed, and named by its path.
func TestEveryChangeIsNoticed(t *testing.T) {
	total := 0
	for _, s := range readAll(t) {
		t.Run(s.policy.Name, func(t *testing.T) {
			want := &s.policy.Spec
			for _, m := range mutations(reflect.ValueOf(want).Elem(), "spec", func(root reflect.Value) reflect.Value { return root }) {
				got := want.DeepCopy()
				m.do(reflect.ValueOf(got).Elem())
				added := len(got.Validations) > len(want.Validations)
				checkNoticed(t, m, diffPolicy(got, want), added || reflect.DeepEqual(served(got), served(want)))
				total++
			}
		})
		t.Run("binding of "+s.policy.Name, func(t *testing.T) {
			want := &s.binding.Spec
			for _, m := range mutations(reflect.ValueOf(want).Elem(), "spec", func(root reflect.Value) reflect.Value { return root }) {
				got := want.DeepCopy()
				m.do(reflect.ValueOf(got).Elem())
				checkNoticed(t, m, diffBinding(got, want), false)
				total++
			}
		})
	}

	if total < 500 {
		t.Errorf("%d changes were tried, want all", total)
	}
}

// served is the policy with the one default that is shipped in so many words.
func served(spec *admissionv1.ValidatingAdmissionPolicySpec) *admissionv1.ValidatingAdmissionPolicySpec {
	spec, closed := spec.DeepCopy(), admissionv1.Fail
	if spec.FailurePolicy == nil {
		spec.FailurePolicy = &closed
	}

	return spec
}

func checkNoticed(t *testing.T, m mutation, noticed string, welcome bool) {
	t.Helper()
	switch welcome = welcome || decidesNothing[anyItem(m.path)]; {
	case welcome && noticed != "":
		t.Errorf("%s changed: noticed %q, want it to be welcome", m.path, noticed)
	case welcome:
	case strings.HasPrefix(m.path, "spec.validations"):
		if !strings.HasPrefix(noticed, "spec.validations lacks the shipped [") {
			t.Errorf("%s changed: noticed %q, want that a validation is missing", m.path, noticed)
		}
	case !strings.HasPrefix(noticed, m.path):
		t.Errorf("%s changed: noticed %q, want its path", m.path, noticed)
	}
}

// No expression may have a comment, which ends with its line: white space is evened out before expressions are compared.
func TestShippedExpressionsHaveNoComments(t *testing.T) {
	for _, s := range readAll(t) {
		for _, text := range expressionsOf(asJSON(&s.policy.Spec)) {
			for line := range strings.Lines(text) {
				if before, _, found := strings.Cut(line, "//"); found && strings.Count(before, "'")%2 == 0 && strings.Count(before, `"`)%2 == 0 {
					t.Errorf("policy %s: %q has a comment: write it in YAML", s.policy.Name, line)
				}
			}
		}
	}
}

func expressionsOf(value any) []string {
	var found []string
	switch value := value.(type) {
	case map[string]any:
		for _, v := range value {
			found = append(found, expressionsOf(v)...)
		}
	case []any:
		for _, v := range value {
			found = append(found, expressionsOf(v)...)
		}
	case string:
		found = append(found, value)
	}

	return found
}
