package configmaps

import (
	"strings"
	"testing"
)

func TestResembles(t *testing.T) {
	for key, want := range map[string]string{
		// lost, doubled, wrong and swapped letters
		"node-slector": "node-selector", "ndoe-slector": "node-selector", "node-selectors": "node-selector", "onde-slector": "node-selector",
		"service-toekn": "service-token", "service-tokens": "service-token", "toleration": "tolerations", "tolerance": "",
		"tollerations": "tolerations", "time-outs": "timeout", "timout": "timeout", "timeouts": "timeout", "start-timout": "start-timeout",
		"secret": "secrets", "resource": "resources", "imag": "image", "images": "image", "iamge": "image", "deleet": "delete", "dalate": "delete",
		"provison": "provision", "provisioner": "provision", "host-paths": "host-path", "hsot-paht": "host-path",
		"run-as-usr": "run-as-user", "run-as-users": "run-as-user", "access-mode": "access-modes", "volume-mode": "volume-modes",
		"show-log": "show-logs", "volume-handed-over": "volumes-handed-over", "volumesHandedOver": "volumes-handed-over", "nodes-local": "node-local", "mount-claim": "mount-claims", "max-concurrency": "max-concurrent",
		"image-pull-secret": "image-pull-secrets", "failed-pods-ttl": "failed-pod-ttl", "plugin-names": "plugin-name",
		"capability": "", "capabilitys": "capabilities", "privilegd": "privileged", "privileges": "privileged",
		"host-networks": "host-network", "hostnet": "", "priority-class": "", "priority-class-names": "priority-class-name", "pod-label": "pod-labels",
		"pod-annotation": "pod-annotations", "devcies": "devices",
		"storage-clas": "storage-class", "service-account-names": "service-account-name",
		// case and separators
		"nodeSelector": "node-selector", "node_selector": "node-selector", "node.selector": "node-selector", "nodeselector": "node-selector",
		"NODE-SELECTOR": "node-selector", "Image": "image", "IMAGE": "image", "time-out": "timeout", "runAsUser": "run-as-user",
		"serviceAccountName": "service-account-name", "hostPath": "host-path", "hostNetwork": "host-network", "priorityClassName": "priority-class-name", "podLabels": "pod-labels", "imagePullPolicy": "image-pull-policy",
		"-image": "image", "image-": "image", "failedPodTTL": "failed-pod-ttl", "storageClass": "storage-class",
		// both
		"nodeSlector": "node-selector", "serviceAcountName": "service-account-name", "hostpaths": "host-path", "mountClaim": "mount-claims",
		"Tolleration": "tolerations",
		// at a distance of one the nearer key wins
		"image-pull-secretes": "image-pull-secrets",
	} {
		if got := misspellingOf(key); got != want {
			t.Errorf("resembles(%q) = %q, want %q", key, got, want)
		}
	}
}

// TestSlipsInEveryKey: each reserved key is recognized in another case, with other separators, and with a doubled letter.
func TestSlipsInEveryKey(t *testing.T) {
	for _, k := range reserved {
		for _, slip := range []string{strings.ToUpper(k.name), strings.ReplaceAll(k.name, "-", "_"), k.name[:1] + k.name} {
			if got := misspellingOf(slip); slip != k.name && got != k.name {
				t.Errorf("resembles(%q) = %q, want %q", slip, got, k.name)
			}
		}
	}
}

// TestInnocent lists names that people give their properties.
func TestInnocent(t *testing.T) {
	for _, key := range []string{
		"use-nfs-server", "zone", "zones", "region", "pool", "pool-name", "pools", "server", "servers", "share", "shares", "export", "exports",
		"export-path", "base-path", "root-path", "home-path", "dest-path", "vast-path", "boot-path", "data-path", "nfs-path", "nas-path", "base-dir",
		"rootpath", "root_path", "rootPath", "basePath",
		"host", "hosts", "host-name", "host-group", "host-port", "hostport", "hostgroup", "port", "portal", "portals", "target", "target-portal", "iqn", "lun",
		"imageid", "image-id", "image-name", "image-format", "imageName", "mirage", "user", "username", "user-id", "userid", "uid", "gid", "group", "groups", "password",
		"secret-name", "secret-id", "secretid", "secret-ref", "secret-namespace", "token", "token-url", "api-token", "api-url", "endpoint", "url",
		"type", "volume-type", "volume-group", "volume-name", "volume-size", "vg-name", "thin-pool", "mode", "dir-mode", "mount-options", "mount-point", "mount-path",
		"fs-type", "fsType", "fstype", "access-key", "access-code", "access-zone", "availability-zone", "availability", "smartclone", "cluster", "cluster-id",
		"node", "nodes", "node-name", "node-label", "node-pool", "tier", "qos", "iops", "throughput", "replicas", "replication", "resource-group", "resourceid", "resource-id",
		"tenant", "project", "domain", "vlan", "interface", "protocol", "version", "revision", "precision-time", "provider", "provision-type", "provisioning", "prefix", "suffix",
		"delta", "select", "device", "remote", "default", "delay", "deletion-policy", "delete-policy", "retain", "reclaim", "quota", "compression", "encryption",
		"timer", "time-zone", "timezone", "time", "start-time", "start", "retries", "max-volumes", "min-size", "size", "expansion", "log-level", "logs", "debug", "verbose",
		"service", "services", "service-name", "service-type", "service-port", "service-url", "storage", "storage-pool", "storage-pass", "storage-type", "storage-server",
		"label", "labels", "sectors", "section", "security", "sources", "source", "script", "scripts", "plugin", "plugins", "plugin-type", "backend", "backend-pool", "local", "location",
	} {
		if got := misspellingOf(key); got != "" {
			t.Errorf("resembles(%q) = %q, want it to pass", key, got)
		}

		config, errs := Parse(good(map[string]string{key: "x"}))
		if errs != nil || config.Properties[key] != "x" {
			t.Errorf("property %q: %v", key, errs)
		}
	}
}

// TestReservedAreFarApart keeps the table itself unambiguous: no key is a misspelling of another. Of snapshot and
// snapshots each is an error with a value of the other.
func TestReservedAreFarApart(t *testing.T) {
	for _, a := range reserved {
		if len(a.name)+maxDistance > maxCompared {
			t.Errorf("%s is too long to be compared", a.name)
		}

		for _, b := range reserved {
			snapshots := strings.TrimSuffix(a.name, "s") == strings.TrimSuffix(b.name, "s")
			if a.name != b.name && !snapshots && keyDistance(a.name, b.name) < maxDistance {
				t.Errorf("%s resembles %s", a.name, b.name)
			}
		}
	}
}

func TestSlips(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"abc", "abc", 0}, {"abc", "", 3}, {"", "ab", 2}, {"abc", "acb", 1}, {"abc", "abd", 1}, {"abc", "ab", 1}, {"abc", "aabc", 1},
		{"abcd", "badc", 2}, {"image", "imageid", 2}, {"abc", "xyz", 3}, {"abc", "abcxyz", 3}, {"ca", "abc", 3},
		{strings.Repeat("x", maxCompared), strings.Repeat("x", maxCompared), 0}, {strings.Repeat("x", maxCompared+1), strings.Repeat("x", maxCompared), maxDistance},
	} {
		if got := editDistance(c.a, c.b); got != c.want {
			t.Errorf("slips(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}

		if got := editDistance(c.b, c.a); got != c.want {
			t.Errorf("slips(%q, %q) = %d, want %d", c.b, c.a, got, c.want)
		}
	}
}

// TestNearest: a name that is a slip of another one.
func TestNearest(t *testing.T) {
	for written, want := range map[string]string{
		"slver": "silver", "sliver": "silver", "Silver": "silver", "silver": "", "gold": "", "bronze": "", "": "", "sil_ver": "silver",
	} {
		if got := Nearest(written, []string{"silver", "tin"}); got != want {
			t.Errorf("%q: %q, want %q", written, got, want)
		}
	}
}
