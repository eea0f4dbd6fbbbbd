package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestExamplesSayWhatTheyMake: the first line of each example's README names what its class makes, by the kind of volume that the class
// is allowed.
func TestExamplesSayWhatTheyMake(t *testing.T) {
	words := map[string]string{"nfs": "a directory of an NFS export", "iscsi": "an iSCSI volume", "local": "a directory of the consumer's node",
		"local of /dev/disk/by-partuuid": "a partition of a disk"}
	types, devices := regexp.MustCompile(`(?m)\.volumeTypes: *(\S+)`), regexp.MustCompile(`(?m)\.pathPrefixes: *(/dev/\S+)`)
	readmes, err := filepath.Glob(filepath.Join(root, "examples/*/README.md"))
	if err != nil || len(readmes) < 15 {
		t.Fatalf("%v, %v", readmes, err)
	}
	classes := 0
	for _, name := range readmes {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(text), "\n")
		if _, what, found := strings.Cut(first, ": "); !strings.HasPrefix(first, "# ") || !found || what == "" {
			t.Errorf("%s begins with %q, want # WHICH: what it makes", name, first)
		}
		manifests, err := filepath.Glob(filepath.Join(filepath.Dir(name), "class/*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, manifest := range manifests {
			text, err := os.ReadFile(manifest)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range types.FindAllStringSubmatch(string(text), -1) {
				classes++
				made := match[1]
				if device := devices.FindStringSubmatch(string(text)); device != nil {
					made += " of " + device[1]
				}
				switch word := words[made]; {
				case word == "":
					t.Errorf("%s has the volume types %q, which this test does not know", manifest, made)
				case !strings.Contains(first, word):
					t.Errorf("%s begins with %q, which does not say that it makes %s", name, first, word)
				}
			}
		}
	}
	if classes < 13 {
		t.Errorf("volume types were found for %d classes only", classes)
	}
}
