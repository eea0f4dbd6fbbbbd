package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// addPackages puts the files of Debian packages into the layer, as this machine's apt would get them, and nothing of what
// installing them would do besides. They are fetched once and kept in the user's cache.
func addPackages(entries map[string]entry, packages []string, arch string) error {
	files, err := fetchPackages(packages, arch)
	if err != nil {
		return fmt.Errorf("fetch packages %s: %w", strings.Join(packages, ", "), err)
	}
	for _, file := range files {
		content, err := commandOutput("", "dpkg-deb", "--fsys-tarfile", file)
		if err != nil {
			return err
		}
		if err := addTar(entries, content); err != nil {
			return fmt.Errorf("package %s: %w", filepath.Base(file), err)
		}
		if err := addSource(entries, "dpkg-deb", "--show", "--showformat", sourceFormat, file); err != nil {
			return err
		}
	}
	return nil
}

// fetchPackages returns the archives of the packages for an architecture; empty is this machine's.
func fetchPackages(packages []string, arch string) ([]string, error) {
	if len(packages) == 0 {
		return nil, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "flex-provisioner", "packages")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	options, err := aptOptions(dir, arch)
	if err != nil {
		return nil, err
	}
	known, err := locate(dir, options, packages)
	if err != nil { // apt may never have been told what there is
		if _, updateErr := aptGet("", options, "update"); updateErr != nil {
			return nil, errors.Join(err, updateErr)
		}
		if known, err = locate(dir, options, packages); err != nil {
			return nil, err
		}
	}
	for i, pkg := range packages {
		if _, err := os.Stat(known[i]); err == nil {
			continue
		}
		if _, err := aptGet(dir, options, "-o", "APT::Sandbox::User=root", "download", pkg); err != nil {
			return nil, err
		}
	}
	return known, nil
}

// locate says where in dir the archive of each package lies, or will lie once apt has downloaded it.
func locate(dir string, options, packages []string) ([]string, error) {
	// One question for all of them, since apt reads its lists anew for each.
	out, err := aptGet("", options, append([]string{"download", "--print-uris"}, packages...)...)
	if err != nil {
		return nil, err
	}
	archives := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) >= 2 { // 'URI' FILE SIZE HASH
			name, _, _ := strings.Cut(filepath.Base(fields[1]), "_")
			archives[name] = filepath.Join(dir, filepath.Base(fields[1]))
		}
	}
	var files []string
	for _, pkg := range packages {
		if archives[pkg] == "" {
			return nil, fmt.Errorf("apt-get names no file for package %s", pkg)
		}
		files = append(files, archives[pkg])
	}
	return files, nil
}

// unread is what no program in an image needs. Licences below it stay.
var unread = []string{"/usr/share/doc/", "/usr/share/man/", "/usr/share/info/", "/usr/share/locale/", "/usr/share/lintian/"}

func addTar(entries map[string]entry, content []byte) error {
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Join("/", header.Name)
		// The documentation of some packages is a link to another's.
		linked := header.Typeflag == tar.TypeSymlink && path.Dir(name) == docs
		if name == "/" || isUnread(name) && !isLicence(name) && !linked {
			continue
		}
		// Nothing in a provisioner's image gains rights by being executed.
		e := entry{header: tar.Header{Typeflag: header.Typeflag, Linkname: header.Linkname, Mode: header.Mode & 0o1777}}
		switch header.Typeflag {
		case tar.TypeDir, tar.TypeSymlink:
		case tar.TypeReg:
			if e.data, err = io.ReadAll(r); err != nil {
				return err
			}
		case tar.TypeLink:
			target, there := entries[path.Join("/", header.Linkname)]
			if !there {
				return fmt.Errorf("%s is a link to %s, which is not there", name, header.Linkname)
			}
			e.header.Typeflag, e.header.Linkname, e.data = tar.TypeReg, "", target.data
		default:
			return fmt.Errorf("%s is neither a file, a folder nor a link", name)
		}
		entries[name] = e
	}
}

func isUnread(name string) bool {
	for _, prefix := range unread {
		if strings.HasPrefix(name+"/", prefix) {
			return true
		}
	}
	return false
}

func commandOutput(dir, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(complaint.Bytes()))
	}
	return out, nil
}
