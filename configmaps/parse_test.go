package configmaps

import (
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/test/golden"
)

const archive = "testdata/cases.txtar"

func TestMain(m *testing.M) { os.Exit(golden.Main(m)) }

// TestParse runs every folder of the archive: configmap.yaml gives either config.yaml or errors.txt,
// which has one error a line.
func TestParse(t *testing.T) {
	cases := readCases(t)
	if len(cases) < 20 {
		t.Fatalf("found %d cases", len(cases))
	}

	for name, cm := range cases {
		t.Run(name, func(t *testing.T) {
			config, errs := Parse(&cm)
			if (config == nil) != (len(errs) > 0) {
				t.Fatalf("got config %v and errors %v, want exactly one of them", config, errs)
			}

			var gotConfig, gotErrors string
			if config != nil {
				gotConfig = configYAML(t, config)
			}

			if len(errs) > 0 {
				gotErrors = strings.Join(texts(errs), "\n") + "\n"
			}

			golden.Compare(t, archive, name+"/config.yaml", gotConfig)
			golden.Compare(t, archive, name+"/errors.txt", gotErrors)
		})
	}
}

// TestEveryKey: the case every-key has each reserved key that can stand beside inline scripts and the label of the class.
func TestEveryKey(t *testing.T) {
	cm := readCases(t)["every-key"]
	for _, key := range reserved {
		_, there := cm.Data[key.name]
		apart := slices.Contains([]string{keyStorageClass, keyExpandable, keyListable, keySnapshots, keyAttachments}, key.name)
		if there == apart {
			t.Errorf("every-key/configmap.yaml has the key %s: %t", key.name, there)
		}
	}
}

// TestEmptyValues: no reserved key may be empty, and a required one says what it is for.
func TestEmptyValues(t *testing.T) {
	for _, key := range reserved {
		want := "data[" + key.name + "]: Required value: is empty; give it a value or leave it out"
		if key.required {
			want = "data[" + key.name + "]: Required value: " + key.meaning
		}

		config, errs := Parse(good(map[string]string{key.name: ""}))
		if config != nil || !slices.Contains(texts(errs), want) {
			t.Errorf("%s: got %v, want %s", key.name, texts(errs), want)
		}
	}
}

// readCases reads the ConfigMap of each case.
func readCases(t testing.TB) map[string]corev1.ConfigMap {
	t.Helper()
	files := golden.FS(t, archive)
	names, err := fs.Glob(files, "*/configmap.yaml")
	if err != nil {
		t.Fatal(err)
	}

	cases := map[string]corev1.ConfigMap{}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			t.Fatal(err)
		}

		var cm corev1.ConfigMap
		if err := yaml.UnmarshalStrict(text, &cm); err != nil {
			t.Fatalf("%s: %v", name, err)
		}

		cases[path.Dir(name)] = cm
	}

	return cases
}

// configYAML writes durations as people read them.
func configYAML(t *testing.T, config *Config) string {
	t.Helper()
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}

	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}

	for name, d := range map[string]time.Duration{"Timeout": config.Timeout, "StartTimeout": config.StartTimeout, "FailedPodTTL": config.FailedPodTTL} {
		fields[name] = d.String()
	}

	out, err := yaml.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}

	return string(out)
}

func texts(errs field.ErrorList) []string {
	all := []string{}
	for _, err := range errs {
		all = append(all, err.Error())
	}

	return all
}

// good is the least that is accepted, with the data added.
func good(data map[string]string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{Data: map[string]string{
		"plugin-name": "flex-provisioner.io/dispatcher", "image": "custom/iscsi-provision", "service-account-name": "foo"}}
	cm.Name, cm.Namespace, cm.ResourceVersion = "silver", "flex-provisioners", "7"
	cm.Labels = map[string]string{"storage-class": "silver", "type": "provisioner-config"}
	for key, value := range data {
		cm.Data[key] = value
	}

	return cm
}
