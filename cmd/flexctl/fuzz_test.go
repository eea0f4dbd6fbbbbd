package main

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	strict "sigs.k8s.io/json"

	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

// FuzzCreatePV reads any input of create-pv. Whatever it says, what becomes of it is the claim's volume: its name, claim,
// class, finalizers and annotations are the skeleton's, and it is not smaller.
func FuzzCreatePV(f *testing.F) {
	for _, c := range cases {
		if c.stdin != "" {
			f.Add([]byte(c.stdin))
		}
	}
	for _, text := range []string{"a: &a [*a]", "nfs: {<<: {server: x}, path: /y}", "metadata: {name: other}\nnfs: {server: x, path: /y}",
		"capacity: 1e9999999999\nnfs: {server: x, path: /y}", "annotations: {kubernetes.io/x: y}\nnfs: {server: x, path: /y}", "{\"nfs\":{}}\x00"} {
		f.Add([]byte(text))
	}
	skeleton := sdktest.Skeleton(sdktest.Provision(nil))
	text, err := json.Marshal(skeleton)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		filling, err := parseVolume("the input", input)
		if err != nil {
			return
		}
		var loaded volumeFile
		if err := json.Unmarshal(text, &loaded); err != nil {
			t.Fatal(err)
		}
		made, err := newVolume(&loaded, filling, "ext4")
		if err != nil {
			return
		}
		body, err := json.Marshal(made)
		if err != nil {
			t.Fatal(err)
		}
		var volume corev1.PersistentVolume
		if faults, err := strict.UnmarshalStrict(body, &volume); err != nil || len(faults) > 0 {
			return // the API server refuses it
		}
		if volume.Name != skeleton.Name || !reflect.DeepEqual(volume.Spec.ClaimRef, skeleton.Spec.ClaimRef) ||
			volume.Spec.StorageClassName != skeleton.Spec.StorageClassName || !slices.Equal(volume.Finalizers, skeleton.Finalizers) ||
			volume.OwnerReferences != nil || volume.Labels != nil ||
			volume.Spec.PersistentVolumeReclaimPolicy != skeleton.Spec.PersistentVolumeReclaimPolicy {
			t.Errorf("the input changed what is not its to change: %+v", volume)
		}
		for key, value := range skeleton.Annotations {
			if volume.Annotations[key] != value {
				t.Errorf("annotation %s became %q", key, volume.Annotations[key])
			}
		}
		size, asked := volume.Spec.Capacity[corev1.ResourceStorage], skeleton.Spec.Capacity[corev1.ResourceStorage]
		if size.Cmp(asked) < 0 {
			t.Errorf("capacity %s is less than %s", size.String(), asked.String())
		}
	})
}
