package configmaps

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestCheckName(t *testing.T) {
	const noName = ": has no environment name: it must begin with a letter and go on with letters, digits, '-', '_' and '.'"
	refusedText := func(name, reason, instead string) string {
		return "p: Forbidden: would set the environment variable " + name + ", which is refused: " + reason + "; choose another name, for example \"" + instead + "\""
	}
	for key, want := range map[string]string{
		"zone": "", "use-nfs-server": "", "a.b_c-D9": "", "environment": "", "path-on-node": "", "flexible": "", "ld": "", "home-dir": "",
		"":                 `p: Invalid value: ""` + noName,
		"9lives":           `p: Invalid value: "9lives"` + noName,
		"_hidden":          `p: Invalid value: "_hidden"` + noName,
		".hidden":          `p: Invalid value: ".hidden"` + noName,
		"a b":              `p: Invalid value: "a b"` + noName,
		"a=b":              `p: Invalid value: "a=b"` + noName,
		"a\nb":             `p: Invalid value: "a\nb"` + noName,
		"BASH_FUNC_ls%%":   `p: Invalid value: "BASH_FUNC_ls%%"` + noName,
		"ıfs":              `p: Invalid value: "ıfs"` + noName, // upper case of ı is the ASCII letter I
		"pſ4":              `p: Invalid value: "pſ4"` + noName, // upper case of ſ is the ASCII letter S
		"PATH":             refusedText("PATH", "where programs are found", "backend-PATH"),
		"path":             refusedText("PATH", "where programs are found", "backend-path"),
		"ld.preload":       refusedText("LD_PRELOAD", "loads code into every program", "backend-ld.preload"),
		"bash-env":         refusedText("BASH_ENV", "names files that bash executes, and bash's options and state", "backend-bash-env"),
		"flex-pv-name":     refusedText("FLEX_PV_NAME", "the request's own names", "backend-flex-pv-name"),
		"kubernetes.port":  refusedText("KUBERNETES_PORT", "where Kubernetes clients find the API server", "backend-kubernetes.port"),
		"seconds":          refusedText("SECONDS", "set by the shell itself", "backend-seconds"),
		"pythonpath":       refusedText("PYTHONPATH", "changes what Python loads and how it runs", "backend-pythonpath"),
		"glibc-tunables":   refusedText("GLIBC_TUNABLES", "changes how the C library and its allocator work", "backend-glibc-tunables"),
		"javaToolOptions":  "",
		"java-tool-option": "",
	} {
		if got := strings.Join(texts(CheckName(key, field.NewPath("p"))), "\n"); got != want {
			t.Errorf("CheckName(%q)\nwant %s\ngot  %s", key, want, got)
		}
	}
}

// TestRefusedTable keeps the table itself sane: patterns are legal names, none covers another.
func TestRefusedTable(t *testing.T) {
	for i, r := range refused {
		name := strings.TrimSuffix(r.pattern, "*")
		if !keyPattern.MatchString(name) || strings.ToUpper(name) != name || r.reason == "" {
			t.Errorf("row %q %q is not a name with a reason", r.pattern, r.reason)
		}

		if refusedReason(name) != r.reason {
			t.Errorf("%s is refused as %q, want %q", name, refusedReason(name), r.reason)
		}

		for _, other := range refused[i+1:] {
			if prefix, open := strings.CutSuffix(r.pattern, "*"); other.pattern == r.pattern || open && strings.HasPrefix(other.pattern, prefix) {
				t.Errorf("%s covers %s", r.pattern, other.pattern)
			}
		}
	}

	for _, key := range []string{"BASHOPTS", "BASH_ENV", "ENV", "LD_LIBRARY_PATH", "PERL5OPT", "PYTHONSTARTUP", "KUBERNETES_SERVICE_HOST", "FLEX_TOKEN_FILE"} {
		if refusedReason(key) == "" {
			t.Errorf("%s is not refused", key)
		}
	}
}

func TestCheckIdentity(t *testing.T) {
	for name, c := range map[string]struct {
		properties, parameters map[string]string
		want                   []string
	}{
		"apart":       {map[string]string{"zone": "west"}, map[string]string{"type": "fast", "image": "base"}, []string{}},
		"no one":      {nil, nil, []string{}},
		"a clash":     {map[string]string{"use-nfs-server": "a"}, map[string]string{"use.nfs_SERVER": "b"}, []string{`parameters[use.nfs_SERVER]: Duplicate value: "USE_NFS_SERVER": data[use-nfs-server] has the same environment name; rename or remove one of them`}},
		"two clashes": {map[string]string{"a": "1", "b": "2"}, map[string]string{"A": "1", "B": "2"}, []string{`parameters[A]: Duplicate value: "A": data[a] has the same environment name; rename or remove one of them`, `parameters[B]: Duplicate value: "B": data[b] has the same environment name; rename or remove one of them`}},
		"parameters among themselves": {nil, map[string]string{"a-b": "", "a_b": ""},
			[]string{`parameters[a_b]: Duplicate value: "A_B": parameters[a-b] has the same environment name; rename or remove one of them`}},
		"names with a prefix": {nil, map[string]string{"csi.storage.k8s.io/fstype": "ext4", "csi.storage.k8s.io/provisioner-secret-name": "x", "example.com/fstype": "xfs"}, []string{}},
		"no name after a prefix": {nil, map[string]string{"a/b/c": ""},
			[]string{`parameters[a/b/c]: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`}},
		"a refused name": {nil, map[string]string{"ifs": "x"},
			[]string{`parameters[ifs]: Forbidden: would set the environment variable IFS, which is refused: how shells split words; choose another name, for example "backend-ifs"`}},
		"a bad value is not shown": {nil, map[string]string{"password": "geheim\x00"},
			[]string{`parameters[password]: Invalid value: byte 6 is the control character U+0000; only newline and tab are allowed`}},
		"too much together": {map[string]string{"a": strings.Repeat("x", maxProperties/2), "b": strings.Repeat("x", maxProperties/2)}, nil,
			[]string{fmt.Sprintf("data: Too long: the names and values of all properties or parameters have %d bytes, at most %d are allowed; put large files into the image or a Secret (key secrets)", maxProperties+2, maxProperties)}},
		"a clash after one with a prefix": {nil, map[string]string{"a.example/b": "", "b-c": "", "b_c": ""},
			[]string{`parameters[b_c]: Duplicate value: "B_C": parameters[b-c] has the same environment name; rename or remove one of them`}},
		"too much": {nil, map[string]string{"a": strings.Repeat("x", maxProperties)},
			[]string{`parameters: Too long: the names and values of all properties or parameters have 16385 bytes, at most 16384 are allowed; put large files into the image or a Secret (key secrets)`}},
	} {
		if got := texts(CheckIdentity(c.properties, c.parameters)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s\nwant %q\ngot  %q", name, c.want, got)
		}
	}
}

func TestCheckPluginName(t *testing.T) {
	const reason = ": kube-controller-manager refuses unknown provisioners under kubernetes.io/, so a claim would never reach the dispatcher; " +
		"use flex-provisioner.io/dispatcher, here and as the StorageClass's provisioner"
	for name, want := range map[string]string{
		"flex-provisioner.io/dispatcher": "", "example.com/Flex_2": "", "flex": "", "kubernetes.iox/flex": "", "storage.kubernetes.io/flex": "", "Example.com/x": "",
		"":                               "f: Required value: the StorageClass's provisioner, usually flex-provisioner.io/dispatcher",
		"kubernetes.io/flex-provisioner": `f: Invalid value: "kubernetes.io/flex-provisioner"` + reason,
		"kubernetes.io/":                 `f: Invalid value: "kubernetes.io/"` + reason,
		"example.com/a b":                `f: Invalid value: "example.com/a b": must be a name that a StorageClass can have as its provisioner, such as flex-provisioner.io/dispatcher`,
	} {
		if got := strings.Join(texts(CheckPluginName(name, field.NewPath("f"))), "\n"); got != want {
			t.Errorf("CheckPluginName(%q)\nwant %s\ngot  %s", name, want, got)
		}
	}
}
