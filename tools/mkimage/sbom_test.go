package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func TestSBOM(t *testing.T) {
	self, err := os.Executable() // a Go program with modules
	if err != nil {
		t.Fatal(err)
	}
	recipe := &Recipe{Names: []string{"example.com/x:v1"}, Files: []File{
		{Path: "/x", From: self}, {Path: "/etc/passwd", Text: "root"}, {Path: "/tmp", Dir: true}, {Path: "/bin/dpkg-query", From: "/usr/bin/dpkg-query"}}}
	text, err := SBOM(recipe)
	if err != nil {
		t.Fatal(err)
	}
	again, err := SBOM(recipe)
	if err != nil || !bytes.Equal(text, again) {
		t.Errorf("not the same twice, %v", err)
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	var refs []string
	for _, c := range *bom.Components {
		refs = append(refs, c.BOMRef)
	}
	all := strings.Join(refs, "\n")
	for _, want := range []string{"pkg:golang/stdlib@1.", "pkg:golang/github.com/CycloneDX/cyclonedx-go@v", "pkg:deb/debian/dpkg@1.", "/etc/passwd"} {
		if !strings.Contains(all, want) {
			t.Errorf("there is no %s among\n%s", want, all)
		}
	}
	if strings.Contains(all, "/tmp") {
		t.Error("a folder is a component")
	}
}
