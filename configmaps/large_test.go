package configmaps

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestSize holds the cases that are too large to lie in testdata.
func TestSize(t *testing.T) {
	many := map[string]string{}
	for i := range 2000 {
		many[fmt.Sprintf("p%07d", i)] = ""
	}

	const remedy = "; put large files into the image or a Secret (key secrets)"
	const allPairs = "data: Too long: the names and values of all properties or parameters have %d bytes, at most 16384 are allowed" + remedy
	scripts := map[string]string{"provision": strings.Repeat("#", maxScript), "delete": strings.Repeat("#", maxScript)}
	for name, c := range map[string]struct {
		data map[string]string
		want []string
	}{
		"1 MiB of one property":             {map[string]string{"blob": strings.Repeat("x", 1<<20)}, []string{fmt.Sprintf(allPairs, 1<<20+4)}},
		"properties one byte below":         {map[string]string{"blob": strings.Repeat("x", maxProperties-5)}, nil},
		"properties at the limit":           {map[string]string{"blob": strings.Repeat("x", maxProperties-4)}, nil},
		"properties one byte above":         {map[string]string{"blob": strings.Repeat("x", maxProperties-3)}, []string{fmt.Sprintf(allPairs, maxProperties+1)}},
		"many small properties":             {many, nil},
		"scripts at the limit":              {scripts, nil},
		"a script one byte above":           {map[string]string{"provision": scripts["provision"] + "#", "delete": "true"}, []string{"data[provision]: Too long: has 65537 bytes, at most 65536 are allowed" + remedy}},
		"a token of 1 MiB is not shown":     {map[string]string{"service-token": strings.Repeat("x", 1<<20)}, []string{"data[service-token]: Too long: has 1048576 bytes, at most 16384 are allowed" + remedy}},
		"1 MiB of a reserved key":           {map[string]string{"tolerations": strings.Repeat("[", 1<<20)}, []string{"data[tolerations]: Too long: has 1048576 bytes, at most 16384 are allowed" + remedy}},
		"an image name of 256 letters":      {map[string]string{"image": strings.Repeat("x", 256) + ":v1"}, []string{"data[image]: Too long: the name without tag and digest may have at most 255 characters"}},
		"an image name of 255 letters":      {map[string]string{"image": strings.Repeat("x", 255) + ":v1"}, nil},
		"a class of 254 letters in the key": {map[string]string{"storage-class": strings.Repeat("x", 254)}, []string{"data[storage-class]: Invalid value: \"" + strings.Repeat("x", 254) + "\": must be the name of a Kubernetes object: at most 253 lower-case letters, digits, '-' and '.', with a letter or digit first, last and beside each '.'"}},
	} {
		t.Run(name, func(t *testing.T) {
			cm := good(c.data)
			if _, inData := c.data["storage-class"]; inData {
				delete(cm.Labels, "storage-class")
			}

			_, errs := Parse(cm)
			if got := texts(errs); !reflect.DeepEqual(got, append([]string{}, c.want...)) {
				t.Errorf("want %q\ngot  %q", c.want, got)
			}
		})
	}
}

// TestLabelTooLong covers files: an API server never stores such a label.
func TestLabelTooLong(t *testing.T) {
	cm := good(nil)
	cm.Labels["storage-class"] = strings.Repeat("x", 64)
	_, errs := Parse(cm)
	want := []string{"metadata.labels[storage-class]: Too long: does not fit into a label: put the name into data[storage-class] instead"}
	if got := texts(errs); !reflect.DeepEqual(got, want) {
		t.Errorf("want %q\ngot  %q", want, got)
	}

	cm.Labels["storage-class"] = strings.Repeat("x", 63)
	if _, errs := Parse(cm); len(errs) > 0 {
		t.Errorf("as long as a label may be: %q", texts(errs))
	}
}

func TestPeeks(t *testing.T) {
	labeled := good(map[string]string{"storage-class": "data"})
	unlabeled := good(map[string]string{"storage-class": " data\n", "plugin-name": "example.com/x\n"})
	delete(unlabeled.Labels, "storage-class")
	for _, c := range []struct {
		cm            *corev1.ConfigMap
		class, plugin string
	}{
		{labeled, "silver", "flex-provisioner.io/dispatcher"},
		{unlabeled, "data", "example.com/x"},
		{&corev1.ConfigMap{}, "", ""},
	} {
		if class, plugin := ClassName(c.cm), PluginName(c.cm); class != c.class || plugin != c.plugin {
			t.Errorf("got class %q and plugin %q, want %q and %q", class, plugin, c.class, c.plugin)
		}
	}
}

func TestDigests(t *testing.T) {
	parse := func(data map[string]string) *Config {
		config, errs := Parse(good(data))
		if errs != nil {
			t.Fatal(errs)
		}

		return config
	}
	first := parse(map[string]string{"zone": "west", "pool": "a"})
	for name, c := range map[string]struct {
		data               map[string]string
		digest, identities bool // whether they are as first's
	}{
		"the same":               {map[string]string{"pool": "a", "zone": "west"}, true, true},
		"another property":       {map[string]string{"pool": "a", "zone": "east"}, false, false},
		"another reserved key":   {map[string]string{"pool": "a", "zone": "west", "timeout": "1m"}, false, true},
		"a letter moved":         {map[string]string{"pool": "", "azone": "west"}, false, false},
		"a value becomes a name": {map[string]string{"zone": "westpoola"}, false, false},
	} {
		got := parse(c.data)
		if (got.Digest == first.Digest) != c.digest || (got.IdentityDigest == first.IdentityDigest) != c.identities {
			t.Errorf("%s: got %s %s, first %s %s", name, got.Digest, got.IdentityDigest, first.Digest, first.IdentityDigest)
		}
	}

	if len(first.Digest) != 16 || len(first.IdentityDigest) != 16 {
		t.Errorf("digests %q and %q are not short", first.Digest, first.IdentityDigest)
	}
}
