package docs

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

const author = "docs/writing-a-provisioner.md"

func TestEnvironment(t *testing.T) {
	request := contract.Request{Operation: contract.Attach, Attachment: &contract.AttachmentRequest{}}
	pod, err := podspec.Build(podspec.Attempt{Config: &configmaps.Config{}, Request: request}, podspec.Cluster{})
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

// TestWholeExample: the guide has the very script that kubectl flex new writes. -update puts it there.
func TestWholeExample(t *testing.T) {
	script := strings.ReplaceAll(read(t, "cmd/kubectl-flex/templates/shell/provisioner.sh"), "{{.Name}}", "disks")
	embedded(t, author, "whole example", "```sh\n"+script+"```\n")
}
