package sdk_test

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

// The class asks for what this provisioner can never do. Nothing was made, so nothing will be undone.
func ExampleRefuse() {
	err := sdk.Refuse(errors.New(`property "pool" is "gold"; this array has silver and bronze`))
	fmt.Println(sdk.ExitCode(err), err)
	// Output: 64 property "pool" is "gold"; this array has silver and bronze
}

// The node has no way to the storage; another one may have.
func ExampleNotHere() {
	err := sdk.NotHere(errors.New("node-7 has no port in the fabric"))
	fmt.Println(sdk.ExitCode(err), err)
	// Output: 69 node-7 has no port in the fabric
}

// The array is busy. An error that is wrapped further keeps its exit code.
func ExampleTryAgain() {
	err := fmt.Errorf("make lun: %w", sdk.TryAgain(errors.New("the array is rebuilding")))
	fmt.Println(sdk.ExitCode(err), err)
	// Output: 75 make lun: the array is rebuilding
}

// A message is one line, whatever the storage said.
func ExampleMessage() {
	fmt.Println(sdk.Message(errors.New("array says:\n\tpool gold\x07 is full")))
	// Output: array says: pool gold is full
}

// A provisioner that is not run by Main completes the skeleton itself. The volume may be larger than was asked for, never
// smaller.
func ExampleNewVolume() {
	skeleton := sdktest.Skeleton(sdktest.Provision(nil)) // in a pod: sdk.LoadVolume
	source := corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "10.0.0.1", Path: "/exports/x"}}

	volume, err := sdk.NewVolume(skeleton, sdk.Volume{
		Source:      source,
		Capacity:    resource.MustParse("12Gi"),
		Annotations: map[string]string{"example.com/lun": "7"},
	})
	fmt.Println(err, volume.Name, volume.Spec.NFS.Path, volume.Spec.Capacity.Storage())

	_, err = sdk.NewVolume(skeleton, sdk.Volume{Source: source, Capacity: resource.MustParse("9Gi")})
	fmt.Println(err)
	// Output:
	// <nil> pvc-8b6e7a3e-0d9f-4a53-9d0a-6d1f5b7f2c11 /exports/x 12Gi
	// capacity: Invalid value: "9Gi": less than the 10Gi that the claim asks for would never bind
}

// A volume of the kind local lies on one node.
func ExampleNodeAffinity() {
	volume := sdk.Volume{
		Source:       corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/srv/x"}},
		NodeAffinity: sdk.NodeAffinity(corev1.LabelHostname, "node-7"),
	}
	term := volume.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]
	fmt.Println(term.Key, term.Operator, term.Values)
	// Output: kubernetes.io/hostname In [node-7]
}
