package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	// licences is where an image has the texts of its recipe.
	licences = "/licenses"
	// docs is where Debian has a folder for each package, with its licence.
	docs = "/usr/share/doc"
)

// commonLicence is a text that Debian has once for all packages, and to which their licences refer.
var commonLicence = regexp.MustCompile(`/usr/share/common-licenses/[A-Za-z0-9][A-Za-z0-9.+-]*[A-Za-z0-9]`)

// addLicences puts the texts into the layer that have to go along with what is in it. Those of files that Debian's packages
// installed on this machine are found here, with the names of their sources.
func addLicences(entries map[string]entry, recipe *Recipe) error {
	for _, dir := range recipe.Licences {
		if err := addTexts(entries, dir); err != nil {
			return err
		}
	}
	for _, f := range recipe.Files {
		if f.From == "" {
			continue
		}
		owner, known := ownerOf(f.From)
		if !known {
			continue
		}
		if err := addInstalled(entries, owner); err != nil {
			return fmt.Errorf("package %s: %w", owner, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if !isLicence(name) {
			continue
		}
		for _, common := range commonLicence.FindAllString(string(entries[name].data), -1) {
			if err := addText(entries, common, common); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// addTexts adds all files of a folder.
func addTexts(entries map[string]entry, dir string) error {
	return filepath.WalkDir(dir, func(file string, found fs.DirEntry, err error) error {
		if err != nil || found.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		return addText(entries, path.Join(licences, filepath.ToSlash(name)), file)
	})
}

func addText(entries map[string]entry, name, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	entries[name] = textEntry(data)
	return nil
}

func textEntry(data []byte) entry {
	return entry{header: tar.Header{Typeflag: tar.TypeReg, Mode: 0o644}, data: data}
}

func isLicence(name string) bool {
	return path.Base(name) == "copyright" && path.Dir(path.Dir(name)) == docs
}

// addInstalled adds the licence and the sources of an installed package.
func addInstalled(entries map[string]entry, pkg string) error {
	licence := path.Join(docs, pkg, "copyright")
	if err := addText(entries, licence, licence); err != nil {
		return fmt.Errorf("%w: install the package again, with its documentation", err)
	}
	return addSource(entries, "dpkg-query", "-W", "-f", sourceFormat, pkg)
}

// sourceFormat has dpkg say of a package what it was built from.
const sourceFormat = "${Package}\n${source:Package} (= ${source:Version})\n${Built-Using}, ${Static-Built-Using}"

// builtFrom is a source package and its version, as dpkg writes them.
var builtFrom = regexp.MustCompile(`([a-z0-9][a-z0-9.+-]*) \(= ([^)]+)\)`)

// addSource names the sources that a package was built from, as dpkg says them, and adds the licences of those that were
// linked into it.
func addSource(entries map[string]entry, dpkg string, args ...string) error {
	out, err := commandOutput("", dpkg, args...)
	if err != nil {
		return err
	}
	pkg, rest, _ := strings.Cut(string(out), "\n")
	sources := builtFrom.FindAllStringSubmatch(rest, -1)
	if len(sources) == 0 {
		return fmt.Errorf("dpkg says of its source: %s", out)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s is Debian's, as Debian built it from\n\n", pkg)
	for i, source := range sources {
		fmt.Fprintf(&text, "    %s %s\n", source[1], source[2])
		if i == 0 {
			continue
		}
		if err := addLinked(entries, source[1]); err != nil {
			return err
		}
	}
	fmt.Fprintf(&text, "\n\"apt-get source %s=%s\" fetches such a source on Debian, and Debian's snapshot archive keeps all versions.\n", sources[0][1], sources[0][2])
	entries[path.Join(docs, pkg, "SOURCE")] = textEntry([]byte(text.String()))
	return nil
}

// addLinked adds the licence of a source package, which any package that was built from it has.
func addLinked(entries map[string]entry, source string) error {
	out, err := commandOutput("", "dpkg-query", "-W", "-f", "${source:Package} ${Package}\n")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(out)) {
		from, pkg, _ := strings.Cut(strings.TrimSpace(line), " ")
		licence := path.Join(docs, pkg, "copyright")
		if from != source {
			continue
		}
		if err := addText(entries, licence, licence); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return fmt.Errorf("no package that was built from %s is installed with its licence: install one", source)
}
