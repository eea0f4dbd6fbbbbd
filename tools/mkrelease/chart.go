package main

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// chartName is the chart's, and its folder's in the archive.
const chartName = "flex-provisioner"

// writeChart writes the chart of the release: that of the checkout, with its version and its images.
func (r *release) writeChart(images map[string]string) error {
	all := map[string]file{}
	folder := filepath.Join(r.source, "deploy", "helm")
	if err := addFolder(all, folder, chartName); err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	known, err := tracked(filepath.Join(r.source, "deploy"))
	if err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	for name := range all {
		file, err := filepath.EvalSymlinks(filepath.Join(folder, strings.TrimPrefix(name, chartName)))
		if err != nil {
			return fmt.Errorf("chart: %w", err)
		}
		// As .helmignore says: what lies beside the manifests, and is none.
		if base := path.Base(name); !known[file] || path.Ext(base) == ".go" || base == "kustomization.yaml" || base == "README.md" {
			delete(all, name)
		}
	}
	version := strings.TrimPrefix(r.version, "v")
	for _, stamp := range []struct{ file, from, to string }{
		{"Chart.yaml", "# make release writes both. A chart from a checkout has no version.\nversion: 0.0.0\nappVersion: dev\n", "version: " + version + "\nappVersion: " + r.version + "\n"},
		{"values.yaml", "  # The dispatcher and what brings flexctl into pods of inline scripts. A chart of a release names them by digest. A chart\n" +
			"  # from a checkout names none: they are in the registry that you pushed them to.\n  dispatcher: \"\"\n  flexctl: \"\"\n  # flex-node, if node.enabled.\n  node: \"\"\n",
			"  # The dispatcher, and what brings flexctl into pods of inline scripts.\n  dispatcher: " + images["flex-provisioner"] + "\n  flexctl: " + images["flexctl"] + "\n  # flex-node, if node.enabled.\n  node: " + images["flex-node"] + "\n"},
		{"manifests/node/node.yaml", "image: registry.invalid/flex-provisioner/flex-node:dev\n", "image: " + images["flex-node"] + "\n"},
		{"manifests/base/deployment.yaml", "image: registry.invalid/flex-provisioner/flex-provisioner:dev\n", "image: " + images["flex-provisioner"] + "\n"},
		{"manifests/base/deployment.yaml", "  labels:\n    app.kubernetes.io/name: flex-provisioner\nspec:\n  replicas:",
			"  labels:\n    app.kubernetes.io/name: flex-provisioner\n    app.kubernetes.io/version: " + r.version + "\nspec:\n  replicas:"},
	} {
		name := path.Join(chartName, stamp.file)
		stamped := bytes.Replace(all[name].data, []byte(stamp.from), []byte(stamp.to), 1)
		if bytes.Equal(stamped, all[name].data) {
			return fmt.Errorf("chart: %s does not have %q any more", stamp.file, stamp.from)
		}
		all[name] = file{data: stamped, mode: 0o644}
	}
	data, err := tarred(all)
	if err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	return r.put(chartName+"-"+version+".tgz", data)
}

// tracked are the files below a folder that git knows, by their paths without links. What else lies there is in no commit.
func tracked(folder string) (map[string]bool, error) {
	folder, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return nil, err
	}
	list := exec.Command("git", "ls-files", "-z")
	list.Dir = folder
	out, err := list.Output()
	if err != nil {
		var complaint *exec.ExitError
		if errors.As(err, &complaint) {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(complaint.Stderr))
		}
		return nil, fmt.Errorf("git ls-files in %s: %w", folder, err)
	}
	files := map[string]bool{}
	for name := range strings.SplitSeq(string(out), "\x00") {
		files[filepath.Join(folder, name)] = true
	}
	return files, nil
}
