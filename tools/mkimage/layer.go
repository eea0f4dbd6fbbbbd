package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"time"
)

// epoch is the time of everything in an image: an archive must depend on nothing but its recipe and files.
var epoch = time.Unix(0, 0).UTC()

// entry is one record of the layer.
type entry struct {
	header tar.Header
	data   []byte
}

// buildLayer returns an uncompressed tar of the packages and files, and their licences: sorted, owned by root, all of the
// same age.
func buildLayer(recipe *Recipe) ([]byte, error) {
	entries := map[string]entry{}
	if err := addPackages(entries, recipe.Packages, recipe.arch); err != nil {
		return nil, err
	}
	for _, f := range recipe.Files {
		if err := addFile(entries, f, recipe.arch); err != nil {
			return nil, fmt.Errorf("file %s: %w", f.Path, err)
		}
	}
	if err := addLicences(entries, recipe); err != nil {
		return nil, fmt.Errorf("licences: %w", err)
	}
	addParents(entries)
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, p := range slices.Sorted(maps.Keys(entries)) {
		e := entries[p]
		e.header.Name = strings.TrimPrefix(p, "/")
		if e.header.Typeflag == tar.TypeDir {
			e.header.Name += "/"
		}
		e.header.Size = int64(len(e.data))
		e.header.ModTime = epoch
		e.header.Format = tar.FormatPAX
		if err := w.WriteHeader(&e.header); err != nil {
			return nil, fmt.Errorf("write %s: %w", p, err)
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, fmt.Errorf("write %s: %w", p, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func addFile(entries map[string]entry, f File, arch string) error {
	e := entry{header: tar.Header{Typeflag: tar.TypeReg}}
	byDefault := int64(0o644)
	switch {
	case f.Dir:
		e.header.Typeflag, byDefault = tar.TypeDir, 0o755
	case f.Link != "":
		e.header.Typeflag, e.header.Linkname, byDefault = tar.TypeSymlink, f.Link, 0o777
	case f.From != "":
		data, executable, err := readSource(f.source(), arch)
		if err != nil {
			return err
		}
		e.data = data
		if executable {
			byDefault = 0o755
		}
	default:
		e.data = []byte(f.Text)
	}
	mode, err := f.mode(byDefault)
	if err != nil {
		return err
	}
	e.header.Mode = mode
	entries[f.Path] = e
	if f.Applets {
		return addApplets(entries, f)
	}
	return nil
}

// addApplets links each applet's name to the program; a file that is there already stays.
func addApplets(entries map[string]entry, f File) error {
	list, err := exec.Command(f.From, "--list").Output()
	if err != nil {
		return fmt.Errorf("applets: run %s --list: %w", f.From, err)
	}
	for _, applet := range strings.Fields(string(list)) {
		p := path.Join(path.Dir(f.Path), applet)
		if _, taken := entries[p]; taken || strings.Contains(applet, "/") {
			continue
		}
		entries[p] = entry{header: tar.Header{Typeflag: tar.TypeSymlink, Linkname: path.Base(f.Path), Mode: 0o777}}
	}
	return nil
}

func addParents(entries map[string]entry) {
	for _, p := range slices.Collect(maps.Keys(entries)) {
		for dir := path.Dir(p); dir != "/"; dir = path.Dir(dir) {
			if _, there := entries[dir]; !there {
				entries[dir] = entry{header: tar.Header{Typeflag: tar.TypeDir, Mode: 0o755}}
			}
		}
	}
}

// readSource returns a file's content and whether it is a program.
func readSource(file, arch string) (data []byte, executable bool, err error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, false, fmt.Errorf("from: %w", err)
	}
	if data, err = os.ReadFile(file); err != nil {
		return nil, false, fmt.Errorf("from: %w", err)
	}
	if err := checkProgram(data, arch); err != nil {
		return nil, false, fmt.Errorf("from: %s: %w", file, err)
	}
	return data, info.Mode()&0o111 != 0, nil
}

// checkProgram refuses a program for another architecture, and one that asks for a loader, because the image has none and
// the kernel would only say that the file does not exist.
func checkProgram(data []byte, arch string) error {
	program, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil // not a program in machine code
	}
	if err := checkMachine(program, arch); err != nil {
		return err
	}
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP {
			return errors.New("is dynamically linked and the image has no libraries: build it with CGO_ENABLED=0 or take a static one")
		}
	}
	return nil
}
