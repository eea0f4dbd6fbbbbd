package docs

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// strangers are images of others that an example runs unchanged, because that is what it shows.
var strangers = map[string]string{
	"examples/use-case-6-bash/class/configmap.yaml": "docker.io/library/bash:5",
}

var (
	imageField = regexp.MustCompile(`(?m)^\s*(?:- )?(?:image|name|names): *\[?"?([a-z0-9.-]+\.[a-z0-9-]+(?::[0-9]+)?/[a-z0-9][^\s"\],]*)`)
	reserved   = regexp.MustCompile(`^[^/]*\.(invalid|example)(:[0-9]+)?/`)
)

// TestNoForeignRegistry: what somebody may apply, or copy from the documentation, pulls images only from a registry that he
// named. The top-level domains of RFC 2606 belong to nobody, and never will.
func TestNoForeignRegistry(t *testing.T) {
	list := exec.Command("git", "ls-files", "--", "*.yaml", "*.md", ":!test", ":!tools", ":!*/testdata/*")
	list.Dir = root
	files, err := list.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	images := 0
	for _, file := range strings.Fields(string(files)) {
		for _, match := range imageField.FindAllStringSubmatch(read(t, filepath.FromSlash(file)), -1) {
			if strings.HasPrefix(match[1], "flex-provisioner.io/") {
				continue // the provisioner's name
			}
			images++
			if !reserved.MatchString(match[1]) && strangers[file] != match[1] {
				t.Errorf("%s: %s is of a registry that a stranger may own: name it registry.invalid/..., or registry.example/... in prose", file, match[1])
			}
		}
	}
	if images < 20 {
		t.Errorf("%d images were found: the test looks at the wrong lines", images)
	}
}
