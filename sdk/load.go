package sdk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/bare"
)

// RootEnv names the environment variable whose value Main and flexctl put before every path of the contract, so that a
// provisioner can be tried without a container. No property can set it: names that begin with FLEX_ are refused.
const RootEnv = bare.RootEnv

// LoadRequest reads the pod's request. Fields that this version does not know are ignored.
func LoadRequest(root string) (Request, error) { return bare.LoadRequest(root) }

// LoadVolume reads the PersistentVolume that lies beside the request: to provision the skeleton, to delete or expand the
// volume, or nil for an undo. One that belongs to another claim or volume is an error.
func LoadVolume(root string, request Request) (*corev1.PersistentVolume, error) {
	file := filepath.Join(root, contract.VolumeFile)
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read volume: %w", err)
	}
	if len(data) == 0 {
		if request.Operation == contract.Delete {
			return nil, nil
		}
		return nil, fmt.Errorf("read volume: %s is missing or empty; is this a provisioner pod?", file)
	}
	volume := &corev1.PersistentVolume{}
	if err := yaml.Unmarshal(data, volume); err != nil {
		return nil, fmt.Errorf("read volume %s: %w", file, err)
	}
	if volume.Name != request.VolumeName {
		return nil, fmt.Errorf("read volume %s: metadata.name is %q, but the request is for %q", file, volume.Name, request.VolumeName)
	}
	if request.Operation == contract.Provision && (volume.Spec.ClaimRef == nil || string(volume.Spec.ClaimRef.UID) != request.Claim.UID) {
		return nil, fmt.Errorf("read volume %s: spec.claimRef.uid is not %q, the claim of the request", file, request.Claim.UID)
	}
	return volume, nil
}
