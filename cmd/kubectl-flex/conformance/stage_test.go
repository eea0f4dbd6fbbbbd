package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
)

// TestFlexctlIsForScripts: only subjects that find flexctl on their PATH need it on this machine.
func TestFlexctlIsForScripts(t *testing.T) {
	const inline = "exit 0"
	for name, c := range map[string]struct {
		subject subject
		needs   bool
	}{
		"script":                       {subject{root: "/"}, true},
		"image":                        {subject{root: "/tmp/x"}, false},
		"ConfigMap in its own image":   {subject{root: "/tmp/x", config: &configmaps.Config{Image: "x"}}, false},
		"inline scripts in an image":   {subject{root: "/tmp/x", config: &configmaps.Config{Provision: inline}}, true},
		"inline scripts here":          {subject{root: "/", config: &configmaps.Config{Provision: inline}}, true},
		"inline, flexctl in the image": {subject{root: "/tmp/x", config: &configmaps.Config{Provision: inline, FlexctlInImage: true}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if c.subject.config == nil {
				c.subject.config = &configmaps.Config{}
			}
			s, err := newStage(Options{}, &c.subject, t.TempDir())
			if err == nil {
				s.listener.Close()
			}
			const want = "find flexctl: it is neither beside this program nor on the PATH"
			if c.needs != (err != nil) || c.needs && !strings.HasPrefix(err.Error(), want) {
				t.Errorf("without flexctl: %v, needs it: %t", err, c.needs)
			}
		})
	}
}

// TestFlexctlIsCopied: what a script finds is the program, with all its bytes.
func TestFlexctlIsCopied(t *testing.T) {
	program, bin := filepath.Join(t.TempDir(), "program"), t.TempDir()
	if err := os.WriteFile(program, []byte("flexctl's"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := putFlexctl(program, bin); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(bin, "flexctl")
	data, err := os.ReadFile(copied)
	if err != nil || string(data) != "flexctl's" {
		t.Errorf("%q, %v", data, err)
	}
	if info, err := os.Stat(copied); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
