package docs

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var item = regexp.MustCompile(`(?m)^\* \[([^\]]+)\]\(([^)]+)\): .`)

// TestNavigation: docs/README.md, which is the site's menu too, has every page of docs/ once, by its title.
func TestNavigation(t *testing.T) {
	const name = "docs/README.md"
	var listed, pages []string
	for _, match := range item.FindAllStringSubmatch(read(t, name), -1) {
		path := filepath.Join("docs", match[2])
		listed = append(listed, path)
		title, _, _ := strings.Cut(read(t, path), "\n")
		if title != "# "+match[1] {
			t.Errorf("%s calls %s %q, whose title is %q", name, path, match[1], title)
		}
	}
	if items := strings.Count(read(t, name), "\n* "); items != len(listed) {
		t.Errorf("%s has %d items, of which %d are of the form * [title](page): what it is", name, items, len(listed))
	}
	for _, page := range markdown(t) {
		if strings.HasPrefix(page, "docs/") && page != name {
			pages = append(pages, page)
		}
	}
	// Pages from elsewhere may be there too, once.
	same(t, name, slices.DeleteFunc(slices.Clone(listed), func(page string) bool { return !strings.HasPrefix(page, "docs/") }), pages)
	for i, page := range listed {
		if slices.Contains(listed[:i], page) {
			t.Errorf("%s has %s twice", name, page)
		}
	}
}

// TestStartPages: there is one for each of four people, README.md and docs/README.md lead to it, it fits a screen, and it has no command
// that none of the pages that it links to has, so that what is tried there is tried here.
func TestStartPages(t *testing.T) {
	var listed, linked []string
	for _, match := range item.FindAllStringSubmatch(section(t, "docs/README.md", "## Start here"), -1) {
		listed = append(listed, "docs/"+match[2])
	}
	for _, match := range regexp.MustCompile(`\]\((docs/start-[a-z-]+\.md)\)`).FindAllStringSubmatch(read(t, "README.md"), -1) {
		linked = append(linked, match[1])
	}
	people := []string{"docs/start-operator.md", "docs/start-author.md", "docs/start-developer.md", "docs/start-on-call.md"}
	same(t, "docs/README.md, start pages", listed, people)
	same(t, "README.md, start pages", linked, people)
	for _, page := range people {
		text := read(t, page)
		if n := strings.Count(text, "\n"); n > 50 {
			t.Errorf("%s has %d lines, more than a screen of 50", page, n)
		}
		var pages strings.Builder
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			target, _, _ := strings.Cut(match[1], "#")
			pages.WriteString(read(t, filepath.Join("docs", target)))
		}
		commands := 0
		for line := range strings.Lines(text) {
			if command := strings.TrimSpace(line); strings.HasPrefix(line, "    kubectl ") || strings.HasPrefix(line, "       kubectl ") {
				commands++
				if !strings.Contains(pages.String(), command) {
					t.Errorf("%s has the command %q, which none of the pages has that it links to", page, command)
				}
			}
		}
		if commands == 0 {
			t.Errorf("%s has no command", page)
		}
	}
}

// TestPackagesOfSite: docs/dependencies.md has the packages that the site is built with, each of one version, and all have a hash.
func TestPackagesOfSite(t *testing.T) {
	const name = "docs/dependencies.md"
	var manifest struct{ DevDependencies map[string]string }
	var lock struct {
		Packages map[string]struct{ Version, Integrity, Resolved string }
	}
	for file, value := range map[string]any{"tools/site/package.json": &manifest, "tools/site/package-lock.json": &lock} {
		if err := json.Unmarshal([]byte(read(t, file)), value); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	var direct []string
	for pkg, version := range manifest.DevDependencies {
		direct = append(direct, pkg)
		if locked := lock.Packages["node_modules/"+pkg].Version; locked != version {
			t.Errorf("tools/site/package.json wants %s %s, and the lock has %q", pkg, version, locked)
		}
	}
	same(t, name+", tools/site", column(table(t, section(t, name, "## tools/site/package.json")), 0), direct)
	for path, pkg := range lock.Packages {
		if path != "" && (!strings.HasPrefix(pkg.Integrity, "sha512-") || pkg.Resolved != "") {
			t.Errorf("tools/site/package-lock.json: %s has the hash %q, and the address %q", path, pkg.Integrity, pkg.Resolved)
		}
	}
}

// TestInstallOn: each platform is in the table that says who tried it, and one that nobody tried says so where its commands are.
func TestInstallOn(t *testing.T) {
	const name = "docs/install-on.md"
	var listed, sections []string
	for _, row := range table(t, read(t, name)) {
		platform := regexp.MustCompile(`^\[(.+)\]\(#`).FindStringSubmatch(row[0])[1]
		listed = append(listed, platform)
		if not := strings.HasPrefix(strings.TrimSpace(section(t, name, "## "+platform)), "Not tried"); not != strings.HasPrefix(row[1], "nobody") {
			t.Errorf("%s says of %s that %s tried it, and its section says otherwise", name, platform, row[1])
		}
	}
	for _, match := range regexp.MustCompile(`(?m)^## (.+)$`).FindAllStringSubmatch(read(t, name), -1) {
		sections = append(sections, match[1])
	}
	same(t, name, listed, sections)
}
