package docs

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk"
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
		if strings.HasPrefix(path, "/") && !slices.ContainsFunc(slices.Collect(maps.Values(constants)), isParent) {
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

// TestNames: the labels, annotations, parameters and finalizers of the project.
func TestNames(t *testing.T) {
	const name = "docs/operations.md"
	var code []string
	for _, value := range contractConstants(t) {
		if strings.HasPrefix(value, contract.Prefix) && value != contract.Prefix && value != contract.ProvisionerName && !slices.Contains(code, value) {
			code = append(code, value)
		}
	}
	same(t, name+", names", column(table(t, section(t, name, "## Labels, annotations, parameters and finalizers")), 0), code)
}

// TestConfigMapOfReadme: the README's ConfigMap is one that the dispatcher takes.
func TestConfigMapOfReadme(t *testing.T) {
	text := fenced(t, section(t, "README.md", "## Write a provisioner"), "yaml")
	var cm corev1.ConfigMap
	if err := yaml.UnmarshalStrict([]byte(text), &cm); err != nil {
		t.Fatal(err)
	}
	if _, faults := configmaps.Parse(&cm); len(faults) > 0 {
		t.Error(faults.ToAggregate())
	}
}

// TestScriptOfAuthors: the guide's first example is the one that the tests run.
func TestScriptOfAuthors(t *testing.T) {
	const example = "examples/inline/class/configmap.yaml"
	if text := fenced(t, section(t, author, "## The smallest one"), "yaml"); !strings.Contains(read(t, example), text) {
		t.Errorf("%s does not hold the example of %s:\n%s", example, author, text)
	}
}

// TestWholeExample: the guide has the very script that kubectl flex new writes. -update puts it there.
func TestWholeExample(t *testing.T) {
	script := strings.ReplaceAll(read(t, "cmd/kubectl-flex/templates/shell/provisioner.sh"), "{{.Name}}", "disks")
	embedded(t, author, "whole example", "```sh\n"+script+"```\n")
}

// TestExitCodesOfGo: the page for Go authors has every exit code with a name.
func TestExitCodesOfGo(t *testing.T) {
	text := section(t, "docs/authors-go.md", "## What the SDK does for you")
	for err, want := range map[error]string{
		sdk.Refuse(errOf): "sdk.Refuse", sdk.NotHere(errOf): "sdk.NotHere", sdk.TryAgain(errOf): "sdk.TryAgain", errOf: "return nil, err",
	} {
		row := regexp.MustCompile(regexp.QuoteMeta(want) + `.*exit code (\d+)`).FindStringSubmatch(text)
		if row == nil || row[1] != strconv.Itoa(sdk.ExitCode(err)) {
			t.Errorf("docs/authors-go.md says of %s %v, want exit code %d", want, row, sdk.ExitCode(err))
		}
	}
}

var errOf = errors.New("an error")

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
