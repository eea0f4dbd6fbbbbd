package main

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/test/golden"
)

// TestShapes: shapes.json is what k8s.io/api says. -update writes it.
func TestShapes(t *testing.T) {
	all := map[string]map[string]string{}
	addShape(all, reflect.TypeFor[corev1.PersistentVolumeSource]())
	addShape(all, reflect.TypeFor[corev1.VolumeNodeAffinity]())
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *golden.Update {
		if err := os.WriteFile("shapes.json", text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if written, err := os.ReadFile("shapes.json"); err != nil || !bytes.Equal(written, text) {
		t.Errorf("shapes.json is not what k8s.io/api says; -update writes it: %v\n%s", err, text)
	}
	if len(shapes[documentShape]) != reflect.TypeFor[corev1.PersistentVolumeSource]().NumField()+4 {
		t.Errorf("the input has the fields %v", shapes[documentShape])
	}
	for name, fields := range shapes {
		for field, shape := range fields {
			shape = strings.TrimPrefix(strings.TrimPrefix(shape, "[]"), "map[string]")
			if known := shapes[shape] != nil || strings.Contains(" string bool int32 int64 quantity ", " "+shape+" "); !known {
				t.Errorf("%s.%s is a %s, which is not checked", name, field, shape)
			}
		}
	}
}

// addShape adds a struct, and those of its fields.
func addShape(all map[string]map[string]string, of reflect.Type) {
	if all[of.Name()] != nil {
		return
	}
	fields := map[string]string{}
	all[of.Name()] = fields
	for _, f := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		prefix, kind := "", f.Type
		for done := false; !done; {
			switch kind.Kind() {
			case reflect.Pointer:
				kind = kind.Elem()
			case reflect.Slice:
				prefix, kind = prefix+"[]", kind.Elem()
			case reflect.Map:
				prefix, kind = prefix+"map[string]", kind.Elem()
			default:
				done = true
			}
		}
		if kind.Kind() == reflect.Struct {
			addShape(all, kind)
			fields[name] = prefix + kind.Name()
		} else {
			fields[name] = prefix + kind.Kind().String()
		}
	}
}
