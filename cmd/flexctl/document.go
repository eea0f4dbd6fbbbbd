package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	strict "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/quantity"
	"github.com/flex-provisioner/flex-provisioner/sdk"
)

// document is the input of create-pv.
type document struct {
	corev1.PersistentVolumeSource `json:",inline"`
	Capacity                      capacity                   `json:"capacity"`
	NodeAffinity                  *corev1.VolumeNodeAffinity `json:"nodeAffinity"`
	MountOptions                  []string                   `json:"mountOptions"`
	Annotations                   map[string]string          `json:"annotations"`
}

// capacity is a quantity whose errors name the field.
type capacity struct{ resource.Quantity }

func (c *capacity) UnmarshalJSON(data []byte) (err error) {
	if string(data) == "null" {
		return nil
	}
	if c.Quantity, err = quantity.Parse(strings.Trim(string(data), `"`)); err != nil {
		return fmt.Errorf("capacity: %s is no quantity; write for example 12Gi or a number of bytes", data)
	}
	return nil
}

// parseVolume is strict: what it does not know it names, with what it knows in that place. name is that of the input, for errors.
func parseVolume(name string, data []byte) (sdk.Volume, error) {
	object, err := onlyDocument(name, data)
	if err != nil {
		return sdk.Volume{}, err
	}
	if !bytes.HasPrefix(object, []byte("{")) {
		return sdk.Volume{}, fmt.Errorf("the input is %s, but should be a volume source such as `nfs: {server: 10.0.0.1, path: /exports/x}`", object)
	}
	var d document
	if err := json.Unmarshal(object, &d); err != nil {
		return sdk.Volume{}, typeError(err)
	}
	unknown, err := strict.UnmarshalStrict(object, &document{})
	if err := errors.Join(append(explainUnknown(unknown), err)...); err != nil {
		return sdk.Volume{}, err
	}
	return sdk.Volume{
		Source: d.PersistentVolumeSource, Capacity: d.Capacity.Quantity, NodeAffinity: d.NodeAffinity,
		MountOptions: d.MountOptions, Annotations: d.Annotations,
	}, nil
}

// onlyDocument is the one document in data that is more than comments and blanks, as JSON.
func onlyDocument(name string, data []byte) ([]byte, error) {
	var objects [][]byte
	for _, document := range configmaps.Documents(data) {
		object, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, configmaps.NotYAML(name, document, err)
		}
		if string(object) != "null" {
			objects = append(objects, object)
		}
	}
	switch len(objects) {
	case 0:
		return nil, errors.New("the input is empty; write a volume source such as `nfs: {server: 10.0.0.1, path: /exports/x}`")
	case 1:
		return objects[0], nil
	}
	return nil, fmt.Errorf("the input holds %d documents; one claim has one volume, write one", len(objects))
}

func typeError(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	path := strings.TrimPrefix(wrong.Field, "PersistentVolumeSource.")
	if wrong.Type.Kind() == reflect.String {
		return fmt.Errorf("%s: is a %s and should be text; put it in quotes", path, wrong.Value)
	}
	return fmt.Errorf("%s: is a %s and should be %s", path, wrong.Value, kindName(wrong.Type.Kind()))
}

func kindName(kind reflect.Kind) string {
	switch kind {
	case reflect.Struct, reflect.Map:
		return "a mapping"
	case reflect.Slice:
		return "a list"
	case reflect.Bool:
		return "true or false"
	}
	return "a number"
}

func explainUnknown(unknown []error) []error {
	var errs []error
	for _, err := range unknown {
		var field strict.FieldError
		if !errors.As(err, &field) {
			errs = append(errs, err)
			continue
		}
		path := field.FieldPath()
		parent, _, nested := cutLast(path)
		known := strings.Join(fieldNames(typeAt(reflect.TypeFor[document](), parent)), ", ")
		if !nested {
			errs = append(errs, fmt.Errorf("%w; known are %s", err, known))
		} else {
			errs = append(errs, fmt.Errorf("%w; known in %s are %s", err, parent, known))
		}
	}
	return errs
}

func cutLast(path string) (parent, name string, nested bool) {
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		return path[:i], path[i+1:], true
	}
	return "", path, false
}

// typeAt is the struct at a path such as nodeAffinity.required.nodeSelectorTerms[0], or where the path goes on in what is
// no struct, such as the key "server." of nfs, that.
func typeAt(t reflect.Type, path string) reflect.Type {
	for _, name := range strings.Split(path, ".") {
		name, _, _ = strings.Cut(name, "[")
		if t.Kind() != reflect.Struct {
			return t
		}
		for _, f := range reflect.VisibleFields(t) {
			if jsonName(f) == name && name != "" {
				t = f.Type
			}
		}
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
	}
	return t
}

// fieldNames are the JSON names of a struct's fields, sorted, those of embedded structs included.
func fieldNames(t reflect.Type) []string {
	var names []string
	if t.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		if name := jsonName(f); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
