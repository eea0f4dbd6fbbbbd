// Command mkrelease makes the files of a release that are neither images nor need a registry: the chart, the archives of
// kubectl flex with the manifest by which krew installs it, the notes, the provenance and the checksums. The same input
// always gives the same bytes. tools/release.sh calls it, last of all.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// release is what the files are made of.
type release struct {
	// version is a tag, such as v0.1.0.
	version string
	// registry is the prefix of the images' names.
	registry string
	// downloads is the URL below which the plugin's archives will lie.
	downloads string
	// commit is the hash of what was built, dirty whether it was changed.
	commit string
	dirty  bool
	// source is the checkout, digests has IMAGE.digest, and programs OS_ARCH/kubectl-flex.
	source, digests, programs string
	out                       string
}

// semantic is a version that krew, helm and Go's modules understand alike.
var semantic = regexp.MustCompile(`^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

func main() {
	r := release{}
	flag.StringVar(&r.version, "version", "", "tag of the release, such as v0.1.0")
	flag.StringVar(&r.registry, "registry", "", "prefix of the images' names, such as registry.example/flex")
	flag.StringVar(&r.downloads, "downloads", "", "URL below which the plugin's archives will lie")
	flag.StringVar(&r.commit, "commit", "", "hash of the commit that was built")
	flag.BoolVar(&r.dirty, "dirty", false, "the checkout was changed since the commit")
	flag.StringVar(&r.source, "source", ".", "the checkout")
	flag.StringVar(&r.digests, "digests", "", "folder with IMAGE.digest")
	flag.StringVar(&r.programs, "programs", "", "folder with OS_ARCH/kubectl-flex")
	flag.StringVar(&r.out, "out", "", "folder of the release, in which everything else is already")
	flag.Parse()
	if err := r.write(); err != nil {
		fmt.Fprintln(os.Stderr, "mkrelease:", err)
		os.Exit(1)
	}
}

func (r *release) write() error {
	if !semantic.MatchString(r.version) {
		return fmt.Errorf("-version %q: give a tag such as v0.1.0 or v0.1.0-rc.1", r.version)
	}
	images, err := r.images()
	if err != nil {
		return err
	}
	archives, err := r.writePlugin()
	if err != nil {
		return err
	}
	return errors.Join(r.writeChart(images), r.writeKrew(archives), r.writeNotes(images), r.writeProvenance(images), r.writeSums())
}

// images are the references of the release's images by their names.
func (r *release) images() (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(r.digests, "*.digest"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("-digests %q: has no IMAGE.digest", r.digests)
	}
	images := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name, digest := strings.TrimSuffix(filepath.Base(file), ".digest"), strings.TrimSpace(string(text))
		if !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(digest) {
			return nil, fmt.Errorf("%s: %q is no digest", file, digest)
		}
		images[name] = r.registry + "/" + name + "@" + digest
	}
	return images, nil
}

func (r *release) put(name string, data []byte) error {
	return os.WriteFile(filepath.Join(r.out, name), data, 0o644)
}

// files are the names of all files of the release, below its folder, in order. Signatures come later, and are not the same
// twice.
func (r *release) files() ([]string, error) {
	var names []string
	err := filepath.WalkDir(r.out, func(name string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && entry.Name() != sums {
			names = append(names, strings.TrimPrefix(name, filepath.Clean(r.out)+"/"))
		}
		return err
	})
	slices.Sort(names)
	return names, err
}
