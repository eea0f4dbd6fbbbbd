package docs

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDependencies: for each go.mod the modules that its packages import, tests included, and those whose tools it names.
// What go.mod says of direct and indirect is not believed.
func TestDependencies(t *testing.T) {
	const name = "docs/dependencies.md"
	modules := walk(t, func(name string) bool { return filepath.Base(name) == "go.mod" })
	for _, module := range modules {
		heading := "## " + module
		if strings.Contains(read(t, name), "\n### "+module+"\n") {
			heading = "### " + module
		}
		same(t, name+", "+module, column(table(t, section(t, name, heading)), 0), direct(t, filepath.Dir(module)))
	}
}

func direct(t *testing.T, dir string) []string {
	t.Helper()
	var mod struct {
		Require []struct{ Path string }
		Tool    []struct{ Path string }
	}
	if err := json.Unmarshal([]byte(output(t, dir, "go", "mod", "edit", "-json")), &mod); err != nil {
		t.Fatal(err)
	}
	const imports = `{{range .Imports}}{{.}}{{"\n"}}{{end}}{{range .TestImports}}{{.}}{{"\n"}}{{end}}{{range .XTestImports}}{{.}}{{"\n"}}{{end}}`
	packages := strings.Fields(output(t, dir, "go", "list", "-e", "-tags", tags, "-f", imports, "./..."))
	for _, tool := range mod.Tool {
		packages = append(packages, tool.Path)
	}
	var found []string
	for _, pkg := range packages {
		owner := ""
		for _, module := range mod.Require {
			if (pkg == module.Path || strings.HasPrefix(pkg, module.Path+"/")) && len(module.Path) > len(owner) {
				owner = module.Path
			}
		}
		if owner != "" && !slices.Contains(found, owner) {
			found = append(found, owner)
		}
	}
	return found
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
