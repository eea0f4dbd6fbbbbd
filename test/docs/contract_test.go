package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

const author = "docs/writing-a-provisioner.md"

func TestEnvironment(t *testing.T) {
	pod, err := podspec.Build(podspec.Attempt{Config: &configmaps.Config{}, Request: contract.Request{Operation: contract.Provision}}, podspec.Cluster{})
	if err != nil {
		t.Fatal(err)
	}
	var code []string
	for _, v := range pod.Spec.Containers[0].Env {
		code = append(code, v.Name)
	}
	same(t, author+", environment", column(table(t, section(t, author, "## What it is given: environment")), 0), code)
}

func TestFiles(t *testing.T) {
	var code []string
	constants := contractConstants(t)
	for _, path := range constants {
		isParent := func(other string) bool { return strings.HasPrefix(other, path+"/") }
		if strings.HasPrefix(path, "/") && !slices.ContainsFunc(values(constants), isParent) {
			code = append(code, path)
		}
	}
	same(t, author+", files", column(table(t, section(t, author, "## What it is given: files")), 0), code)
}

func TestExitCodes(t *testing.T) {
	var code, documented []string
	for name, value := range contractConstants(t) {
		if strings.HasPrefix(name, "Exit") {
			code = append(code, value)
		}
	}
	for _, row := range table(t, section(t, author, "## What it answers: the exit code")) {
		if row[0] != "any other" {
			documented = append(documented, row[0])
		}
	}
	same(t, author+", exit codes", documented, code)
}

func TestMessageLimit(t *testing.T) {
	if phrase := fmt.Sprintf("%d bytes", contract.MaxMessage); !strings.Contains(read(t, author), phrase) {
		t.Errorf("%s does not say that %s of a message are shown", author, phrase)
	}
}

// TestNames: the labels, annotations and finalizers of the project.
func TestNames(t *testing.T) {
	const name = "docs/operations.md"
	var code []string
	for _, value := range contractConstants(t) {
		if strings.HasPrefix(value, contract.Prefix) && value != contract.Prefix && value != contract.ProvisionerName && !slices.Contains(code, value) {
			code = append(code, value)
		}
	}
	same(t, name+", names", column(table(t, section(t, name, "## Labels, annotations and finalizers")), 0), code)
}

// TestConfigMapOfReadme: the README's ConfigMap is one that the dispatcher takes.
func TestConfigMapOfReadme(t *testing.T) {
	text := fenced(t, section(t, "README.md", "## Write a provisioner"), "yaml")
	var cm corev1.ConfigMap
	if err := yaml.UnmarshalStrict([]byte(text), &cm); err != nil {
		t.Fatal(err)
	}
	if _, faults := configmaps.Parse(&cm, configmaps.Options{}); len(faults) > 0 {
		t.Error(faults.ToAggregate())
	}
}

// TestScriptOfAuthors: the guide's first example is the one that the tests run.
func TestScriptOfAuthors(t *testing.T) {
	example, err := os.ReadFile(filepath.Join(root, "examples/inline/class/configmap.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if text := fenced(t, section(t, author, "## The smallest one"), "yaml"); !strings.Contains(string(example), text) {
		t.Errorf("examples/inline/class/configmap.yaml does not hold the example of %s:\n%s", author, text)
	}
}

// fenced is the first block of a language in a text.
func fenced(t *testing.T, text, language string) string {
	t.Helper()
	_, text, found := strings.Cut(text, "```"+language+"\n")
	if !found {
		t.Fatalf("no block of %s in:\n%s", language, text)
	}
	text, _, _ = strings.Cut(text, "```")
	return text
}

func values(m map[string]string) []string {
	var list []string
	for _, value := range m {
		list = append(list, value)
	}
	return list
}
