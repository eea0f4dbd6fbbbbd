package release

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// The images that both installations get.
const (
	dispatcher = "registry.example/flex/flex-provisioner@sha256:1111111111111111111111111111111111111111111111111111111111111111"
	flexctl    = "registry.example/flex/flexctl@sha256:2222222222222222222222222222222222222222222222222222222222222222"
)

const images = "images: {dispatcher: '" + dispatcher + "', flexctl: '" + flexctl + "'}\n"

// TestChartIsTheManifests: object by object the chart makes what kustomize does.
func TestChartIsTheManifests(t *testing.T) {
	cases := map[string]struct {
		values string
		// components are folders of deploy/components.
		components []string
	}{
		"default":       {},
		"ha":            {values: "replicas: 2", components: []string{"ha"}},
		"creator stamp": {values: "creatorStamp: true", components: []string{"creator-stamp"}},
		"both":          {values: "replicas: 2\ncreatorStamp: true", components: []string{"creator-stamp", "ha"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compare(t, objects(t, rendered(t, c.values)), objects(t, kustomized(t, pinned(t, c.components))))
		})
	}
}

const nodeImage = "registry.example/flex/flex-node@sha256:3333333333333333333333333333333333333333333333333333333333333333"

// TestChartWithNode: with flex-node the chart makes what deploy/node does, too.
func TestChartWithNode(t *testing.T) {
	iscsi := t.TempDir()
	write(t, filepath.Join(iscsi, "kustomization.yaml"), "resources: ["+relative(t, iscsi, "deploy/node")+"]\ncomponents: ["+relative(t, iscsi, "deploy/node/iscsi")+"]\n")
	for values, folder := range map[string]string{"": filepath.Join(root, "deploy", "node"), ", stagers: [loop, iscsi]": iscsi} {
		got := objects(t, rendered(t, "node: {enabled: true"+values+"}\nimages: {node: '"+nodeImage+"'}"))
		for id := range objects(t, rendered(t, "")) {
			delete(got, id)
		}
		node := strings.ReplaceAll(kustomized(t, folder), "registry.invalid/flex-provisioner/flex-node:dev", nodeImage)
		if want := objects(t, node); !maps.Equal(got, want) {
			t.Errorf("with %q the chart makes\n%s\nwant\n%s", values, joined(got), joined(want))
		}
	}
}

// TestChartOfAnotherDispatcher: with a name the chart is what deploy/another.sh prints, but for what the first one has
// installed for all.
func TestChartOfAnotherDispatcher(t *testing.T) {
	bin := t.TempDir()
	base := filepath.Join(bin, "base.yaml")
	write(t, base, kustomized(t, filepath.Join(root, "deploy", "base")))
	write(t, filepath.Join(bin, "kubectl"), "#!/bin/sh\ncat "+base+"\n") // kubectl kustomize, without a kubectl
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	printed := command(t, root, "deploy/another.sh", "fast", "example.com/fast")
	printed = strings.NewReplacer("registry.invalid/flex-provisioner/flex-provisioner:dev", dispatcher, "args: [", "args: [--flexctl-image="+flexctl+", ").Replace(printed)
	want := objects(t, printed)
	maps.DeleteFunc(want, func(id, _ string) bool { return strings.HasPrefix(id, "ClusterRole//") })
	compare(t, objects(t, rendered(t, "name: fast\nprovisionerName: example.com/fast")), want)
}

// TestChartInItsOwnNamespace: helm has made the release's namespace, and the chart does not make it again.
func TestChartInItsOwnNamespace(t *testing.T) {
	want := objects(t, rendered(t, ""))
	delete(want, "Namespace//flex-system")
	compare(t, objects(t, rendered(t, "", "--namespace=flex-system")), want)
}

// TestChartKeeps: the namespaces, what guards them and what a later installation needs to know the volumes that are there
// outlive an uninstallation, and nothing else does.
func TestChartKeeps(t *testing.T) {
	var kept, want []string
	for document := range documents(rendered(t, "creatorStamp: true\nclasses: {a: {config: {image: a:1}}}")) {
		o := parsed(t, document)
		if o.Metadata.Annotations[keep] != "" {
			kept = append(kept, o.id())
		}
		if strings.HasPrefix(o.Kind, "ValidatingAdmissionPolicy") && o.Metadata.Name != "flex-require-claim-creator" {
			want = append(want, o.id())
		}
	}
	if len(want) < 14 {
		t.Errorf("the chart has no more policies and bindings than %v", want)
	}
	want = append(want, "ClusterRole//flex-dispatcher", "ClusterRole//flex-provisioner-pod", "ConfigMap/flex-system/flex-pv-policy",
		"Namespace//flex-provisioners", "Namespace//flex-system", "Secret/flex-system/flex-provisioner-record-key")
	slices.Sort(kept)
	slices.Sort(want)
	if !slices.Equal(kept, want) {
		t.Errorf("kept: %v, want %v", kept, want)
	}
}

// TestChartLint: helm has nothing to say against the chart.
func TestChartLint(t *testing.T) {
	out, err := helm(t, "lint", "--strict", "--values="+file(t, images), chart)
	if err != nil || !strings.Contains(out, "0 chart(s) failed") {
		t.Errorf("%v: %s", err, out)
	}
}

// pinned is a kustomization of deploy/base with the images, as tools/pin.sh writes it, and with components.
func pinned(t *testing.T, components []string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	digests := t.TempDir()
	for image, reference := range map[string]string{"flex-provisioner": dispatcher, "flexctl": flexctl} {
		_, digest, _ := strings.Cut(reference, "@")
		write(t, filepath.Join(digests, image+".digest"), digest+"\n")
	}
	command(t, root, "tools/pin.sh", "registry.example/flex", digests, dir)
	if len(components) > 0 {
		up := relative(t, dir, filepath.Join("deploy", "components"))
		text := read(t, filepath.Join(dir, "kustomization.yaml")) + "components:\n"
		for _, c := range components {
			text += fmt.Sprintf("- %s/%s\n", up, c)
		}
		write(t, filepath.Join(dir, "kustomization.yaml"), text)
	}
	return dir
}

// relative is a folder of the checkout as a kustomization in another folder names it.
func relative(t *testing.T, from, folder string) string {
	t.Helper()
	up, err := filepath.Rel(from, absolute(t, filepath.Join(root, folder)))
	if err != nil {
		t.Fatal(err)
	}
	return up
}

// kustomize keeps its schema in a variable of its package, which it fills without a lock.
var kustomize sync.Mutex

func kustomized(t *testing.T, dir string) string {
	t.Helper()
	kustomize.Lock()
	defer kustomize.Unlock()
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := made.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// object is what every object has.
type object struct {
	Kind     string
	Metadata struct {
		Name, Namespace string
		Annotations     map[string]string
	}
}

func (o object) id() string { return o.Kind + "/" + o.Metadata.Namespace + "/" + o.Metadata.Name }

func parsed(t *testing.T, document string) object {
	t.Helper()
	var o object
	if err := yaml.Unmarshal([]byte(document), &o); err != nil {
		t.Fatalf("%v:\n%s", err, document)
	}
	return o
}

// keep is the annotation by which helm leaves an object alone when it uninstalls. It is no part of the comparison.
const keep = "helm.sh/resource-policy"

// objects are all of a text, by kind/namespace/name, in one form.
func objects(t *testing.T, text string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for document := range documents(text) {
		o := parsed(t, document)
		var all map[string]any
		if err := yaml.Unmarshal([]byte(document), &all); err != nil {
			t.Fatal(err)
		}
		if metadata := all["metadata"].(map[string]any); o.Metadata.Annotations[keep] != "" {
			annotations := metadata["annotations"].(map[string]any)
			if delete(annotations, keep); len(annotations) == 0 {
				delete(metadata, "annotations")
			}
		}
		form, err := yaml.Marshal(unfolded(all))
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := found[o.id()]; twice {
			t.Errorf("%s is there twice", o.id())
		}
		found[o.id()] = string(form)
	}
	return found
}

// unfolded has each text with single spaces: kustomize adds lines to text that was folded.
func unfolded(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for k, v := range value {
			value[k] = unfolded(v)
		}
	case []any:
		for i, v := range value {
			value[i] = unfolded(v)
		}
	case string:
		return strings.Join(strings.Fields(value), " ")
	}
	return value
}

func compare(t *testing.T, got, want map[string]string) {
	t.Helper()
	if len(want) < 10 {
		t.Fatalf("only %d objects to compare with", len(want))
	}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		switch text, there := got[id]; {
		case !there:
			t.Errorf("the chart lacks %s", id)
		case text != want[id]:
			t.Errorf("%s differs: the chart has\n%s\nwant\n%s", id, text, want[id])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(got)) {
		if _, there := want[id]; !there {
			t.Errorf("the chart makes %s, which nothing else does", id)
		}
	}
}
