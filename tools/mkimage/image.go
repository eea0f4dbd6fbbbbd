package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// BuildImage makes the image of a recipe: one layer, on top of nothing.
func BuildImage(recipe *Recipe, arch string) (v1.Image, error) {
	files, err := buildLayer(recipe)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files)), nil
	})
	if err != nil {
		return nil, fmt.Errorf("compress layer: %w", err)
	}
	image, err := mutate.Append(empty.Image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "mkimage"},
	})
	if err != nil {
		return nil, fmt.Errorf("append layer: %w", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read empty config: %w", err)
	}
	config = config.DeepCopy()
	config.Architecture, config.OS = arch, "linux"
	config.Created = v1.Time{Time: epoch}
	config.Config = v1.Config{
		Entrypoint: recipe.Entrypoint,
		User:       recipe.User,
		WorkingDir: recipe.Workdir,
		Env:        environment(recipe.Env),
		Labels:     recipe.Labels,
	}
	return mutate.ConfigFile(image, config)
}

func environment(env map[string]string) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(env)) {
		out = append(out, k+"="+env[k])
	}
	return out
}

// WriteArchive writes a docker-archive that carries the image under each of the names. The file appears whole or not at
// all, so that a build that was interrupted does not look finished.
func WriteArchive(file string, image v1.Image, names []string) error {
	data, err := archive(image, names)
	if err != nil {
		return fmt.Errorf("make archive %s: %w", file, err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	part := file + ".part"
	defer os.Remove(part)
	if err := os.WriteFile(part, data, 0o644); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	if err := os.Rename(part, file); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	return nil
}

// archive is written here and not by the tarball package, whose order of names is a map's.
func archive(image v1.Image, names []string) ([]byte, error) {
	config, err := image.RawConfigFile()
	if err != nil {
		return nil, err
	}
	configName, err := image.ConfigName()
	if err != nil {
		return nil, err
	}
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	manifest := tarball.Descriptor{Config: configName.Hex + ".json", RepoTags: names}
	if err := putArchived(w, manifest.Config, config); err != nil {
		return nil, err
	}
	for _, layer := range layers {
		digest, data, err := compressed(layer)
		if err != nil {
			return nil, err
		}
		manifest.Layers = append(manifest.Layers, digest+".tar.gz")
		if err := putArchived(w, digest+".tar.gz", data); err != nil {
			return nil, err
		}
	}
	list, err := json.Marshal(tarball.Manifest{manifest})
	if err != nil {
		return nil, err
	}
	if err := putArchived(w, "manifest.json", list); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func compressed(layer v1.Layer) (digest string, data []byte, err error) {
	hash, err := layer.Digest()
	if err != nil {
		return "", nil, err
	}
	r, err := layer.Compressed()
	if err != nil {
		return "", nil, err
	}
	defer r.Close()
	data, err = io.ReadAll(r)
	return hash.Hex, data, err
}

func putArchived(w *tar.Writer, name string, data []byte) error {
	err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), ModTime: epoch, Format: tar.FormatPAX})
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}
