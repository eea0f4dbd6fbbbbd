package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var digest = "sha256:" + strings.Repeat("1", 64)

// trial is a release of the checkout with programs and images that are none.
func trial(t *testing.T) *release {
	t.Helper()
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"flex-node", "flex-provisioner", "flexctl"} {
		put("digests/"+name+".digest", digest+"\n")
	}
	put("programs/linux_amd64/kubectl-flex", "linux")
	put("programs/linux_amd64/flexctl", "for scripts")
	put("source/bin/licences/flexctl/y/LICENSE", "BSD")
	put("programs/windows_amd64/kubectl-flex.exe", "windows")
	put("source/LICENSE", "Apache")
	put("source/CHANGELOG.md", "# Changelog\n\n## Unreleased\n\nnew\n\n## [1.2.3] - 2026-11-25\n\nold\n\n### Added\n\n* it\n\n## 1.2.2\n\nolder\n")
	put("source/bin/licences/kubectl-flex/x/LICENSE", "MIT")
	put("out/install.yaml", "kind: List\n")
	deploy, err := filepath.Abs("../../deploy")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(deploy, filepath.Join(dir, "source/deploy")); err != nil {
		t.Fatal(err)
	}
	return &release{version: "v1.2.3", registry: "registry.example/flex", downloads: "https://downloads.example/", commit: "c0ffee", source: dir + "/source",
		digests: dir + "/digests", programs: dir + "/programs", out: dir + "/out"}
}

func text(t *testing.T, r *release, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.out, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestRepeatable: two releases of the same are the same to the byte, and the checksums are right.
func TestRepeatable(t *testing.T) {
	first, second := trial(t), trial(t)
	if err := errors.Join(first.write(), second.write()); err != nil {
		t.Fatal(err)
	}
	names, err := first.files()
	want := []string{"NOTES.md", "flex-provisioner-1.2.3.tgz", "flex.yaml", "install.yaml", "kubectl-flex_v1.2.3_linux_amd64.tar.gz",
		"kubectl-flex_v1.2.3_windows_amd64.zip", "provenance.intoto.json", "provenance.slsa.json"}
	if err != nil || !slices.Equal(names, want) {
		t.Fatalf("got %v, %v; want %v", names, err, want)
	}
	for _, name := range append(names, sums) {
		if text(t, first, name) != text(t, second, name) {
			t.Errorf("%s is not the same twice", name)
		}
	}
	check := exec.CommandContext(t.Context(), "sha256sum", "--strict", "--check", sums)
	check.Dir = first.out
	if out, err := check.CombinedOutput(); err != nil || strings.Count(string(out), ": OK") != len(want) {
		t.Errorf("%v: %s", err, out)
	}
}

// TestChart: the chart of a release has the version and the images, and none that is not in its registry.
func TestChart(t *testing.T) {
	r := trial(t)
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	files := packed(t, r)
	var chart struct{ Version, AppVersion string }
	var values struct{ Images map[string]string }
	if err := errors.Join(yaml.Unmarshal([]byte(files["flex-provisioner/Chart.yaml"]), &chart), yaml.Unmarshal([]byte(files["flex-provisioner/values.yaml"]), &values)); err != nil {
		t.Fatal(err)
	}
	if chart.Version != "1.2.3" || chart.AppVersion != "v1.2.3" {
		t.Errorf("the chart is %+v", chart)
	}
	want := map[string]string{"dispatcher": "registry.example/flex/flex-provisioner@" + digest, "flexctl": "registry.example/flex/flexctl@" + digest,
		"node": "registry.example/flex/flex-node@" + digest}
	if !maps.Equal(values.Images, want) {
		t.Errorf("the chart has images %v, want %v", values.Images, want)
	}
	if !strings.Contains(files["flex-provisioner/manifests/base/deployment.yaml"], "\n    app.kubernetes.io/version: v1.2.3\n") {
		t.Error("the chart's Deployment does not say its version")
	}
	if len(files) < 20 {
		t.Errorf("the chart has %d files only", len(files))
	}
	for name, text := range files {
		if strings.Contains(text, "registry.invalid/") || strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "kustomization.yaml") {
			t.Errorf("the chart has %s, which is none of its manifests or names another registry", name)
		}
	}
}

// TestPluginArchive: the plugin of a release brings what it runs, where it runs it.
func TestPluginArchive(t *testing.T) {
	r := trial(t)
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"LICENSE": "Apache", "flexctl": "for scripts", "kubectl-flex": "linux",
		"licenses/x/LICENSE": "MIT", "licenses/y/LICENSE": "BSD"}
	if got := unpacked(t, r, "kubectl-flex_v1.2.3_linux_amd64.tar.gz"); !maps.Equal(got, want) {
		t.Errorf("the archive has %v, want %v", got, want)
	}
}

// packed are the files of the release's chart.
func packed(t *testing.T, r *release) map[string]string {
	t.Helper()
	return unpacked(t, r, "flex-provisioner-1.2.3.tgz")
}

// unpacked are the files of an archive of the release.
func unpacked(t *testing.T, r *release, name string) map[string]string {
	t.Helper()
	unzipped, err := gzip.NewReader(strings.NewReader(text(t, r, name)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		var data bytes.Buffer
		if err == nil {
			_, err = io.Copy(&data, archive)
		}
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = data.String()
	}
	return files
}

// TestChartOfTheCommit: what git does not know is not in the chart, through links or not.
func TestChartOfTheCommit(t *testing.T) {
	r := trial(t)
	deploy := filepath.Join(r.source, "deploy")
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = r.source
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
	}
	if err := os.Remove(deploy); err != nil {
		t.Fatal(err)
	}
	checkout, err := filepath.Abs("../../deploy")
	if err != nil {
		t.Fatal(err)
	}
	run("cp", "-a", checkout, deploy)
	run("git", "init", "--quiet")
	run("git", "add", "deploy")
	for _, name := range []string{"helm/templates/scratch.yaml", "policies/scratch.yaml"} {
		if err := os.WriteFile(filepath.Join(deploy, name), []byte("a: b\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	files := packed(t, r)
	if files["flex-provisioner/manifests/policies/pods.yaml"] == "" {
		t.Error("the chart lacks manifests/policies/pods.yaml")
	}
	for name := range files {
		if strings.Contains(name, "scratch") {
			t.Errorf("the chart has %s, which is not committed", name)
		}
	}
}

// TestKrewAndProvenance: both name the archives by their checksums.
func TestKrewAndProvenance(t *testing.T) {
	r := trial(t)
	r.dirty = true
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	var plugin struct {
		Spec struct {
			Version   string
			Platforms []struct{ URI, SHA256, Bin string }
		}
	}
	if err := yaml.Unmarshal([]byte(text(t, r, "flex.yaml")), &plugin); err != nil {
		t.Fatal(err)
	}
	var statement struct{ Subject []subject }
	if err := json.Unmarshal([]byte(text(t, r, "provenance.intoto.json")), &statement); err != nil {
		t.Fatal(err)
	}
	digests := map[string]string{}
	for _, s := range statement.Subject {
		digests[s.Name] = s.Digest["sha256"]
	}
	if len(plugin.Spec.Platforms) != 2 || plugin.Spec.Platforms[1].Bin != "kubectl-flex.exe" || plugin.Spec.Version != "v1.2.3" {
		t.Errorf("the plugin is %+v", plugin)
	}
	for _, p := range plugin.Spec.Platforms {
		name, found := strings.CutPrefix(p.URI, "https://downloads.example/")
		sum, err := r.sum(name)
		if !found || err != nil || p.SHA256 != sum || digests[name] != sum {
			t.Errorf("%s has %s in the manifest, %s in the provenance, and is %s, %v", p.URI, p.SHA256, digests[name], sum, err)
		}
	}
	if got := digests["registry.example/flex/flexctl"]; "sha256:"+got != digest {
		t.Errorf("flexctl's digest in the provenance is %s", got)
	}
	if !strings.Contains(text(t, r, "provenance.slsa.json"), `"dirty": true`) {
		t.Error("the provenance does not say that the checkout was changed")
	}
}

func TestNotes(t *testing.T) {
	for version, want := range map[string]string{"1.2.3": "old\n\n### Added\n\n* it", "1.2.2": "older", "Unreleased": "new"} {
		section, found := sectionOf("# Changelog\n\n## Unreleased\n\nnew\n\n## [1.2.3] - 2026-11-25\n\nold\n\n### Added\n\n* it\n\n## 1.2.2\n\nolder\n", version)
		if !found || strings.TrimSpace(section) != want {
			t.Errorf("%s: %q, want %q", version, section, want)
		}
	}
	if _, found := sectionOf("## 1.2.30\n", "1.2.3"); found {
		t.Error("1.2.30 was taken for 1.2.3")
	}
}

func TestRefuses(t *testing.T) {
	for want, change := range map[string]func(r *release){
		`-version "1.2.3": give a tag such as v0.1.0 or v0.1.0-rc.1`: func(r *release) { r.version = "1.2.3" },
		"has no IMAGE.digest":                     func(r *release) { r.digests = r.out },
		"is no digest":                            func(r *release) { _ = os.WriteFile(filepath.Join(r.digests, "a.digest"), []byte("latest"), 0o644) },
		"neither a section v1.2.3 nor Unreleased": func(r *release) { _ = os.WriteFile(filepath.Join(r.source, "CHANGELOG.md"), nil, 0o644) },
	} {
		r := trial(t)
		change(r)
		if err := r.write(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
