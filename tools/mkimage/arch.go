package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
)

// machines are the architectures that programs are checked for.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// toArch has a recipe make an image for an architecture. Files that Debian installed on this machine are then those that the
// same version of the package has for that architecture.
func (r *Recipe) toArch(arch string) error {
	r.arch = arch
	if arch == runtime.GOARCH {
		return nil
	}
	if _, known := machines[arch]; !known {
		return fmt.Errorf("arch: %q: say amd64 or arm64", arch)
	}
	for i, f := range r.Files {
		owner, known := ownerOf(f.From)
		if f.From == "" || !known {
			continue
		}
		foreign, err := foreignFile(owner, f.From, arch)
		if err != nil {
			return fmt.Errorf("files[%d] (%s): %s of package %s for %s: %w", i, f.Path, f.From, owner, arch, err)
		}
		r.Files[i].foreign = foreign
	}
	return nil
}

// foreignFile is where a file of a Debian package lies as that architecture has it; empty where all have the same.
func foreignFile(owner, file, arch string) (string, error) {
	installed, err := commandOutput("", "dpkg-query", "-W", "-f", "${Version} ${Architecture}", owner)
	if err != nil {
		return "", err
	}
	version, of, _ := strings.Cut(string(installed), " ")
	if of == "all" {
		return "", nil
	}
	archives, err := fetchPackages([]string{owner}, arch)
	if err != nil {
		return "", err
	}
	// Licences and the list of applets are those of the installed package.
	found, err := commandOutput("", "dpkg-deb", "--show", "--showformat", "${Version}", archives[0])
	if err != nil {
		return "", err
	}
	if string(found) != version {
		return "", fmt.Errorf("version %s is installed here, and Debian has %s: apt-get install %s", version, found, owner)
	}
	content, err := commandOutput("", "dpkg-deb", "--fsys-tarfile", archives[0])
	if err != nil {
		return "", err
	}
	data, err := fileOf(content, file)
	if err != nil {
		return "", err
	}
	name := strings.TrimSuffix(archives[0], ".deb") + "-" + filepath.Base(file)
	return name, os.WriteFile(name, data, 0o755)
}

// fileOf is what a tar has as a file, which may lie below /usr.
func fileOf(content []byte, file string) ([]byte, error) {
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the package does not have it")
		}
		if err != nil {
			return nil, err
		}
		if name := path.Join("/", header.Name); header.Typeflag == tar.TypeReg && (name == file || name == "/usr"+file) {
			return io.ReadAll(r)
		}
	}
}

// checkMachine refuses a program for another architecture, because the kernel would only say that its format is wrong.
func checkMachine(program *elf.File, arch string) error {
	if want, known := machines[arch]; known && program.Machine != want {
		return fmt.Errorf("is a program for %s, and the image is for %s", program.Machine, arch)
	}
	return nil
}

// aptOptions have apt look at an architecture, without this machine's dpkg having to know of it.
func aptOptions(dir, arch string) ([]string, error) {
	if arch == "" || arch == runtime.GOARCH {
		return nil, nil
	}
	lists := filepath.Join(dir, "lists-"+arch)
	if err := os.MkdirAll(filepath.Join(lists, "partial"), 0o755); err != nil {
		return nil, err
	}
	var options []string
	for _, o := range []string{"APT::Architecture=" + arch, "APT::Architectures::=" + arch, "Dir::State::lists=" + lists, "Dir::State::status=/dev/null",
		"Dir::Cache::pkgcache=", "Dir::Cache::srcpkgcache=", "Acquire::Languages=none"} {
		options = append(options, "-o", o)
	}
	return options, nil
}

// aptGet runs apt-get with options and returns what it printed.
func aptGet(dir string, options []string, args ...string) ([]byte, error) {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return nil, err
	}
	return commandOutput(dir, "apt-get", append(append([]string{"-qq"}, options...), args...)...)
}
