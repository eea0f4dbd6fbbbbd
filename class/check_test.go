package class

import (
	"fmt"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
)

// What an entry of the allow-list stands for is read as the policy on volumes reads it; test/integration has the same rows for that.
func TestCovers(t *testing.T) {
	for _, c := range []struct {
		entry, class string
		want         bool
	}{
		{"silver", "silver", true},
		{"silver-*", "silver-retain", true},
		{"silver-*", "silver", false},
		{"silver.*", "silver.a", true},
		{"silver*", "silverware", false},
		{"*", "silver", false},
		{"-*", "-x", false},
		{"s*-*", "s*-x", false},
		{"silver-**", "silver-retain", false},
	} {
		if got := covers(c.entry, c.class); got != c.want {
			t.Errorf("%s covers %s: %t, want %t", c.entry, c.class, got, c.want)
		}
	}
}

func TestUngranted(t *testing.T) {
	for _, c := range []struct {
		granted map[string]string
		paths   []string
		want    string
	}{
		{map[string]string{"storageClasses": "gold, silver", "volumeTypes": "nfs"}, nil, "[]"},
		{nil, nil, "[[storageClasses does not have silver: its pods may create no volume] [volumeTypes is missing: its pods may create no volume]]"},
		{map[string]string{"storageClasses": "silver", "volumeTypes": "csi"}, nil, "[[csiDrivers is missing: volumes of type csi need it]]"},
		{map[string]string{"storageClasses": "silver", "volumeTypes": "nfs", "hostPaths": "/srv/,/mnt"}, []string{"/srv/a", "/mnt", "/mntx"}, "[[hostPaths does not have /mntx, which host-path asks for]]"},
	} {
		got := ungranted("silver", &configmaps.Config{HostPaths: c.paths}, func(setting string) []string { return items(c.granted[setting]) })
		if fmt.Sprint(got) != c.want {
			t.Errorf("%v with %v lacks %v, want %s", c.granted, c.paths, got, c.want)
		}
	}
}
