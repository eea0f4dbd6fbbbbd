package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// file is one of an archive.
type file struct {
	data []byte
	mode int64
}

// tarred is a .tar.gz of files, by their names: sorted, all of the same age, and nobody's.
func tarred(files map[string]file) ([]byte, error) {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	w := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := files[name]
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: f.mode, Size: int64(len(f.data)), ModTime: time.Unix(0, 0)}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := zipped.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// zipped is the same as a .zip, for Windows.
func zipped(files map[string]file) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &zip.FileHeader{Name: name, Method: zip.Deflate}
		header.SetMode(fs.FileMode(files[name].mode))
		part, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := part.Write(files[name].data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// addFolder adds what is below a folder, links followed, below a prefix.
func addFolder(files map[string]file, folder, prefix string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name, within := filepath.Join(folder, entry.Name()), path.Join(prefix, entry.Name())
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		if info.IsDir() {
			if err := addFolder(files, name, within); err != nil {
				return err
			}
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files[within] = file{data: data, mode: 0o644}
	}
	return nil
}
