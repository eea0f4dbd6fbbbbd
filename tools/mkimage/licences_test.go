package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What Debian installed brings its licence, that of what was linked into it, the texts that these refer to, and the names of
// its sources.
func TestLicencesOfInstalledPackages(t *testing.T) {
	busybox, err := os.ReadFile("/usr/share/doc/busybox-static/copyright")
	if err != nil {
		t.Skipf("busybox-static is not installed: %v", err)
	}
	version, err := exec.Command("dpkg-query", "-W", "-f", "${source:Version}", "busybox-static").Output()
	if err != nil {
		t.Fatal(err)
	}
	entries := map[string]entry{}
	if err := addLicences(entries, &Recipe{Files: []File{{Path: "/bin/busybox", From: "/bin/busybox"}, {Path: "/tmp", Dir: true}}}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"/usr/share/doc/busybox-static/copyright": string(busybox),
		"/usr/share/doc/busybox-static/SOURCE":    "busybox-static is Debian's, as Debian built it from\n\n    busybox " + string(version) + "\n    glibc ",
		"/usr/share/common-licenses/GPL-2":        "GNU GENERAL PUBLIC LICENSE\n                       Version 2",
		"/usr/share/common-licenses/LGPL-2.1":     "GNU LESSER GENERAL PUBLIC LICENSE\n                       Version 2.1",
	} {
		if got := string(entries[name].data); !strings.Contains(got, want) {
			t.Errorf("%s has no %q, but is\n%.300s", name, want, got)
		}
	}
	linked := 0
	for name := range entries {
		if isLicence(name) {
			linked++
		}
	}
	if linked != 2 {
		t.Errorf("there are %d licences of packages, want busybox's and glibc's", linked)
	}
}

func TestAddSource(t *testing.T) {
	for _, c := range []struct{ name, said, want, err string }{
		{"alone", "tool\ntool-src (= 1:2-3)\n, ", "tool is Debian's, as Debian built it from\n\n    tool-src 1:2-3\n\n" +
			"\"apt-get source tool-src=1:2-3\" fetches such a source on Debian, and Debian's snapshot archive keeps all versions.\n", ""},
		{"with another linked into it", "tool\ntool-src (= 1)\nnot-there-at-all (= 2), ", "", "no package that was built from not-there-at-all is installed with its licence: install one"},
		{"without a word of it", "tool\n", "", "dpkg says of its source: tool\n"},
	} {
		entries := map[string]entry{}
		err := addSource(entries, "printf", "%s", c.said)
		if got := string(entries["/usr/share/doc/tool/SOURCE"].data); got != c.want || (err != nil || c.err != "") && (err == nil || err.Error() != c.err) {
			t.Errorf("%s: got %q, %v, want %q, %s", c.name, got, err, c.want, c.err)
		}
	}
}
