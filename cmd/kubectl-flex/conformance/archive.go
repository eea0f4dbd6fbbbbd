package conformance

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/conformance/sandbox"
)

// program is the configuration of an image's program.
type program struct {
	Entrypoint, Cmd, Env []string
	WorkingDir           string
}

// archive is an image in the format of `docker save`, or an OCI layout in a tar.
type archive struct {
	file  *os.File
	parts map[string]part
	room  room
	// hostUsers reports whether the image's users are those of this machine.
	hostUsers bool
}

// room is what an image may still take. An archive of a few bytes can say that it holds a file of terabytes.
// names are the bytes of the names of one layer's files, which are kept in memory.
type room struct{ files, names, read, written int64 }

// roomOf every image.
var roomOf = room{files: 1 << 20, names: 256 << 20, read: 16 << 30, written: 16 << 30}

var errTooLarge = errors.New("the image is larger than the kit unpacks: 16 GiB, a million files, or 256 MiB of names in a layer")

// bounded is a reader that fails where the room ends.
type bounded struct {
	from io.Reader
	left *int64
}

func (b bounded) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if *b.left -= int64(n); *b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// maxParts limits the parts of an archive, which are layers and their descriptions.
const maxParts = 10_000

// maxManifest limits the parts of an archive that are read as a whole.
const maxManifest = 4 << 20

type part struct{ offset, size int64 }

// errNoArchive says that a file is no archive of an image.
var errNoArchive = errors.New("no image archive")

// openArchive reads the positions of the parts of an archive.
func openArchive(name string) (*archive, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open image: %w", err)
	}
	a := &archive{file: file, parts: map[string]part{}, room: roomOf}
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		var at int64
		if err == nil {
			at, err = file.Seek(0, io.SeekCurrent)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("read image %s: %w", name, errNoArchive), file.Close())
		}
		if len(a.parts) == maxParts {
			return nil, errors.Join(fmt.Errorf("read image %s: %w", name, errTooLarge), file.Close())
		}
		a.parts[path.Clean(header.Name)] = part{at, header.Size}
	}
	_, docker := a.parts["manifest.json"]
	_, oci := a.parts["index.json"]
	if !docker && !oci {
		return nil, errors.Join(fmt.Errorf("read image %s: %w", name, errNoArchive), file.Close())
	}
	return a, nil
}

func (a *archive) part(name string) (io.Reader, error) {
	p, found := a.parts[path.Clean(name)]
	if !found {
		return nil, fmt.Errorf("read image %s: it lacks %s", a.file.Name(), name)
	}
	return io.NewSectionReader(a.file, p.offset, p.size), nil
}

func (a *archive) read(name string, into any) error {
	r, err := a.part(name)
	if err != nil {
		return err
	}
	if err := json.NewDecoder(io.LimitReader(r, maxManifest)).Decode(into); err != nil {
		return fmt.Errorf("read image %s: %s: %w", a.file.Name(), name, err)
	}
	return nil
}

// contents returns the names of the configuration and layers of the first image.
func (a *archive) contents() (config string, layers []string, err error) {
	if _, docker := a.parts["manifest.json"]; docker {
		var images []struct {
			Config string
			Layers []string
		}
		if err := a.read("manifest.json", &images); err != nil {
			return "", nil, err
		}
		if len(images) == 0 {
			return "", nil, fmt.Errorf("read image %s: it holds no image", a.file.Name())
		}
		return images[0].Config, images[0].Layers, nil
	}
	manifest, err := a.manifest("index.json", 0)
	if err != nil {
		return "", nil, err
	}
	for _, layer := range manifest.Layers {
		layers = append(layers, layer.blob())
	}
	return manifest.Config.blob(), layers, nil
}

// descriptor names a part of an OCI layout.
type descriptor struct {
	Digest   string
	Platform struct{ Architecture string }
}

func (d descriptor) blob() string { return "blobs/" + strings.ReplaceAll(d.Digest, ":", "/") }

// manifest is an index, or the manifest of an image.
type manifest struct {
	Manifests, Layers []descriptor
	Config            descriptor
}

// manifest follows indexes to the image for this platform, or else to the first one.
func (a *archive) manifest(name string, depth int) (manifest, error) {
	var m manifest
	if err := a.read(name, &m); err != nil || m.Config.Digest != "" {
		return m, err
	}
	if len(m.Manifests) == 0 || depth > 3 {
		return m, fmt.Errorf("read image %s: it holds no image", a.file.Name())
	}
	at := slices.IndexFunc(m.Manifests, func(d descriptor) bool { return d.Platform.Architecture == runtime.GOARCH })
	return a.manifest(m.Manifests[max(at, 0)].blob(), depth+1)
}

// unpack unpacks the layers of the image into a directory.
func (a *archive) unpack(dir string) (program, error) {
	config, layers, err := a.contents()
	if err != nil {
		return program{}, err
	}
	var image struct{ Config program }
	if err := a.read(config, &image); err != nil {
		return program{}, err
	}
	for _, layer := range layers {
		r, err := a.part(layer)
		if err == nil {
			err = a.unpackLayer(r, dir)
		}
		if err != nil {
			return program{}, fmt.Errorf("unpack image %s: %w", a.file.Name(), err)
		}
	}
	return image.Config, nil
}

func (a *archive) unpackLayer(r io.Reader, dir string) error {
	// No link of the image may lead out of the directory.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	head := make([]byte, 2)
	n, err := io.ReadFull(r, head)
	if err != nil {
		return err
	}
	r = io.MultiReader(bytes.NewReader(head[:n]), r)
	if head[0] == 0x1f && head[1] == 0x8b {
		if r, err = gzip.NewReader(r); err != nil {
			return err
		}
	}
	own, names := map[string]bool{}, a.room.names
	for files := tar.NewReader(bounded{r, &a.room.read}); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		a.room.files--
		if err == nil {
			names -= int64(len(header.Name))
		}
		if err == nil && (a.room.files < 0 || names < 0) {
			err = errTooLarge
		}
		if err == nil {
			err = a.unpackFile(root, header, bounded{files, &a.room.written}, own)
		}
		if err != nil {
			return fmt.Errorf("a layer: %w", err)
		}
	}
}

// opaque is the name of a whiteout that hides all that the layers below have in its directory.
const opaque = ".wh..wh..opq"

// unpackFile unpacks a file, or removes some for a whiteout. It skips devices, since the sandbox has its own. The names
// of the layer's files, and of the directories that hold them, are added to own.
func (a *archive) unpackFile(root *os.Root, header *tar.Header, content io.Reader, own map[string]bool) error {
	name := strings.TrimPrefix(path.Clean("/"+header.Name), "/")
	if name == "" {
		return nil
	}

	parent, base := path.Split(name)
	if base == opaque {
		again := own[name] // each walks the directory, and an image may have a million of them
		own[name] = true
		if again {
			return nil
		}
		return hide(root, path.Clean(parent), own)
	}
	if removed, is := strings.CutPrefix(base, ".wh."); is {
		return root.RemoveAll(path.Join(parent, removed))
	}

	for at := name; at != "." && !own[at]; at = path.Dir(at) {
		own[at] = true
	}
	if parent != "" {
		if err := root.MkdirAll(filepath.Clean(parent), 0o755); err != nil {
			return err
		}
	}
	if header.Typeflag != tar.TypeDir {
		if err := root.RemoveAll(name); err != nil {
			return err
		}
	}
	mode := header.FileInfo().Mode().Perm()
	if header.Typeflag == tar.TypeDir {
		mode |= 0o700 // who is not root has to unpack into it, and to remove it
	}
	switch header.Typeflag {
	case tar.TypeDir:
		if err := root.MkdirAll(name, mode); err != nil {
			return err
		}
		return a.chown(root, name, header, mode)
	case tar.TypeSymlink:
		return root.Symlink(header.Linkname, name)
	case tar.TypeLink:
		return root.Link(strings.TrimPrefix(path.Clean("/"+header.Linkname), "/"), name)
	case tar.TypeReg:
		file, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, mode)
		if err != nil {
			return err
		}
		_, err = io.Copy(file, content)
		if err = errors.Join(err, file.Close()); err != nil {
			return err
		}
		return a.chown(root, name, header, mode)
	}
	return nil
}

// hide removes what is in a directory and not the layer's own. The whiteout may follow files of its layer.
func hide(root *os.Root, dir string, own map[string]bool) error {
	err := fs.WalkDir(root.FS(), dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == dir || own[name] {
			return err
		}
		if err := root.RemoveAll(name); err != nil || !entry.IsDir() {
			return err
		}
		return fs.SkipDir
	})

	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// chown sets the owner and then the mode, since the former changes the latter. The owner is who that user of the image
// is in the sandbox. No file of an image is set-user-ID on this machine: it would have no effect in a pod.
func (a *archive) chown(root *os.Root, name string, header *tar.Header, mode os.FileMode) error {
	if err := root.Lchown(name, sandbox.HostID(header.Uid, a.hostUsers), sandbox.HostID(header.Gid, a.hostUsers)); err != nil {
		return err
	}
	return root.Chmod(name, mode|header.FileInfo().Mode()&os.ModeSticky)
}
