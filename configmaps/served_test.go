package configmaps

import (
	"maps"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

func TestServedAs(t *testing.T) {
	const key, noName = contract.ParameterConfigFromClass, ": is no name of a StorageClass; create the StorageClass again with the name of one that has a ConfigMap"
	for name, c := range map[string]struct {
		parameters map[string]string
		want       string
		faults     string
	}{
		"no parameters":        {nil, "silver-copy", ""},
		"parameters of others": {map[string]string{"pool": "a", "csi.storage.k8s.io/fstype": "xfs"}, "silver-copy", ""},
		"another class":        {map[string]string{key: "silver", "pool": "a"}, "silver", ""},
		"itself":               {map[string]string{key: "silver-copy"}, "silver-copy", ""},
		"a long name":          {map[string]string{key: strings.Repeat("s", 253)}, strings.Repeat("s", 253), ""},
		"empty":                {map[string]string{key: ""}, "", `parameters[` + key + `]: Invalid value: ""` + noName},
		"white space":          {map[string]string{key: " silver"}, "", `parameters[` + key + `]: Invalid value: " silver"` + noName},
		"a pattern":            {map[string]string{key: "silver-*"}, "", `parameters[` + key + `]: Invalid value: "silver-*"` + noName},
		"a path":               {map[string]string{key: "flex-provisioners/silver"}, "", `parameters[` + key + `]: Invalid value: "flex-provisioners/silver"` + noName},
		"two names":            {map[string]string{key: "silver,gold"}, "", `parameters[` + key + `]: Invalid value: "silver,gold"` + noName},
		"control characters":   {map[string]string{key: "silver\n\x1b[2J"}, "", `parameters[` + key + `]: Invalid value: "silver\n\x1b[2J"` + noName},
		"without end": {map[string]string{key: strings.Repeat("s", 100_000)}, "",
			`parameters[` + key + `]: Invalid value: "` + strings.Repeat("s", 61) + `..."` + noName},
		"misspelled": {map[string]string{contract.Prefix + "config-form-class": "silver"}, "",
			`parameters[flex-provisioner.io/config-form-class]: Forbidden: of the parameters flex-provisioner.io/ there is only ` + key + `; create the StorageClass again without this one`},
	} {
		got, faults := ServedAs("silver-copy", c.parameters)
		if got != c.want {
			t.Errorf("%s: served as %q, want %q", name, got, c.want)
		}

		if text := strings.Join(texts(faults), "\n"); text != c.faults {
			t.Errorf("%s: faults\n%s\nwant\n%s", name, text, c.faults)
		}
	}
}

// What is for the dispatcher never reaches an image, and what the caller has stays as it is.
func TestParameters(t *testing.T) {
	all := map[string]string{"pool": "a", contract.ParameterConfigFromClass: "silver", contract.Prefix + "x": "y", "csi.storage.k8s.io/fstype": "xfs"}
	before := maps.Clone(all)
	if got, want := Parameters(all), map[string]string{"pool": "a", "csi.storage.k8s.io/fstype": "xfs"}; !maps.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}

	if !maps.Equal(all, before) {
		t.Errorf("the class's own parameters became %v", all)
	}
}
