package release

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestChartValues: what the values come to, for one set that uses all of them.
func TestChartValues(t *testing.T) {
	values, want := filepath.Join("testdata", "values.yaml"), filepath.Join("testdata", "rendered.yaml")
	all := map[string]string{}
	for document := range documents(rendered(t, read(t, values))) {
		all[parsed(t, document).id()] = strings.TrimSpace(document) + "\n"
	}
	for id := range objects(t, rendered(t, "")) {
		if id != "Deployment/flex-system/flex-provisioner" && id != "Service/flex-system/flex-provisioner" && id != "ConfigMap/flex-system/flex-pv-policy" {
			delete(all, id)
		}
	}
	got := joined(all)
	if *update {
		write(t, want, got)
	}
	if got != read(t, want) {
		t.Errorf("%s differs; -update writes it. The chart makes\n%s", want, got)
	}
}

// TestChartRefuses: values that are wrong are an error that names them.
func TestChartRefuses(t *testing.T) {
	cases := map[string]struct{ values, want string }{
		"no dispatcher":         {"images: {dispatcher: ''}", "images.dispatcher is empty: name the image of the dispatcher in your registry; the chart of a release has it by digest"},
		"no flexctl":            {"images: {flexctl: ''}", "images.flexctl is empty: name the image of flexctl in your registry; the chart of a release has it by digest"},
		"image without a tag":   {"images: {dispatcher: registry.example/flex}", "at '/images/dispatcher': 'registry.example/flex' does not match pattern"},
		"unknown value":         {"replica: 2", "additional properties 'replica' not allowed"},
		"unknown option":        {"options: {deletelimit: 3}", "at '/options': additional properties 'deletelimit' not allowed"},
		"option out of range":   {"options: {threads: 1000}", "at '/options/threads': maximum: got 1,000, want 256"},
		"name without its own":  {"provisionerName: example.com/fast", "provisionerName is example.com/fast: give the dispatcher a name of its own as well"},
		"number in a config":    {"classes: {a: {config: {image: a:1, size: 3}}}", "at '/classes/a/config/size': got number, want string"},
		"config of the chart's": {"classes: {a: {config: {image: a:1, plugin-name: x}}}", "classes.a.config.plugin-name: the chart writes it; serviceAccount of the class names another ServiceAccount"},
		"unknown grant":         {"classes: {a: {config: {image: a:1}, grants: {privilege: root}}}", "at '/classes/a/grants': additional properties 'privilege' not allowed"},
		"grants of another's":   {"classes: {a: {config: {image: a:1}, serviceAccount: b, grants: {volumeTypes: nfs}}}", "classes.a.grants: they go with the class that makes the ServiceAccount, which has a config and no serviceAccount"},
		"name that lies":        {"classes: {'a b': {config: {image: a:1}}}", "invalid propertyName 'a b'"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := helm(t, "template", "flex-provisioner", chart, "--values="+file(t, images), "--values="+file(t, c.values))
			if err == nil || !strings.Contains(out, c.want) {
				t.Errorf("got %v: %s\nwant %s", err, out, c.want)
			}
		})
	}
	t.Run("creator stamp on 1.35", func(t *testing.T) {
		out, err := helm(t, "template", "flex-provisioner", chart, "--values="+file(t, images), "--set=creatorStamp=true", "--kube-version=1.35.4")
		if want := "creatorStamp is true: it needs Kubernetes 1.36, and this is v1.35.4"; err == nil || !strings.Contains(out, want) {
			t.Errorf("got %v: %s\nwant %s", err, out, want)
		}
	})
}
