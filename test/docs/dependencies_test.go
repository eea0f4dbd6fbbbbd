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
