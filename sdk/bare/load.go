package bare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// RootEnv is the environment variable whose value Main and flexctl put before every path of the contract, so that a provisioner can run
// without a container. No property can set it, since names that begin with FLEX_ are refused.
const RootEnv = "FLEX_ROOT"

// LoadRequest reads the pod's request. It ignores unknown fields.
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
	ofSnapshot := request.Operation == contract.Snapshot || request.Operation == contract.DeleteSnapshot
	ofAttachment := request.Operation == contract.Attach || request.Operation == contract.Detach
	switch {
	case ofAttachment && (request.Attachment == nil || request.Attachment.Name == "" || request.Attachment.UID == ""):
		return contract.Request{}, fmt.Errorf("read request %s: attachment.name or attachment.uid is missing", file)
	case ofSnapshot && (request.Snapshot == nil || request.Snapshot.Name == ""):
		return contract.Request{}, fmt.Errorf("read request %s: snapshot.name is missing", file)
	case request.VolumeName == "" && request.Operation != contract.List && request.Operation != contract.DeleteSnapshot:
		return contract.Request{}, fmt.Errorf("read request %s: volumeName is missing", file)
	}
	return request, nil
}

// ReadVolume reads contract.VolumeFile. data is empty for an undo, and for a snapshot of which no record says of which volume it is.
func ReadVolume(root string, request contract.Request) (file string, data []byte, err error) {
	file = filepath.Join(root, contract.VolumeFile)
	data, err = os.ReadFile(file)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return file, nil, fmt.Errorf("read volume: %w", err)
	case len(data) == 0 && request.Operation != contract.Delete && request.Operation != contract.DeleteSnapshot:
		return file, nil, fmt.Errorf("read volume: %s is missing or empty; is this a provisioner pod?", file)
	}
	return file, data, nil
}

// CheckVolume returns an error if the volume in the file is not that of the request, by its name and claim. claimUID is the UID in its
// claimRef, empty without one.
func CheckVolume(file string, request contract.Request, name, claimUID string) error {
	if name != request.VolumeName {
		return fmt.Errorf("read volume %s: metadata.name is %q, but the request is for %q", file, name, request.VolumeName)
	}
	if request.Operation == contract.Provision && (claimUID == "" || claimUID != request.Claim.UID) {
		return fmt.Errorf("read volume %s: spec.claimRef.uid is not %q, the claim of the request", file, request.Claim.UID)
	}
	return nil
}

// RefuseUnknown refuses to provision with a property or parameter that is none of the known ones. A name with a prefix is of another
// component. A volume keeps what it was made with, and its class may have gained more: so nothing else is refused.
func RefuseUnknown(request contract.Request, known []string) error {
	if request.Operation != contract.Provision {
		return nil
	}
	var unknown []string
	for _, from := range []map[string]string{request.Properties, request.Parameters} {
		for _, name := range slices.Sorted(maps.Keys(from)) {
			env := contract.EnvName(name)
			if env != "" && !slices.ContainsFunc(known, func(k string) bool { return contract.EnvName(k) == env }) {
				unknown = append(unknown, fmt.Sprintf("%q", name))
			}
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return Refuse(fmt.Errorf("not known: %s; the provisioner knows the properties %s: correct the class's ConfigMap or StorageClass",
		strings.Join(unknown, ", "), strings.Join(slices.Sorted(slices.Values(known)), ", ")))
}
