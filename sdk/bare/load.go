package bare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// RootEnv names the environment variable whose value Main and flexctl put before every path of the contract, so that a
// provisioner can be tried without a container. No property can set it: names that begin with FLEX_ are refused.
const RootEnv = "FLEX_ROOT"

// LoadRequest reads the pod's request. Fields that this version does not know are ignored.
func LoadRequest(root string) (contract.Request, error) {
	file := filepath.Join(root, contract.RequestFile)
	data, err := os.ReadFile(file)
	if err != nil {
		return contract.Request{}, fmt.Errorf("read request: %w; is this a provisioner pod?", err)
	}
	var request contract.Request
	if err := json.Unmarshal(data, &request); err != nil {
		return contract.Request{}, fmt.Errorf("read request %s: %w", file, err)
	}
	if request.VolumeName == "" && request.Operation != contract.List {
		return contract.Request{}, fmt.Errorf("read request %s: volumeName is missing", file)
	}
	return request, nil
}

// ReadVolume reads the file with the PersistentVolume that lies beside the request. It is empty for an undo.
func ReadVolume(root string, request contract.Request) (file string, data []byte, err error) {
	file = filepath.Join(root, contract.VolumeFile)
	data, err = os.ReadFile(file)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return file, nil, fmt.Errorf("read volume: %w", err)
	case len(data) == 0 && request.Operation != contract.Delete:
		return file, nil, fmt.Errorf("read volume: %s is missing or empty; is this a provisioner pod?", file)
	}
	return file, data, nil
}

// CheckVolume refuses a volume of the file that belongs to another claim or volume than the request. claimUID is that of its claim, empty
// where it names none.
func CheckVolume(file string, request contract.Request, name, claimUID string) error {
	if name != request.VolumeName {
		return fmt.Errorf("read volume %s: metadata.name is %q, but the request is for %q", file, name, request.VolumeName)
	}
	if request.Operation == contract.Provision && (claimUID == "" || claimUID != request.Claim.UID) {
		return fmt.Errorf("read volume %s: spec.claimRef.uid is not %q, the claim of the request", file, request.Claim.UID)
	}
	return nil
}
