package sdk

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/sdk/bare"
)

// RootEnv is the environment variable whose value Main and flexctl put before every path of the contract, so that a provisioner can run
// without a container. No property can set it, since names that begin with FLEX_ are refused.
const RootEnv = bare.RootEnv

// LoadRequest reads the pod's request. It ignores unknown fields.
func LoadRequest(root string) (Request, error) { return bare.LoadRequest(root) }

// LoadVolume reads contract.VolumeFile: for provision the skeleton, for the other operations the volume. It is nil for an undo, and for
// the removal of a snapshot of which no record says of which volume it is. A volume of another name or claim is an error.
func LoadVolume(root string, request Request) (*corev1.PersistentVolume, error) {
	file, data, err := bare.ReadVolume(root, request)
	if len(data) == 0 {
		return nil, err
	}
	volume := &corev1.PersistentVolume{}
	if err := yaml.Unmarshal(data, volume); err != nil {
		return nil, fmt.Errorf("read volume %s: %w", file, err)
	}
	claimUID := ""
	if ref := volume.Spec.ClaimRef; ref != nil {
		claimUID = string(ref.UID)
	}
	if err := bare.CheckVolume(file, request, volume.Name, claimUID); err != nil {
		return nil, err
	}
	return volume, nil
}
