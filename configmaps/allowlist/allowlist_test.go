package allowlist

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
)

func TestOf(t *testing.T) {
	data := map[string]string{
		"silver.storageClasses":   "silver",
		"silver.volumeTypes":      "nfs",
		"silver.a.storageClasses": "x",
		"gold.volumeTypes":        "csi",
		"provisionerName":         "p",
	}
	if got := fmt.Sprint(Of(data, "silver")); got != "map[storageClasses:silver volumeTypes:nfs]" {
		t.Error(got)
	}
}

// What an entry of the allow-list stands for is read as the policy on volumes reads it; test/integration has the same
// rows for that.
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
		if got := matches(c.entry, c.class); got != c.want {
			t.Errorf("%s covers %s: %t, want %t", c.entry, c.class, got, c.want)
		}
	}
}

func TestLacks(t *testing.T) {
	root := int64(0)
	volumes := Lines{"storageClasses": "silver", "volumeTypes": "nfs"}
	with := func(setting, value string) Lines {
		lines := Lines{setting: value}
		for k, v := range volumes {
			if _, known := lines[k]; !known {
				lines[k] = v
			}
		}

		return lines
	}
	for _, c := range []struct {
		lines  Lines
		config configmaps.Config
		want   string
	}{
		{with("storageClasses", "gold, silver"), configmaps.Config{}, "[]"},
		{nil, configmaps.Config{}, "[{storageClasses does not have silver: its pods may create no volume} {volumeTypes is missing: its pods may create no volume}]"},
		{with("volumeTypes", "csi"), configmaps.Config{}, "[{csiDrivers is missing: volumes of type csi need it}]"},
		{with("stagers", "loop"), configmaps.Config{}, "[{pathPrefixes is missing: images of flex-node need it}]"},
		{with("hostPaths", "/srv/, /mnt:ro"), configmaps.Config{HostPaths: []configmaps.HostPath{{Path: "/srv"}, {Path: "/srv", ReadOnly: true}, {Path: "/mnt", ReadOnly: true}}}, "[]"},
		{with("hostPaths", "/srv, /mnt:ro"), configmaps.Config{HostPaths: []configmaps.HostPath{{Path: "/srv/a"}, {Path: "/mnt"}, {Path: "/opt", ReadOnly: true}}},
			"[{hostPaths does not have /srv/a, which host-path asks for} {hostPaths does not have /mnt, which host-path asks for} {hostPaths does not have /opt:ro, which host-path asks for}]"},
		{with("privileges", "root, capability/SYS_ADMIN, device/disk, host-network"), configmaps.Config{RunAsUser: &root, HostNetwork: true,
			Capabilities: []corev1.Capability{"SYS_ADMIN"}, Devices: []configmaps.ClaimMount{{Claim: "disk"}}}, "[]"},
		{with("privileges", "root"), configmaps.Config{RunAsUser: &root, Privileged: true, Capabilities: []corev1.Capability{"SYS_ADMIN"}, Devices: []configmaps.ClaimMount{{Claim: "disk"}}},
			"[{privileges does not have privileged, which the ConfigMap asks for} {privileges does not have capability/SYS_ADMIN, which the ConfigMap asks for} {privileges does not have device/disk, which the ConfigMap asks for}]"},
	} {
		if got := fmt.Sprint(c.lines.Lacks("silver", &c.config)); got != c.want {
			t.Errorf("%v lacks %s, want %s", c.lines, got, c.want)
		}
	}
}

// TestRefuses: the places of volumes are read as the policy on volumes reads them.
func TestRefuses(t *testing.T) {
	nfs := Lines{
		"storageClasses": "silver",
		"volumeTypes":    "nfs, hostPath",
		"nfsExports":     "a:/srv/x/",
		"pathPrefixes":   "/opt",
		"mountOptions":   "hard",
	}
	for _, c := range []struct {
		lines                    Lines
		class, kind, place, want string
		options                  []string
	}{
		{nfs, "silver", "nfs", "a:/srv/x/v", "[]", []string{"hard"}},
		{nfs, "silver", "nfs", "a:/srv/xy/v", "[{nfsExports has no directory with \"a:/srv/xy/v\" below it}]", nil},
		{nfs, "silver", "nfs", "a:/srv/x", "[{nfsExports has no directory with \"a:/srv/x\" below it}]", nil},
		{nfs, "silver", "nfs", "b:/srv/x/v", "[{nfsExports has no directory with \"b:/srv/x/v\" below it}]", nil},
		{Lines{"storageClasses": "silver", "volumeTypes": "nfs"}, "silver", "nfs", "b:/any", "[]", nil},
		{Lines{"storageClasses": "silver", "volumeTypes": "nfs", "nfsExports": "a:/"}, "silver", "nfs", "a:/v", "[]", nil},
		{Lines{"storageClasses": "silver", "volumeTypes": "nfs", "nfsExports": "a:/"}, "silver", "nfs", "a:/",
			"[{nfsExports has no directory with \"a:/\" below it}]", nil},
		{nfs, "silver", "hostPath", "/opt/v", "[]", nil},
		{nfs, "silver", "hostPath", "/optional/v", "[{pathPrefixes has no directory with \"/optional/v\" below it}]", nil},
		{Lines{"storageClasses": "silver", "volumeTypes": "local"}, "silver", "local", "/opt/v", "[{pathPrefixes has no directory with \"/opt/v\" below it}]", nil},
		{nfs, "gold", "iscsi", "", "[{storageClasses does not have gold} {volumeTypes does not have iscsi} {mountOptions does not have \"dev\"}]", []string{"dev"}},
		{nil, "silver", "nfs", "a:/b", "[{storageClasses does not have silver} {volumeTypes does not have nfs}]", nil},
	} {
		if got := fmt.Sprint(c.lines.Refuses(c.class, c.kind, c.place, c.options)); got != c.want {
			t.Errorf("%s %s %s %v: %s, want %s", c.class, c.kind, c.place, c.options, got, c.want)
		}
	}
}
