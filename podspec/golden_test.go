package podspec

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

var update = flag.Bool("update", false, "write the golden files anew")

// goldenCase is testdata/build/<case>/case.yaml, beside the ConfigMap in configmap.yaml and the expected pod in pod.yaml. The
// integration tests show every pod.yaml to a real API server.
type goldenCase struct {
	Request contract.Request
	// Terms make the skeleton of a provision; Volume is the volume of a delete.
	Terms   *ClassFields
	Volume  *corev1.PersistentVolume
	Node    string
	Cluster Cluster
}

func TestBuild(t *testing.T) {
	folders, err := filepath.Glob("testdata/build/*")
	if err != nil || len(folders) == 0 {
		t.Fatalf("no cases in testdata/build: %v", err)
	}

	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			var c goldenCase
			var cm corev1.ConfigMap
			read(t, filepath.Join(folder, "case.yaml"), &c)
			read(t, filepath.Join(folder, "configmap.yaml"), &cm)
			config, faults := configmaps.Parse(&cm)
			if len(faults) > 0 {
				t.Fatal(faults.ToAggregate())
			}

			attempt := Attempt{Config: config, Request: c.Request, Volume: c.Volume, Node: c.Node}
			if c.Terms != nil {
				if attempt.Volume, err = Skeleton(c.Request, *c.Terms); err != nil {
					t.Fatal(err)
				}
			}

			pod, err := Build(attempt, c.Cluster)
			if err != nil {
				t.Fatal(err)
			}

			golden(t, filepath.Join(folder, "pod.yaml"), pod)
		})
	}
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	if err := yaml.UnmarshalStrict(data, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func golden(t *testing.T, file string, object any) {
	t.Helper()
	got, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}

	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}

		return
	}

	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	if string(got) != string(want) {
		t.Errorf("%s differs (go test ./podspec -update writes it anew):\n%s", file, diff.Diff(string(want), string(got)))
	}
}
