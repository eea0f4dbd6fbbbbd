package main

import (
	"debug/elf"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// other is an architecture that this machine does not have.
func other() string {
	if runtime.GOARCH == "arm64" {
		return "amd64"
	}
	return "arm64"
}

// Archives of two architectures are one index, with the digest that was told before it was pushed.
func TestPushIndex(t *testing.T) {
	address := serving(t, "")
	dir := write(t, example)
	var archives []string
	for _, arch := range []string{runtime.GOARCH, other()} {
		archive := filepath.Join(dir, arch+".tar")
		if err := run(t.Context(), []string{"build", "-arch", arch, "-o", archive, filepath.Join(dir, "top/image.yaml")}); err != nil {
			t.Fatal(err)
		}
		archives = append(archives, archive)
	}
	digest, err := Digest(archives...)
	if err != nil {
		t.Fatal(err)
	}
	pushed, err := Push(t.Context(), archives, address+"/flex/top:v1", true)
	if want := address + "/flex/top@" + digest; err != nil || pushed != want {
		t.Fatalf("pushed %s, %v; want %s", pushed, err, want)
	}
	ref, err := name.ParseReference(pushed, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for i, arch := range []string{runtime.GOARCH, other()} {
		if got := manifest.Manifests[i].Platform.String(); got != "linux/"+arch {
			t.Errorf("image %d is for %s, want linux/%s", i, got, arch)
		}
	}
	if _, err := Digest(archives[0], archives[0]); err == nil || err.Error() != "two images are for "+runtime.GOARCH {
		t.Errorf("an index of the same image twice: %v", err)
	}
}

// A program for another machine is refused: this test's own, as a file of an image that it cannot run in.
func TestBuildRefusesAnotherMachine(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := write(t, map[string]string{"image.yaml": "names: [example.com/x:v1]\nfiles: [{path: /x, from: " + self + "}]\n"})
	err = run(t.Context(), []string{"build", "-arch", other(), "-o", filepath.Join(dir, "x.tar"), filepath.Join(dir, "image.yaml")})
	if want := "is a program for " + machines[runtime.GOARCH].String() + ", and the image is for " + other(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want %s", err, want)
	}
	err = run(t.Context(), []string{"build", "-arch", "vax", "-o", filepath.Join(dir, "x.tar"), filepath.Join(dir, "image.yaml")})
	if want := `arch: "vax": say amd64 or arm64`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want %s", err, want)
	}
}

// A file of Debian's comes from the package of the image's architecture. Where no archive of Debian can be reached, nothing
// is said.
func TestForeignFile(t *testing.T) {
	if _, known := ownerOf("/bin/busybox"); !known {
		t.Skip("busybox-static is not installed here")
	}
	recipe := &Recipe{Names: []string{"example.com/x:v1"}, Files: []File{{Path: "/bin/busybox", From: "/bin/busybox"}}}
	if err := recipe.toArch(other()); err != nil {
		t.Skipf("Debian's archive does not answer: %v", err)
	}
	program, err := elf.Open(recipe.Files[0].source())
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	if program.Machine != machines[other()] {
		t.Errorf("the program is for %s", program.Machine)
	}
	text, err := SBOM(recipe)
	if err != nil || !strings.Contains(string(text), "?arch="+other()) {
		t.Errorf("%v: the components are not of %s: %s", err, other(), text)
	}
}
