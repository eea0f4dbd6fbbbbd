package main

import (
	"bytes"
	"fmt"
	"path"
	"path/filepath"
	"strings"
)

// chartName is the chart's, and its folder's in the archive.
const chartName = "flex-provisioner"

// writeChart writes the chart of the release: that of the checkout, with its version and its images.
func (r *release) writeChart(images map[string]string) error {
	all := map[string]file{}
	if err := addFolder(all, filepath.Join(r.source, "deploy", "helm"), chartName); err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	for name := range all {
		// As .helmignore says: what lies beside the manifests, and is none.
		if base := path.Base(name); path.Ext(base) == ".go" || base == "kustomization.yaml" || base == "README.md" {
			delete(all, name)
		}
	}
	version := strings.TrimPrefix(r.version, "v")
	for _, stamp := range []struct{ file, from, to string }{
		{"Chart.yaml", "# make release writes both. A chart from a checkout has no version.\nversion: 0.0.0\nappVersion: dev\n", "version: " + version + "\nappVersion: " + r.version + "\n"},
		{"values.yaml", "  # The dispatcher and what brings flexctl into pods of inline scripts. A chart of a release names them by digest. A chart\n" +
			"  # from a checkout names none: they are in the registry that you pushed them to.\n  dispatcher: \"\"\n  flexctl: \"\"\n",
			"  # The dispatcher, and what brings flexctl into pods of inline scripts.\n  dispatcher: " + images["flex-provisioner"] + "\n  flexctl: " + images["flexctl"] + "\n"},
		{"manifests/base/deployment.yaml", "image: docker.io/flex-provisioner/flex-provisioner:dev\n", "image: " + images["flex-provisioner"] + "\n"},
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
