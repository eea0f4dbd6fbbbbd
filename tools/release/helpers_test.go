package release

import (
	"iter"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the top of the repository, chart the chart in it.
const (
	root  = "../.."
	chart = root + "/deploy/helm"
)

// helm runs helm, and returns what it printed, complaints included.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"tool", "helm"}, args...)...).CombinedOutput()
	return string(out), err
}

// rendered is what the chart makes of values, in a namespace that is not its own.
func rendered(t *testing.T, values string, options ...string) string {
	t.Helper()
	args := []string{"tool", "helm", "template", "flex-provisioner", chart, "--kube-version=1.37.0", "--namespace=kube-system", "--values=" + file(t, images), "--values=" + file(t, values)}
	return command(t, ".", "go", append(args, options...)...)
}

func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, complaint.String())
	}
	return string(out)
}

// documents are those of a text that are not empty.
func documents(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for document := range strings.SplitSeq("\n"+text, "\n---\n") {
			if strings.TrimSpace(document) != "" && !yield(document) {
				return
			}
		}
	}
}

// joined are objects as one text, in the order of their names.
func joined(objects map[string]string) string {
	var texts []string
	for _, id := range slices.Sorted(maps.Keys(objects)) {
		texts = append(texts, objects[id])
	}
	return strings.Join(texts, "---\n")
}

func absolute(t *testing.T, name string) string {
	t.Helper()
	full, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return full
}

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "values.yaml")
	write(t, name, text)
	return name
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}
