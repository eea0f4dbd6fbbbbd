package sdk_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

// FuzzLoadRequest reads any request.json. What is accepted names a volume, and is the same when it is written and read
// again; and no request makes an environment variable that is not the contract's.
func FuzzLoadRequest(f *testing.F) {
	for _, r := range []contract.Request{sdktest.Provision(nil), sdktest.Delete(map[string]string{"zone": "west\n\x00$(A)"})} {
		text, err := json.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, text := range []string{`{}`, `null`, `[`, `{"volumeName":"pvc-1","sizeBytes":1e30}`, `{"volumeName":"x","groups":[null]}`} {
		f.Add([]byte(text))
	}
	root := newRoot(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		write(t, root, contract.RequestFile, text)
		request, err := sdk.LoadRequest(root)
		if err != nil {
			return
		}
		if request.VolumeName == "" {
			t.Error("a request without a volume's name was accepted")
		}
		again, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		write(t, root, contract.RequestFile, again)
		read, err := sdk.LoadRequest(root)
		if err != nil {
			t.Fatal(err)
		}
		if once, twice := request.Env("x"), read.Env("x"); !reflect.DeepEqual(once, twice) || len(once) != len(contract.Request{}.Env("")) {
			t.Errorf("%q was read as %v and then as %v", text, once, twice)
		}
	})
}

// FuzzLoadVolume reads any volume.yaml: what is accepted belongs to the request, and can be filled in.
func FuzzLoadVolume(f *testing.F) {
	request := sdktest.Provision(nil)
	text, err := yaml.Marshal(sdktest.Skeleton(request))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, false)
	f.Add(text, true)
	f.Add([]byte("metadata: {name: "+request.VolumeName+"}"), true)
	f.Add([]byte("a: &a [*a]"), false)
	root := newRoot(f)
	f.Fuzz(func(t *testing.T, text []byte, deletes bool) {
		request := request
		if deletes {
			request.Operation = contract.Delete
		}
		write(t, root, contract.VolumeFile, text)
		volume, err := sdk.LoadVolume(root, request)
		if err != nil || volume == nil {
			return
		}
		if volume.Name != request.VolumeName || !deletes && string(volume.Spec.ClaimRef.UID) != request.Claim.UID {
			t.Errorf("the volume of another claim was accepted: %q", text)
		}
		if _, err := sdk.Encode(volume); err != nil {
			t.Error(err)
		}
	})
}

func newRoot(f *testing.F) string {
	f.Helper()
	root := f.TempDir()
	if err := os.MkdirAll(filepath.Join(root, contract.RequestDir), 0o755); err != nil {
		f.Fatal(err)
	}
	return root
}

func write(t *testing.T, root, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(root, file), text, 0o600); err != nil {
		t.Fatal(err)
	}
}
