//go:build conformance

package conformance_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
)

// TestScripts: every script that the documents and the examples show keeps the whole contract, advice included, as it is.
func TestScripts(t *testing.T) {
	for _, s := range scripts(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "script")
			if s.cm.Name != "" {
				file = filepath.Join(t.TempDir(), "configmap.yaml")
				text, err := yaml.Marshal(s.cm)
				if err != nil {
					t.Fatal(err)
				}
				s.text = string(text)
			}
			if err := os.WriteFile(file, []byte(s.text), 0o600); err != nil {
				t.Fatal(err)
			}
			o := options(t, file)
			if s.cm.Name != "" {
				o.Properties, o.Storage = nil, nil // they are in the ConfigMap
			} else {
				o.Properties = map[string]string{"server": "10.0.0.1", "export": "/srv/nfs"}
			}
			wantPass(t, run(t, o))
		})
	}
}

// shown is a class with inline scripts, or a program.
type shown struct {
	name string
	cm   corev1.ConfigMap
	text string
}

var (
	fence = regexp.MustCompile("(?ms)^```(yaml|sh)\n(.*?)^```$")
	// program finds a block of shell that is a provisioner, and not commands to type.
	// marks are all that some scripts differ in.
	marks   = regexp.MustCompile(`--mark \S+`)
	program = regexp.MustCompile(`(?m)^case "?\$FLEX_OPERATION"? in$`)
)

func scripts(t *testing.T) (all []shown) {
	t.Helper()
	// The test of kubectl flex new has this one.
	seen := map[string]bool{strings.ReplaceAll(read(t, "../../../cmd/kubectl-flex/templates/shell/provisioner.sh"), "{{.Name}}", "disks"): true}
	add := func(s shown) {
		key := marks.ReplaceAllString(s.cm.Data["provision"]+s.cm.Data["delete"]+s.cm.Data["expand"]+s.text, "--mark")
		if !seen[key] && !seen[s.text] {
			all = append(all, s)
		}
		seen[key] = true
	}
	classes := glob(t, "../../../examples/*/class/*.yaml")
	for _, file := range classes {
		if text := read(t, file); strings.Contains(text, "\n  provision: |") {
			add(shown{name: strings.TrimPrefix(file, "../"), cm: onThisMachine(t, class(t, file, text))})
		}
	}
	inline := class(t, "inline", read(t, "../../../examples/inline/class/configmap.yaml"))
	documents := slices.Concat(glob(t, "../../../*.md"), glob(t, "../../../docs/*.md"), glob(t, "../../../examples/*.md"), glob(t, "../../../examples/*/README.md"))
	for _, file := range documents {
		for i, block := range fence.FindAllStringSubmatch(read(t, file), -1) {
			name, text := fmt.Sprintf("%s block %d", strings.TrimPrefix(file, "../"), i+1), block[2]
			switch {
			case block[1] == "sh" && program.MatchString(text):
				add(shown{name: name, text: text})
			case block[1] == "yaml" && strings.HasPrefix(text, "apiVersion:") && strings.Contains(text, "\n  provision: |"):
				add(shown{name: name, cm: class(t, name, text)})
			case block[1] == "yaml" && regexp.MustCompile(`(?m)^  (provision|expand|delete): \|`).MatchString(text):
				add(shown{name: name, cm: with(t, inline, text)})
			}
		}
	}
	help, err := exec.CommandContext(t.Context(), options(t, "").Flexctl, "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(help), "Examples:\n")
	example, _, _ = strings.Cut(example, "\n\n")
	add(shown{name: "flexctl --help", text: example})
	if len(all) < 7 {
		t.Fatalf("only %d scripts were found", len(all))
	}
	return all
}

func class(t *testing.T, name, text string) corev1.ConfigMap {
	t.Helper()
	cm, err := configmaps.FromFile(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return *cm
}

// with is a class with the scripts of a fragment in place of its own.
func with(t *testing.T, cm corev1.ConfigMap, fragment string) corev1.ConfigMap {
	t.Helper()
	var part struct{ Data map[string]string }
	if err := yaml.UnmarshalStrict([]byte("data:\n"+fragment), &part); err != nil {
		t.Fatal(err)
	}
	cm.Data = maps.Clone(cm.Data)
	maps.Copy(cm.Data, part.Data)
	return onThisMachine(t, cm)
}

// site are functions in place of what scripts expect of their site. A logical volume's size is that of a file; as the real lvextend,
// this one refuses the size that there is.
const site = `
lvs() { stat -c %s "/export/$FLEX_PV_NAME/size"; }
lvextend() { [ "$(lvs)" != "${2%b}" ] || return 5; truncate -s "${2%b}" "/export/$FLEX_PV_NAME/size"; }
timeout() { shift; "$@"; }
wget() { [ -s /etc/flex-provisioner/request.json ]; }
mkdir -p /tmp/golden/common
: > /tmp/golden/page
tar -czf /tmp/golden/site.tar.gz -C /tmp/golden page
`

// onThisMachine gives a class what its scripts expect of its site, where that is more than an export.
func onThisMachine(t *testing.T, cm corev1.ConfigMap) corev1.ConfigMap {
	t.Helper()
	cm.Data = maps.Clone(cm.Data)
	switch {
	case strings.Contains(cm.Data["expand"], "lvextend"):
		cm.Data["provision"] = strings.Replace(cm.Data["provision"], "chmod", `: >> "/export/$FLEX_PV_NAME/size"`+"\nchmod", 1)
		cm.Data["expand"] = site + cm.Data["expand"]
	case strings.Contains(cm.Data["provision"], "/golden/"):
		cm.Data["provision"] = site + strings.ReplaceAll(cm.Data["provision"], "/golden/", "/tmp/golden/")
		claim, _, _ := strings.Cut(cm.Data["mount-claims"], ",")
		cm.Data["mount-claims"] = claim
	}
	return cm
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %v", pattern, files, err)
	}
	return files
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
