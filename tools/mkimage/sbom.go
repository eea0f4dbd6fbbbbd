package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// SBOM is what an image consists of, as CycloneDX JSON: the modules that its Go programs say they were built from, the
// Debian packages that files were copied from, and every other file by its hash. It has no time and no serial number, so
// that the same files always give the same text.
func SBOM(recipe *Recipe) ([]byte, error) {
	components := map[string]cdx.Component{}
	for _, f := range recipe.Files {
		if err := addComponents(components, f, recipe.arch); err != nil {
			return nil, fmt.Errorf("list components of %s: %w", f.Path, err)
		}
	}
	if err := addArchives(components, recipe.Packages, recipe.arch); err != nil {
		return nil, fmt.Errorf("list components of packages: %w", err)
	}
	list := make([]cdx.Component, 0, len(components))
	for _, c := range components {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &cdx.Component{Type: cdx.ComponentTypeContainer, BOMRef: recipe.Names[0], Name: recipe.Names[0]}}
	bom.Components = &list
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return nil, fmt.Errorf("encode components of %s: %w", recipe.Names[0], err)
	}
	return out.Bytes(), nil
}

func addComponents(components map[string]cdx.Component, f File, arch string) error {
	add := func(c cdx.Component) { components[c.BOMRef] = c }
	data := []byte(f.Text)
	switch {
	case f.From != "":
		if info, err := buildinfo.ReadFile(f.From); err == nil {
			addModules(add, info)
			return nil
		}
		if c, ok := debianPackage(f.From); ok {
			if f.foreign != "" {
				c = debian(c.Name, c.Version, arch)
			}
			add(c)
			return nil
		}
		var err error
		if data, err = os.ReadFile(f.From); err != nil {
			return err
		}
	case f.Text == "":
		return nil
	}
	sum := sha256.Sum256(data)
	add(cdx.Component{Type: cdx.ComponentTypeFile, BOMRef: f.Path, Name: f.Path,
		Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}})
	return nil
}

// addModules reads what the linker wrote into a program: what it was built from, and not what go.mod would like.
func addModules(add func(cdx.Component), info *buildinfo.BuildInfo) {
	golang := func(path, version string) {
		purl := "pkg:golang/" + path + "@" + version
		add(cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: purl, Name: path, Version: version, PackageURL: purl})
	}
	golang("stdlib", strings.TrimPrefix(info.GoVersion, "go"))
	golang(info.Main.Path, info.Main.Version)
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		golang(m.Path, m.Version)
	}
}

// debianPackage is the package that the file was installed by.
func debianPackage(file string) (cdx.Component, bool) {
	owner, known := ownerOf(file)
	if !known {
		return cdx.Component{}, false
	}
	out, err := exec.Command("dpkg-query", "-W", "-f", "${source:Package} ${Version} ${Architecture}", owner).Output()
	fields := strings.Fields(string(out))
	if err != nil || len(fields) != 3 {
		return cdx.Component{}, false
	}
	return debian(owner, fields[1], fields[2]), true
}

// ownerOf names the Debian package that installed the file, or made it, as ca-certificates makes its bundle.
func ownerOf(file string) (string, bool) {
	if file == "/etc/ssl/certs/ca-certificates.crt" {
		return "ca-certificates", true
	}
	// Where /bin is a link to /usr/bin, dpkg knows files by either name.
	for _, name := range []string{file, "/usr" + file} {
		if out, err := exec.Command("dpkg-query", "-S", name).Output(); err == nil {
			owner, _, _ := strings.Cut(string(out), ":")
			return owner, true
		}
	}
	return "", false
}

// addArchives adds the packages of a recipe by what their archives say.
func addArchives(components map[string]cdx.Component, packages []string, arch string) error {
	files, err := fetchPackages(packages, arch)
	if err != nil {
		return err
	}
	for _, file := range files {
		out, err := commandOutput("", "dpkg-deb", "--show", "--showformat", "${Package} ${Version} ${Architecture}", file)
		if err != nil {
			return err
		}
		fields := strings.Fields(string(out))
		if len(fields) != 3 {
			return fmt.Errorf("dpkg-deb says of %s: %s", file, out)
		}
		c := debian(fields[0], fields[1], fields[2])
		components[c.BOMRef] = c
	}
	return nil
}

func debian(name, version, arch string) cdx.Component {
	purl := fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s", name, strings.NewReplacer("+", "%2B", ":", "%3A").Replace(version), arch)
	return cdx.Component{Type: cdx.ComponentTypeApplication, BOMRef: purl, Name: name, Version: version, PackageURL: purl}
}
