package bare

import (
	"encoding/json"
	"fmt"
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
