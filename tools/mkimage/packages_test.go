package main

import (
	"archive/tar"
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
)

// packed is a tar as a Debian package holds it.
func packed(t *testing.T, headers []tar.Header, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(text))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestAddTar(t *testing.T) {
	entries := map[string]entry{}
	err := addTar(entries, packed(t, []tar.Header{
		{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "./usr/bin/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "./usr/bin/tool", Typeflag: tar.TypeReg, Mode: 0o4755, Uid: 7},
		{Name: "./usr/bin/same", Typeflag: tar.TypeLink, Linkname: "./usr/bin/tool", Mode: 0o755},
		{Name: "./usr/bin/short", Typeflag: tar.TypeSymlink, Linkname: "tool", Mode: 0o777},
		{Name: "./usr/share/doc/tool/copyright", Typeflag: tar.TypeReg, Mode: 0o644},
		{Name: "./usr/share/doc/tool/README", Typeflag: tar.TypeReg, Mode: 0o644},
		{Name: "./usr/share/doc/same", Typeflag: tar.TypeSymlink, Linkname: "tool", Mode: 0o777},
		{Name: "./usr/share/man/man1/same.1", Typeflag: tar.TypeSymlink, Linkname: "tool.1", Mode: 0o777},
	}, "#!/bin/sh\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/usr/bin", "/usr/bin/same", "/usr/bin/short", "/usr/bin/tool", "/usr/share/doc/same", "/usr/share/doc/tool/copyright"}
	if got := slices.Sorted(maps.Keys(entries)); !slices.Equal(got, want) {
		t.Errorf("the layer has %v, want %v", got, want)
	}
	for _, name := range []string{"/usr/bin/tool", "/usr/bin/same"} {
		e := entries[name]
		if e.header.Typeflag != tar.TypeReg || e.header.Mode != 0o755 || e.header.Uid != 0 || string(e.data) != "#!/bin/sh\n" {
			t.Errorf("%s is %+v with %q, want a program of root's", name, e.header, e.data)
		}
	}
	if got := entries["/usr/bin/short"].header.Linkname; got != "tool" {
		t.Errorf("/usr/bin/short leads to %q, want tool", got)
	}
}

func TestAddTarRefuses(t *testing.T) {
	for want, header := range map[string]tar.Header{
		"/dev/null is neither a file, a folder nor a link": {Name: "./dev/null", Typeflag: tar.TypeChar},
		"/a is a link to ./b, which is not there":          {Name: "./a", Typeflag: tar.TypeLink, Linkname: "./b"},
	} {
		if err := addTar(map[string]entry{}, packed(t, []tar.Header{header}, "")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}
