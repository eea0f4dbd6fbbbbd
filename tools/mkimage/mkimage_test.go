package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// write makes a file below a new folder and returns the folder.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for file, text := range files {
		file = filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var example = map[string]string{
	"top/image.yaml": `
base: ../shell/image.yaml
names: [registry.invalid/flex-provisioner/top:dev, registry.example/top:v1]
entrypoint: [/provisioner.sh]
env: {ZONE: west}
licences: [texts]
files:
- {path: /provisioner.sh, from: provisioner.sh}
- {path: /etc/motd, text: top}
`,
	"top/provisioner.sh": "#!/bin/sh\ntrue\n",
	"shell/image.yaml": `
names: [registry.invalid/flex-provisioner/shell:dev]
entrypoint: [/bin/sh]
user: "65532"
env: {PATH: /bin, ZONE: none}
labels: {a: b}
licences: [texts]
files:
- {path: /bin/box, from: box, applets: true}
- {path: /bin/kept, text: mine, mode: "0700"}
- {path: /bin/sh2, link: box}
- {path: /tmp, dir: true, mode: "01777"}
- {path: /etc/motd, text: shell}
`,
	"shell/texts/example.com/x/LICENSE": "Shell's.",
	"top/texts/example.com/y/NOTICE":    "Top's.",
	"shell/box":                         "#!/bin/sh\necho ls; echo sh\n",
}

func TestBuildImage(t *testing.T) {
	dir := write(t, example)
	recipe, err := LoadRecipe(filepath.Join(dir, "top/image.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	image, err := BuildImage(recipe, "amd64")
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(config.OS, config.Architecture, config.Config.Entrypoint, config.Config.User, config.Config.Env,
		config.Config.Labels, config.Created.Unix())
	want := fmt.Sprint("linux", "amd64", []string{"/provisioner.sh"}, "65532", []string{"PATH=/bin", "ZONE=west"},
		map[string]string{"a": "b"}, 0)
	if got != want {
		t.Errorf("config:\n got %s\nwant %s", got, want)
	}
	layer, err := buildLayer(recipe)
	if err != nil {
		t.Fatal(err)
	}
	wantFiles := []string{
		"bin/ 755 dir", "bin/box 755 #!/bin/sh\necho ls; echo sh\n", "bin/kept 700 mine", "bin/ls 777 -> box",
		"bin/sh 777 -> box", "bin/sh2 777 -> box", "etc/ 755 dir", "etc/motd 644 top",
		"licenses/ 755 dir", "licenses/example.com/ 755 dir", "licenses/example.com/x/ 755 dir", "licenses/example.com/x/LICENSE 644 Shell's.",
		"licenses/example.com/y/ 755 dir", "licenses/example.com/y/NOTICE 644 Top's.",
		"provisioner.sh 755 #!/bin/sh\ntrue\n", "tmp/ 1777 dir",
	}
	if got := list(t, layer); !slices.Equal(got, wantFiles) {
		t.Errorf("files:\n got %q\nwant %q", got, wantFiles)
	}
}

// list describes each record of a tar and checks that it is root's and as old as all others.
func list(t *testing.T, layer []byte) (out []string) {
	t.Helper()
	r := tar.NewReader(bytes.NewReader(layer))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || !h.ModTime.Equal(epoch) {
			t.Errorf("%s: owner %d:%d time %v, want 0:0 %v", h.Name, h.Uid, h.Gid, h.ModTime, epoch)
		}
		what, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		switch h.Typeflag {
		case tar.TypeDir:
			what = []byte("dir")
		case tar.TypeSymlink:
			what = []byte("-> " + h.Linkname)
		}
		out = append(out, fmt.Sprintf("%s %o %s", h.Name, h.Mode, what))
	}
}

func TestArchiveIsReproducible(t *testing.T) {
	var archives [][]byte
	for range 2 {
		dir := write(t, example)
		out := filepath.Join(dir, "out/top.tar")
		if err := run(t.Context(), []string{"build", "-o", out, filepath.Join(dir, "top/image.yaml")}); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, data)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two builds of the same files differ")
	}
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archives[0])), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"registry.invalid/flex-provisioner/top:dev", "registry.example/top:v1"}
	if got := manifest[0].RepoTags; !slices.Equal(got, want) {
		t.Errorf("names: got %q, want %q", got, want)
	}
}

func TestPush(t *testing.T) {
	dir := write(t, example)
	archive := filepath.Join(dir, "top.tar")
	if err := run(t.Context(), []string{"build", "-o", archive, filepath.Join(dir, "top/image.yaml")}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	reference := strings.TrimPrefix(server.URL, "http://") + "/flex-provisioner/top:v1"
	pushed, err := Push(t.Context(), []string{archive}, reference, true)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	there, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := there.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.TrimSuffix(reference, ":v1") + "@" + digest.String(); pushed != want {
		t.Errorf("pushed %s, want %s", pushed, want)
	}
	if beside, err := os.ReadFile(strings.TrimSuffix(archive, ".tar") + ".digest"); err != nil || string(beside) != digest.String()+"\n" {
		t.Errorf("beside the archive there is %q, %v, want %s", beside, err, digest)
	}
}

func TestRefusedRecipes(t *testing.T) {
	const named = "names: [docker.io/a/b:c]\n"
	rows := []struct{ name, recipe, want string }{
		{"no name", "user: '1'\n", "names: is empty: give the image at least one name:tag"},
		{"untagged", "names: [docker.io/a/b]\n", `names[0]: "docker.io/a/b"`},
		{"unknown key", named + "entrypiont: [/a]\n", `unknown field "entrypiont"`},
		{"relative path", named + "files: [{path: a, text: b}]\n", `files[0] (a): path: "a": must be absolute, clean and not /`},
		{"nothing in it", named + "files: [{path: /a}]\n", "files[0] (/a): must have exactly one of from, text, link and dir"},
		{"two kinds", named + "files: [{path: /a, text: b, dir: true}]\n", "files[0] (/a): must have exactly one of from, text, link and dir"},
		{"decimal mode", named + "files: [{path: /a, text: b, mode: '0799'}]\n", `files[0] (/a): mode: "0799": must be octal, as in "0755"`},
		{"applets of text", named + "files: [{path: /a, text: b, applets: true}]\n", "files[0] (/a): applets: needs from: the program to ask"},
		{"option as package", named + "packages: [-y]\n", `packages[0]: "-y" is no name of a Debian package`},
		{"itself as base", named + "base: image.yaml\n", "base: leads back to itself"},
		{"missing licences", named + "licences: [absent]\n", "licences: lstat"},
		{"missing source", named + "files: [{path: /a, from: absent}]\n", "file /a: from: stat"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			dir := write(t, map[string]string{"image.yaml": row.recipe})
			out := filepath.Join(dir, "out.tar")
			err := run(t.Context(), []string{"build", "-o", out, filepath.Join(dir, "image.yaml")})
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got error %v, want one with %q", err, row.want)
			}
			if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
				t.Error("an archive was written")
			}
		})
	}
}

func TestRefusesDynamicPrograms(t *testing.T) {
	program, err := os.ReadFile("/bin/ls")
	if err != nil {
		t.Skip("no /bin/ls to look at")
	}
	want := "is dynamically linked and the image has no libraries: build it with CGO_ENABLED=0 or take a static one"
	if err := checkProgram(program, ""); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
