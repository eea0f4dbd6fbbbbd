package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// archive is one of kubectl flex.
type archive struct {
	os, arch, name, program, sum string
}

// writePlugin writes an archive of kubectl flex, what it runs and their licences for each OS_ARCH of the programs.
func (r *release) writePlugin() ([]archive, error) {
	platforms, err := os.ReadDir(r.programs)
	if err != nil {
		return nil, fmt.Errorf("plugin: %w", err)
	}
	var made []archive
	for _, platform := range platforms {
		system, arch, found := strings.Cut(platform.Name(), "_")
		if !found {
			return nil, fmt.Errorf("plugin: %s in %s is no OS_ARCH", platform.Name(), r.programs)
		}
		a := archive{os: system, arch: arch, name: "kubectl-flex_" + r.version + "_" + platform.Name() + ".tar.gz", program: "kubectl-flex"}
		pack := tarred
		if system == "windows" {
			a.name, a.program, pack = strings.Replace(a.name, ".tar.gz", ".zip", 1), "kubectl-flex.exe", zipped
		}
		data, err := r.pluginArchive(a, platform.Name(), pack)
		if err != nil {
			return nil, fmt.Errorf("plugin for %s: %w", platform.Name(), err)
		}
		if err := r.put(a.name, data); err != nil {
			return nil, err
		}
		sum := sha256.Sum256(data)
		a.sum = hex.EncodeToString(sum[:])
		made = append(made, a)
	}
	return made, nil
}

func (r *release) pluginArchive(a archive, platform string, pack func(map[string]file) ([]byte, error)) ([]byte, error) {
	files := map[string]file{}
	programs := []string{a.program}
	if a.os == "linux" { // there the conformance kit runs, and puts flexctl on the PATH of scripts
		programs = append(programs, "flexctl")
	}
	for _, name := range programs {
		program, err := os.ReadFile(filepath.Join(r.programs, platform, name))
		if err != nil {
			return nil, err
		}
		files[name] = file{data: program, mode: 0o755}
	}
	licence, err := os.ReadFile(filepath.Join(r.source, "LICENSE"))
	if err != nil {
		return nil, err
	}
	files["LICENSE"] = file{data: licence, mode: 0o644}
	for _, name := range programs {
		licences := filepath.Join(r.source, "bin", "licences", strings.TrimSuffix(name, ".exe"))
		if err := addFolder(files, licences, "licenses"); err != nil {
			return nil, err
		}
	}
	return pack(files)
}

// writeKrew writes the manifest by which "kubectl krew install --manifest" installs the plugin.
func (r *release) writeKrew(archives []archive) error {
	var platforms []any
	for _, a := range archives {
		platforms = append(platforms, map[string]any{
			"selector": map[string]any{"matchLabels": map[string]string{"os": a.os, "arch": a.arch}},
			"uri":      strings.TrimSuffix(r.downloads, "/") + "/" + a.name,
			"sha256":   a.sum,
			"bin":      a.program,
		})
	}
	data, err := yaml.Marshal(map[string]any{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
		"kind":       "Plugin",
		"metadata":   map[string]string{"name": "flex"},
		"spec": map[string]any{
			"version":          r.version,
			"homepage":         "https://" + module,
			"shortDescription": "See why claims of flex-provisioner wait, and act on them",
			"description":      "Says how the claims, volumes and classes of flex-provisioner stand, why a claim waits,\nand what to do; shows logs of its pods, retries, and validates ConfigMaps.\n",
			"platforms":        platforms,
		},
	})
	if err != nil {
		return fmt.Errorf("krew manifest: %w", err)
	}
	return r.put("flex.yaml", data)
}
