package conformance

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// file is one record of a tar; a name that ends with a slash is a directory.
type file struct{ name, text, link string }

func tarOf(t *testing.T, files ...file) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: 0o755, Size: int64(len(f.text)), Typeflag: tar.TypeReg}
		switch {
		case strings.HasSuffix(f.name, "/"):
			header.Typeflag = tar.TypeDir
		case f.link != "":
			header.Typeflag, header.Linkname = tar.TypeSymlink, f.link
		}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(f.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

const configOfTest = `{"config": {"Entrypoint": ["/run"], "Cmd": ["now"], "Env": ["A=b"], "WorkingDir": "/tmp"}}`

// layers are one image: the second layer takes a file away and replaces another, and it hides what the first has in opt.
func layers(t *testing.T) (lower, upper string) {
	return string(tarOf(t, file{name: "etc/"}, file{name: "etc/a", text: "a"}, file{name: "etc/b", text: "b"}, file{name: "bin", link: "/usr/bin"},
			file{name: "opt/sub/old", text: "old"}, file{name: "opt/old", text: "old"})),
		string(tarOf(t, file{name: "etc/.wh.a"}, file{name: "etc/b", text: "new"}, file{name: "opt/sub/new", text: "new"}, file{name: "opt/.wh..wh..opq"}))
}

func TestUnpack(t *testing.T) {
	lower, upper := layers(t)
	for name, data := range map[string][]byte{
		"docker": tarOf(t, file{name: "config.json", text: configOfTest}, file{name: "1.tar", text: lower}, file{name: "2.tar", text: upper},
			file{name: "manifest.json", text: `[{"Config": "config.json", "Layers": ["1.tar", "2.tar"]}]`}),
		"OCI": tarOf(t, file{name: "index.json", text: `{"manifests": [{"digest": "sha256:m"}]}`},
			file{name: "blobs/sha256/m", text: `{"config": {"digest": "sha256:c"}, "layers": [{"digest": "sha256:1"}, {"digest": "sha256:2"}]}`},
			file{name: "blobs/sha256/c", text: configOfTest}, file{name: "blobs/sha256/1", text: lower}, file{name: "blobs/sha256/2", text: upper}),
	} {
		t.Run(name, func(t *testing.T) {
			dir, root := t.TempDir(), t.TempDir()
			image := filepath.Join(dir, "image.tar")
			if err := os.WriteFile(image, data, 0o600); err != nil {
				t.Fatal(err)
			}
			a, err := openArchive(image)
			if err != nil {
				t.Fatal(err)
			}
			defer a.file.Close()
			got, err := a.unpack(root)
			if err != nil || strings.Join(append(append(got.Entrypoint, got.Cmd...), append(got.Env, got.WorkingDir)...), " ") != "/run now A=b /tmp" {
				t.Errorf("program %+v, error %v", got, err)
			}
			if text, err := os.ReadFile(filepath.Join(root, "etc/b")); err != nil || string(text) != "new" {
				t.Errorf("the upper layer's file: %q, %v", text, err)
			}
			for _, gone := range []string{"etc/a", "opt/old", "opt/sub/old", "opt/.wh..opq"} {
				if exists(filepath.Join(root, gone)) {
					t.Errorf("%s, which the upper layer takes away, is there", gone)
				}
			}
			if !exists(filepath.Join(root, "opt/sub/new")) {
				t.Error("opt/sub/new, which the upper layer brings, is not there")
			}
			if to, err := os.Readlink(filepath.Join(root, "bin")); err != nil || to != "/usr/bin" {
				t.Errorf("the link leads to %q, %v", to, err)
			}
		})
	}
}

// What a layer says stays inside the image.
func TestUnpackHostile(t *testing.T) {
	for name, files := range map[string][]file{
		"a name that leads out": {{name: "../../planted", text: "x"}},
		"a link that leads out": {{name: "out", link: "/"}, {name: "out/planted", text: "x"}},
		"a link up":             {{name: "out", link: ".."}, {name: "out/planted", text: "x"}},
	} {
		dir := t.TempDir()
		root := filepath.Join(dir, "root")
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		a := &archive{room: roomOf}
		err := a.unpackLayer(bytes.NewReader(tarOf(t, files...)), root)
		inside := exists(filepath.Join(root, "planted"))
		if exists("/planted") || exists(filepath.Join(dir, "planted")) || err == nil && !inside {
			t.Errorf("%s: error %v, inside is %t", name, err, inside)
		}
	}
}

func TestNoArchive(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.tar")
	if err := os.WriteFile(name, tarOf(t, file{name: "a", text: "a"}), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openArchive(name); !errors.Is(err, errNoArchive) {
		t.Errorf("error %v", err)
	}
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}
