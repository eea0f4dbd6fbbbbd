package sdktest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/internal/skeleton"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Node is the node that every Pod runs on.
const Node = "node-1"

// Pod has the files that a provisioner finds inside its pod, below a temporary directory.
type Pod struct {
	// Root is the value for FLEX_ROOT or sdk.Run.
	Root    string
	request contract.Request
	server  *Server
}

// NewPod lays out the files of a pod. volume is nil for an undo, and may be for DeleteSnapshot. With a nil server the pod has no token.
func NewPod(t testing.TB, request contract.Request, volume *corev1.PersistentVolume, server *Server) Pod {
	t.Helper()
	p := Pod{Root: t.TempDir(), request: request, server: server}
	data, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, contract.RequestFile, data)
	p.write(t, contract.TerminationFile, nil)
	if volume != nil {
		if data, err = yaml.Marshal(volume); err != nil {
			t.Fatal(err)
		}
		p.write(t, contract.VolumeFile, data)
	}
	if server != nil {
		p.write(t, contract.TokenFile, []byte(Token))
		p.write(t, contract.CAFile, server.CA)
	}
	return p
}

// Env is the environment of the pod, NAME=VALUE, with the names of properties and parameters.
func (p Pod) Env() []string {
	env := []string{"FLEX_ROOT=" + p.Root, "FLEX_NODE=" + Node}
	var api string
	if p.server != nil {
		api = p.server.URL
	}
	for _, v := range p.request.Env(api) {
		env = append(env, v.Name+"="+v.Value)
	}
	for _, values := range []map[string]string{p.request.Parameters, p.request.Properties} {
		for key, value := range values {
			if name := contract.EnvName(key); name != "" {
				env = append(env, name+"="+value)
			}
		}
	}
	return env
}

// Message is the termination message that was written so far.
func (p Pod) Message(t testing.TB) string {
	t.Helper()
	_, message := p.termination(t)
	return message
}

// Location is the location that the provisioner reported, empty if it reported none. See sdk.SetLocation.
func (p Pod) Location(t testing.TB) string {
	t.Helper()
	location, _ := p.termination(t)
	return location
}

func (p Pod) termination(t testing.TB) (location, message string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(p.Root, contract.TerminationFile))
	if err != nil {
		t.Fatal(err)
	}
	return contract.CutLocation(string(data))
}

func (p Pod) write(t testing.TB, file string, data []byte) {
	t.Helper()
	file = filepath.Join(p.Root, file)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Provision is a request for 10 GiB of the class silver with these properties.
func Provision(properties map[string]string) contract.Request {
	const uid = "8b6e7a3e-0d9f-4a53-9d0a-6d1f5b7f2c11"
	return contract.Request{
		Operation:    contract.Provision,
		VolumeName:   "pvc-" + uid,
		Claim:        contract.Claim{Namespace: "team-a", Name: "data", UID: uid},
		StorageClass: "silver",
		SizeBytes:    10 << 30,
		AccessModes:  []string{"ReadWriteOnce"},
		VolumeMode:   "Filesystem",
		Identity:     contract.Identity{Properties: properties},
	}
}

// Delete is the request that removes the volume of Provision.
func Delete(properties map[string]string) contract.Request {
	request := Provision(properties)
	request.Operation = contract.Delete
	return request
}

// Expand is the request that expands the volume of Provision from 10 GiB to 20.
func Expand(properties map[string]string) contract.Request {
	request := Provision(properties)
	request.Operation = contract.Expand
	request.CurrentSizeBytes, request.SizeBytes = request.SizeBytes, 2*request.SizeBytes
	return request
}

// SnapshotName is the name of the snapshot of Snapshot, DeleteSnapshot and Restore.
const SnapshotName = "snap-5c2f1d9e-7b60-4a1c-9e3d-2f4b6a8c0d1e"

// Snapshot is the request for a snapshot of the volume of Provision.
func Snapshot(properties map[string]string) contract.Request {
	request := Provision(properties)
	request.Operation = contract.Snapshot
	request.Snapshot = &contract.SnapshotRequest{
		Name: SnapshotName, Namespace: request.Claim.Namespace, VolumeSnapshot: "monday", UID: SnapshotName[len("snap-"):],
	}
	return request
}

// DeleteSnapshot is the request that removes the snapshot of Snapshot.
func DeleteSnapshot(properties map[string]string) contract.Request {
	request := Snapshot(properties)
	request.Operation = contract.DeleteSnapshot
	return request
}

// Restore is the request for another claim, with the data of the snapshot of Snapshot.
func Restore(properties map[string]string) contract.Request {
	const uid = "1f0e6b52-93c4-4d5a-8b7e-6c5d4e3f2a1b"
	request := Provision(properties)
	request.Source = &contract.Source{
		Namespace: request.Claim.Namespace, Name: "monday", VolumeName: request.VolumeName, Snapshot: SnapshotName,
	}
	request.VolumeName, request.Claim.Name, request.Claim.UID = "pvc-"+uid, "restored", uid
	return request
}

// List is the request of an audit. It has no claim and no volume.
func List(properties map[string]string) contract.Request {
	return contract.Request{Operation: contract.List, StorageClass: "silver", Identity: contract.Identity{Properties: properties}}
}

// Skeleton is the PersistentVolume that the dispatcher passes to a provision, without the dispatcher's record.
func Skeleton(request contract.Request) *corev1.PersistentVolume {
	return skeleton.New(request, contract.ProvisionerName, corev1.PersistentVolumeReclaimDelete, []string{"hard"})
}
