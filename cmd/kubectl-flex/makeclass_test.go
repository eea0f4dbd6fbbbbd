package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func runClass(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	var text bytes.Buffer
	cmd := newCommand("kubectl flex", genericiooptions.IOStreams{In: strings.NewReader(""), Out: &text, ErrOut: &text})
	cmd.SetArgs(append([]string{"class"}, args...))
	err = cmd.ExecuteContext(t.Context())
	return text.String(), err
}

// A directory of scripts becomes a class, without a cluster, and it is said what that is granted.
func TestClassOfScripts(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"provision.sh": "mkdir a\n", "delete": "rmdir a\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"disks", "--script-dir", dir, "--export", "[fd00::1]:/srv/nfs", "--set", "mount-claims=golden:/golden", "--set", "timeout=20m", "--property", "zone=a=b", "--parameter", "pool=x", "--service-account", "foo",
		"--volume-types", "nfs", "--wait-for-first-consumer", "--allow-expansion", "--reclaim-policy", "Retain", "--dry-run", "client"}
	got, err := runClass(t, append(args, "-o", "yaml")...)
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/class.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || got != string(want) {
		t.Errorf("%s differs (-update rewrites it), %v:\n%s", golden, err, got)
	}
	got, err = runClass(t, args...)
	if want := `persistentvolume/disks-export (dry run)
persistentvolumeclaim/disks-export (dry run)
serviceaccount/foo (dry run)
configmap/flex-pv-policy (dry run)
configmap/disks (dry run)
storageclass.storage.k8s.io/disks (dry run)
granted in ConfigMap flex-system/flex-pv-policy to ServiceAccount flex-provisioners/foo:
  foo.storageClasses: disks
  foo.volumeTypes: nfs
`; err != nil || got != want {
		t.Errorf("it printed, %v:\n%s", err, got)
	}
}

// What the ConfigMap asks for and no option grants is said, also where the objects alone are printed.
func TestClassLacks(t *testing.T) {
	args := []string{"disks", "--image", "example.com/x", "--volume-types", "nfs,csi", "--set", "run-as-user=0", "--set", "capabilities=SYS_ADMIN", "--set", "host-path=/srv:ro",
		"--privileges", "capability/SYS_ADMIN", "--dry-run", "client"}
	got, err := runClass(t, args...)
	const lacks = `not granted: disks.csiDrivers is missing: volumes of type csi need it
not granted: disks.hostPaths does not have /srv:ro, which host-path asks for
not granted: disks.privileges does not have root, which the ConfigMap asks for
`
	if err != nil || !strings.HasPrefix(got, lacks) || !strings.Contains(got, "  disks.privileges: capability/SYS_ADMIN\n") {
		t.Errorf("it printed, %v:\n%s", err, got)
	}
	if got, err = runClass(t, append(args, "-o", "yaml")...); err != nil || !strings.HasPrefix(got, lacks+"apiVersion: v1\n") {
		t.Errorf("it printed, %v:\n%s", err, got)
	}
	got, err = runClass(t, append(args, "--privileges", "root,capability/SYS_ADMIN", "--host-paths", "/srv:ro", "--csi-drivers", "nfs.csi.k8s.io")...)
	if err != nil || strings.Contains(got, "not granted") {
		t.Errorf("it printed, %v:\n%s", err, got)
	}
}

func TestClassIsRefused(t *testing.T) {
	empty := t.TempDir()
	good := []string{"disks", "--image", "example.com/x", "--volume-types", "nfs", "--dry-run", "client"}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "kubectl flex class takes the name of the StorageClass and the ConfigMap, got 0 arguments; see kubectl flex class --help"},
		{[]string{"a", "b"}, "kubectl flex class takes the name of the StorageClass and the ConfigMap, got 2 arguments; see kubectl flex class --help"},
		{append(good, "--dry-run", "maybe"), "class disks: --dry-run=maybe: write none, server or client"},
		{append(good, "--export", "10.0.0.1"), `class disks: --export "10.0.0.1": write SERVER:/DIRECTORY, as in 10.0.0.1:/srv/nfs`},
		{append(good, "--export", "10.0.0.1:/srv/../etc"), `class disks: --export "10.0.0.1:/srv/../etc": write SERVER:/DIRECTORY, as in 10.0.0.1:/srv/nfs`},
		{append(good, "--export", "a b:/srv"), `class disks: --export "a b:/srv": write SERVER:/DIRECTORY, as in 10.0.0.1:/srv/nfs`},
		{append(good, "-o", "json"), "class disks: --output=json: write yaml, or leave it out"},
		{append(good, "--property", "zone"), "class disks: --property=zone: write KEY=VALUE, each key once"},
		{append(good, "--set", "a=b", "--property", "a=c"), "class disks: --set: key a is given twice"},
		{append(good, "--set", "service-account-name=root"), "class disks: --set: service-account-name has an option of its own, --service-account"},
		{append(good, "--set", "plugin-name=x"), "class disks: --set: plugin-name has an option of its own, --provisioner-name"},
		{append(good, "--reclaim-policy", "Recycle"), "class disks: --reclaim-policy=Recycle: write Delete or Retain"},
		{append(good, "--script-dir", empty), "class disks: --script-dir=" + empty + ": it has no file provision or provision.sh"},
		{append(good, "--provision", empty+"/none"), "class disks: --provision: open " + empty + "/none: no such file or directory"},
		{append(good, "--property", "imgae=x"), `class disks: data[imgae]: Forbidden: looks like a misspelling of the reserved key "image"*`},
		{append([]string{"Disks"}, good[1:]...), "class Disks: *must be the name of a Kubernetes object*"},
		{append([]string{"default"}, good[1:]...), "class default: --service-account: default is the account of all pods that name none: choose one for this class alone"},
		{[]string{"disks", "--image", "example.com/x"}, "class disks: --volume-types: missing: say which types of volumes its pods may make, such as nfs"},
		{[]string{"check"}, "kubectl flex class check takes the name of a StorageClass, got 0 arguments; see kubectl flex class check --help"},
	} {
		_, err := runClass(t, c.args...)
		if err == nil || !matches(c.want, err.Error()) {
			t.Errorf("%q: %v\nwant %s", c.args, err, c.want)
		}
	}
}

// matches compares with a text in which * stands for anything.
func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	for _, part := range parts {
		_, rest, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = rest
	}
	return true
}
