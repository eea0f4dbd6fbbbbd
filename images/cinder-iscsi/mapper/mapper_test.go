package mapper_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/mapper"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/parameters"
	"github.com/flex-provisioner/flex-provisioner/test/golden"
)

const (
	archive = "testdata/cases.txtar"

	name     = "pvc-8b6e7a3e-0d9f-4a53-9d0a-6d1f5b7f2c11"
	volumeID = "dae46dbd-d712-48fe-af72-de0872d24140"
)

func TestMain(m *testing.M) { os.Exit(golden.Main(m)) }

// outcome is that of a case; the Secret is written out here, since no value in testdata is one.
type outcome struct {
	Source *corev1.PersistentVolumeSource `json:"source,omitempty"`
	Secret map[string]string              `json:"secret,omitempty"`
	Error  string                         `json:"error,omitempty"`
}

// A case is a folder of the archive: connection.json, input.json where it differs from the usual, and want.yaml.
func TestMap(t *testing.T) {
	files := golden.FS(t, archive)
	connections, err := fs.Glob(files, "*/connection.json")
	if err != nil || len(connections) < 50 {
		t.Fatalf("%d cases, %v", len(connections), err)
	}
	for _, file := range connections {
		folder := path.Dir(file)
		t.Run(folder, func(t *testing.T) {
			got := mapFolder(t, files, folder)
			if refused := strings.HasPrefix(folder, "refused-"); refused != (got.Error != "") {
				t.Fatalf("refused: %q", got.Error)
			}
			if strings.Contains(got.Error, "Scrubbed") {
				t.Errorf("a secret is in the error: %s", got.Error)
			}
			text, err := yaml.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, archive, folder+"/want.yaml", string(text))
		})
	}
}

func mapFolder(t *testing.T, files fs.FS, folder string) outcome {
	t.Helper()
	in := struct {
		Block      bool
		Parameters map[string]string
	}{}
	if data, err := fs.ReadFile(files, folder+"/input.json"); err == nil {
		if err := json.Unmarshal(data, &in); err != nil {
			t.Fatal(err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	data, err := fs.ReadFile(files, folder+"/connection.json")
	if err != nil {
		t.Fatal(err)
	}
	connection, err := mapper.Decode(data)
	if err != nil {
		return outcome{Error: err.Error()}
	}
	mapped, err := mapper.Map(connection, input(t, in.Parameters, in.Block))
	if err != nil {
		return outcome{Error: err.Error()}
	}
	return outcome{Source: &mapped.Source, Secret: mapped.Secret}
}

func input(t testing.TB, values map[string]string, block bool) mapper.Input {
	t.Helper()
	p, err := parameters.Parse(values)
	if err != nil {
		t.Fatal(err)
	}
	in := mapper.Input{
		Name: name, VolumeID: volumeID, Block: block, SecretNamespace: "flex-provisioners", Parameters: p,
		HostNQN: "nqn.2014-08.org.nvmexpress:uuid:8b6e7a3e-0d9f-4a53-9d0a-6d1f5b7f2c11", HostID: "8b6e7a3e-0d9f-4a53-9d0a-6d1f5b7f2c11",
	}
	switch p.InitiatorMode {
	case parameters.PerVolume:
		in.Initiator, in.PerVolume = "iqn.2026-01.io.flex-provisioner:"+name, true
	case parameters.Fixed:
		in.Initiator = p.Initiator
	}
	return in
}

// The shapes that Cinder gives one connection in lead to one volume.
func TestShapesAgree(t *testing.T) {
	files := golden.FS(t, archive)
	for _, pair := range [][2]string{{"iscsi", "iscsi-flat"}, {"iscsi", "iscsi-without-outer"}, {"iscsi", "iscsi-upper-case"}, {"fc", "fc-flat"},
		{"rbd-ceph-csi", "rbd-ceph-csi-flat"}, {"nvme-1", "nvme-1-flat"}} {
		a, _ := yaml.Marshal(mapFolder(t, files, pair[0]))
		b, _ := yaml.Marshal(mapFolder(t, files, pair[1]))
		if string(a) != string(b) {
			t.Errorf("%s and %s differ:\n%s\n%s", pair[0], pair[1], a, b)
		}
	}
}

func TestPrintingHidesSecrets(t *testing.T) {
	data, err := fs.ReadFile(golden.FS(t, archive), "iscsi-discovery-chap/connection.json")
	if err != nil {
		t.Fatal(err)
	}
	connection, err := mapper.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	mapped, err := mapper.Map(connection, input(t, nil, false))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range printed(connection, mapped.Secret) {
		if strings.Contains(text, "Scrubbed") {
			t.Errorf("a secret was printed: %s", text)
		}
	}
}
