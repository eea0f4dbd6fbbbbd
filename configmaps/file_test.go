package configmaps

import (
	"fmt"
	"strings"
	"testing"
)

// firstDesign is the first design's own example, as it was printed: a space is missing after three colons.
const firstDesign = `kind: ConfigMap
metadata:
  name: custom-isci-provisioner
  namespace: admin
  labels:
    storage-class: silver
    type: provisioner-config
data:
  plugin-name: kubernetes.io/flex-provisioner
  image: custom/iscsi-provision
  service-account-name: foo
  service-token:23092390532lksf90kwelklfw
  use-nfs-server:10.10.2.4
  zone:west
`

func TestFromFile(t *testing.T) {
	const head = "kind: ConfigMap\nmetadata: {name: x, labels: {type: provisioner-config}}\n"
	for _, c := range []struct{ name, text, want string }{
		{"the first design", firstDesign, `x.yaml line 13: is not YAML: could not find expected ':'; line 12: write a space after "service-token:"`},
		{"the second document", "kind: StorageClass\n---\n" + firstDesign, `x.yaml line 15: is not YAML: could not find expected ':'; line 14: write a space after "service-token:"`},
		{"the first line", "data: b: c\n", "x.yaml line 1: is not YAML: mapping values are not allowed in this context"},
		{"a tab", "data:\n\ta: b\n", "x.yaml line 2: is not YAML: found character that cannot start any token; line 2 is indented with a tab: use spaces"},
		{"a key twice", head + "data:\n  a: b\n  a: c\n", `x.yaml line 5: is not YAML: key "a" already set in map`},
		{"a number", head + "data:\n  max-concurrent: 4\n", "x.yaml: data[max-concurrent]: must be text: put it in quotes, or after | on lines of its own"},
		{"no map", head + "data: [a]\n", "x.yaml: data: must be a map"},
		{"an unknown field", head + "dta: {}\n", `x.yaml: ConfigMap x: unknown field "dta"`},
		{"no object", "nothing\n", "x.yaml: holds what is no object of Kubernetes: its kind, names or labels are no text"},
		{"empty", "# nothing\n", "x.yaml: holds no object of Kubernetes: it needs kind: ConfigMap"},
		{"another kind", "kind: StorageClass\n", "x.yaml: holds no provisioner ConfigMap, but StorageClass"},
		{"no label", "kind: ConfigMap\n", "x.yaml: holds no provisioner ConfigMap, but a ConfigMap without the label type: provisioner-config"},
		{"two", head + "---\n" + head, "x.yaml: holds 2 provisioner ConfigMaps, x, x: give a file with one of them"},
		{"control characters", head + "data: {a: \x01}\n", "x.yaml line 1: is not YAML: control characters are not allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cm, err := FromFile("x.yaml", []byte(c.text))
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v, %v\nwant %s", cm, err, c.want)
			}
		})
	}

	for _, text := range []string{
		head + "data: {a: b}\n",
		"# first\n---\n" + head + "data: {a: b}\n",
		"kind: StorageClass\n--- # next\n" + head + "data:\n  a: |-\n    b\n---\n",
		"kind: ConfigMap\nmetadata: {name: flex-pv-policy}\n---\n" + head + "data: {a: b}\n",
		head + "data: {a: b, c: \"d\n%e\"}\n", // no directive
		`{"kind": "ConfigMap", "metadata": {"name": "x", "labels": {"type": "provisioner-config"}}, "data": {"a": "b"}}`,
	} {
		if cm, err := FromFile("x.yaml", []byte(text)); err != nil || cm.Name != "x" || cm.Data["a"] != "b" || cm.Data["c"] != "" && cm.Data["c"] != "d %e" {
			t.Errorf("of\n%s\ncame %v, %v", text, cm, err)
		}
	}
}

// TestFromFileBegins: what may stand before an object's keys changes nothing, and lines are counted all the same.
func TestFromFileBegins(t *testing.T) {
	const object = "kind: ConfigMap\nmetadata: {name: a, labels: {type: provisioner-config}}\ndata: {a: %s}\n"
	for _, begins := range []string{"", "\ufeff", "%YAML 1.2\n---\n", "\ufeff%YAML 1.2\n---\n", "# a\n%YAML 1.2\n--- # b\n", "---\n", "\n# a\n\n%YAML 1.2\n\n---\n", "immutable: true\n", "'apiVersion': v1\n"} {
		cm, err := FromFile("x", []byte(begins+strings.ReplaceAll(object, "%s", "b")))
		if err != nil || cm.Name != "a" || cm.Data["a"] != "b" {
			t.Errorf("%q: %v, %v", begins, cm, err)
		}

		_, err = FromFile("x", []byte(begins+strings.ReplaceAll(object, "%s", "[")))
		if want := fmt.Sprintf("x line %d: ", strings.Count(begins, "\n")+2); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", begins, err, want)
		}
	}
}

func TestIsManifest(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       bool
	}{
		{"x.yaml", "anything", true},
		{"x.YML", "", true},
		{"x.yaml", "#!/bin/sh\n", false},
		{"x", firstDesign, true},
		{"x", "# a class\n---\n\napiVersion: v1\n", true},
		{"x", `"kind": "ConfigMap"`, true},
		{"x", `{"kind": "ConfigMap"}`, true},
		{"x", "{ echo kind: ; }", false},
		{"x", "\ufeffapiVersion: v1\n", true},
		{"x", "%YAML 1.2\n---\napiVersion: v1\n", true},
		{"x", "---\n'apiVersion': v1\n", true},
		{"x", "immutable: true\nkind: ConfigMap\n", true},
		{"x", "binaryData: {}\n", true},
		{"x", "%\nset -eu\n", false},
		{"x.sh", "set -eu\nkubectl apply -f - <<END\nkind: ConfigMap\nEND\n", false},
		{"x.sh", "# kind: ConfigMap\nset -eu\n", false},
		{"x", "kind:ConfigMap", false},
		{"x", "\x7fELF", false},
		{"x", strings.Repeat("#\n", 1<<16), false},
	} {
		if got := IsManifest(c.name, []byte(c.text)); got != c.want {
			t.Errorf("IsManifest(%q, %.40q) = %t, want %t", c.name, c.text, got, c.want)
		}
	}
}
