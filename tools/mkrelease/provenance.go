package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

const (
	module = "github.com/flex-provisioner/flex-provisioner"
	// sums has the checksums of all other files.
	sums = "SHA256SUMS"
)

// subject is one thing that was built.
type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// writeProvenance writes two forms of what the release was built from: an in-toto statement about all images and files, and
// its predicate alone, by which cosign makes a statement about each image. There is no time in it, so that the same commit
// gives the same text.
func (r *release) writeProvenance(images map[string]string) error {
	source := map[string]any{"uri": "git+https://" + module, "digest": map[string]string{"gitCommit": r.commit}}
	if r.dirty {
		source["annotations"] = map[string]bool{"dirty": true}
	}
	predicate := map[string]any{
		"buildDefinition": map[string]any{
			"buildType":            "https://" + module + "/blob/main/docs/release.md",
			"externalParameters":   map[string]string{"VERSION": r.version, "REGISTRY": r.registry},
			"resolvedDependencies": []any{source, map[string]any{"uri": "pkg:golang/stdlib@" + strings.TrimPrefix(runtime.Version(), "go")}},
		},
		"runDetails": map[string]any{"builder": map[string]string{"id": "https://" + module + "/blob/main/tools/release.sh"}},
	}
	var subjects []subject
	for _, name := range slices.Sorted(maps.Keys(images)) {
		repository, digest, _ := strings.Cut(images[name], "@sha256:")
		subjects = append(subjects, subject{repository, map[string]string{"sha256": digest}})
	}
	names, err := r.files()
	if err != nil {
		return fmt.Errorf("provenance: %w", err)
	}
	for _, name := range names {
		sum, err := r.sum(name)
		if err != nil {
			return fmt.Errorf("provenance: %w", err)
		}
		subjects = append(subjects, subject{name, map[string]string{"sha256": sum}})
	}
	if err := r.putJSON("provenance.slsa.json", predicate); err != nil {
		return err
	}
	return r.putJSON("provenance.intoto.json", map[string]any{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       subjects,
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate":     predicate,
	})
}

func (r *release) putJSON(name string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return r.put(name, append(data, '\n'))
}

func (r *release) sum(name string) (string, error) {
	data, err := os.ReadFile(filepath.Join(r.out, name))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// writeSums writes what "sha256sum --check" reads.
func (r *release) writeSums() error {
	names, err := r.files()
	if err != nil {
		return fmt.Errorf("checksums: %w", err)
	}
	var text bytes.Buffer
	for _, name := range names {
		sum, err := r.sum(name)
		if err != nil {
			return fmt.Errorf("checksums: %w", err)
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, name)
	}
	return r.put(sums, text.Bytes())
}

// writeNotes writes what the changelog says of the version, and the images. Before the changelog has the version, as in a
// trial, that is what is not released yet.
func (r *release) writeNotes(images map[string]string) error {
	data, err := os.ReadFile(filepath.Join(r.source, "CHANGELOG.md"))
	if err != nil {
		return fmt.Errorf("notes: %w", err)
	}
	section, found := sectionOf(string(data), strings.TrimPrefix(r.version, "v"))
	if !found {
		fmt.Fprintf(os.Stderr, "mkrelease: CHANGELOG.md has no section %s: the notes are those of Unreleased\n", strings.TrimPrefix(r.version, "v"))
		if section, found = sectionOf(string(data), "Unreleased"); !found {
			return fmt.Errorf("notes: CHANGELOG.md has neither a section %s nor Unreleased", r.version)
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "# flex-provisioner %s\n\n%s\n\n## Images\n\n", r.version, strings.TrimSpace(section))
	for _, name := range slices.Sorted(maps.Keys(images)) {
		fmt.Fprintf(&text, "    %s\n", images[name])
	}
	return r.put("NOTES.md", []byte(text.String()))
}

// sectionOf is the text below a heading of the second level that names the version, alone or with a date.
func sectionOf(changelog, version string) (string, bool) {
	heading := regexp.MustCompile(`(?m)^## \[?v?` + regexp.QuoteMeta(version) + `\]?( .*)?$`).FindStringIndex(changelog)
	if heading == nil {
		return "", false
	}
	text := changelog[heading[1]:]
	if end := strings.Index(text, "\n## "); end >= 0 {
		text = text[:end]
	}
	return text, true
}
