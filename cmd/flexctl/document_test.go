package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestSources(t *testing.T) {
	var want []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[corev1.PersistentVolumeSource]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		want = append(want, name)
	}
	slices.Sort(want)
	if !slices.Equal(sources, want) {
		t.Errorf("sources %v, k8s.io/api has %v", sources, want)
	}
}
