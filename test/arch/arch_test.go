package arch

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/flex-provisioner/flex-provisioner/"

// tags are the build tags of the project's tests.
const tags = "integration,e2e,cinder,conformance"

// arrows says which packages of the project each one may import, beside itself. A folder with /... stands for all below;
// the first line that fits counts. A package without a line here is an error: say what it may know.
var arrows = []arrow{
	{"sdk/contract", nil},
	{"internal/quantity", nil},
	{"internal/version", nil},
	{"internal/skeleton", []string{"sdk/contract"}},
	{"internal/documents", []string{"sdk/contract"}},
	{"configmaps", []string{"internal/documents", "internal/quantity", "sdk/contract"}},
	{"podspec", []string{"internal/skeleton", "configmaps", "sdk/contract"}},
	{"dispatcher/podlog", []string{"podspec", "sdk/contract"}},
	{"deploy/...", nil},
	{"dispatcher/audit", []string{"podspec", "configmaps", "sdk/contract"}},
	{"dispatcher/resize", []string{"podspec"}},
	{"dispatcher/observed", []string{"podspec", "configmaps", "sdk/contract"}},
	{"dispatcher/events", []string{"podspec", "sdk/contract"}},
	{"dispatcher/classes", []string{"dispatcher/events", "dispatcher/observed", "podspec", "configmaps", "sdk/contract"}},
	{"dispatcher/obstacles", []string{"dispatcher/observed", "dispatcher/resize", "dispatcher/events", "podspec", "configmaps", "sdk/contract"}},
	{"dispatcher/reconcile", []string{"dispatcher/obstacles", "dispatcher/observed", "dispatcher/resize", "dispatcher/events", "podspec", "sdk/contract"}},
	{"dispatcher/progress", []string{"dispatcher/reconcile", "dispatcher/observed", "dispatcher/resize", "dispatcher/events", "podspec", "sdk/contract"}},
	{"dispatcher/queue", nil},
	{"dispatcher/clock", nil},
	{"dispatcher/library", nil},
	{"dispatcher/cache", []string{"dispatcher/observed", "dispatcher/resize", "podspec", "configmaps", "sdk/contract"}},
	{"dispatcher/writer", []string{"dispatcher/observed", "dispatcher/resize", "podspec", "sdk/contract"}},
	{"dispatcher/reader", []string{"dispatcher/cache", "podspec", "sdk/contract"}},
	{"dispatcher/versions", []string{"dispatcher/reader", "dispatcher/writer", "configmaps"}},
	{"dispatcher/orphans", []string{"dispatcher/recorder", "dispatcher/cache", "dispatcher/observed", "dispatcher/events", "dispatcher/audit", "podspec", "sdk/contract"}},
	{"dispatcher/recorder", []string{"dispatcher/events", "podspec", "sdk/contract"}},
	{"dispatcher/admission", []string{"podspec", "configmaps", "sdk/contract", "deploy/..."}},
	{"dispatcher/controller", []string{"dispatcher/progress", "dispatcher/reconcile", "dispatcher/obstacles", "dispatcher/classes", "dispatcher/observed", "dispatcher/events", "dispatcher/recorder", "dispatcher/queue", "dispatcher/reader", "dispatcher/writer",
		"dispatcher/versions", "dispatcher/cache", "dispatcher/admission", "dispatcher/podlog", "podspec", "configmaps", "sdk/contract"}},
	{"dispatcher", []string{"dispatcher/controller", "dispatcher/orphans", "dispatcher/recorder", "dispatcher/library", "dispatcher/cache", "dispatcher/admission", "podspec"}},
	{"cmd/flex-provisioner", []string{"dispatcher/...", "podspec", "configmaps", "sdk/contract", "internal/version"}},
	{"cmd/flex-node/driver", []string{"sdk/contract"}},
	{"cmd/flex-node/host", []string{"cmd/flex-node/driver", "sdk/contract"}},
	{"cmd/flex-node", []string{"cmd/flex-node/driver", "cmd/flex-node/host", "internal/version", "sdk/contract"}},
	{"cmd/kubectl-flex/inspect", []string{"configmaps/allowlist", "dispatcher/progress", "dispatcher/reconcile", "dispatcher/observed", "dispatcher/resize", "dispatcher/events", "dispatcher/classes", "podspec", "configmaps", "sdk/contract"}},
	{"cmd/kubectl-flex", []string{"cmd/kubectl-flex/inspect", "configmaps/allowlist", "dispatcher/audit", "cmd/kubectl-flex/conformance", "dispatcher/admission", "dispatcher/podlog", "podspec", "configmaps", "sdk/contract", "internal/version"}},
	{"configmaps/allowlist", []string{"configmaps", "sdk/contract"}},
	{"cmd/flexctl/tree", nil},
	{"cmd/flexctl", []string{"cmd/flexctl/tree", "sdk/bare", "internal/documents", "internal/quantity", "sdk/contract", "internal/version"}},
	{"sdk/sdktest", []string{"sdk", "sdk/apiserver", "internal/skeleton", "sdk/contract"}},
	{"sdk/bare", []string{"sdk/contract"}},
	{"sdk/...", []string{"sdk/bare", "sdk/contract"}},
	{"cmd/kubectl-flex/conformance/sandbox", nil},
	{"cmd/kubectl-flex/conformance/...", []string{"cmd/kubectl-flex/conformance/sandbox", "sdk/...", "dispatcher/audit", "podspec", "configmaps", "sdk/contract"}},
	{"images/cinder-iscsi", []string{"images/cinder-iscsi/...", "sdk/...", "sdk/contract", "internal/version"}},
	{"images/cinder-iscsi/...", []string{"images/cinder-iscsi/...", "sdk/...", "sdk/contract"}},
	{"images/...", []string{"sdk/...", "sdk/contract"}},
	{"test/...", []string{"..."}},
}

type arrow struct {
	who string
	may []string
}

// pkg is what go list says of a package. Imports are those of the program, the others those of its tests.
type pkg struct {
	Dir, Name                          string
	ImportPath                         string
	Imports, TestImports, XTestImports []string
	GoFiles                            []string
	Deps                               []string
}

// name is the package's folder from the top.
func (p pkg) name() string { return strings.TrimPrefix(p.ImportPath, module) }

// ofTests says that a package is there for tests alone, like httptest.
func ofTests(name string) bool {
	return strings.HasPrefix(name, "test/") || strings.HasSuffix(path.Base(name), "test")
}

func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-tags", tags,
		"-json=Dir,Name,ImportPath,Imports,TestImports,XTestImports,GoFiles,Deps", "./...")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	var packages []pkg
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
	if len(packages) < 10 {
		t.Fatalf("go list found %d packages only", len(packages))
	}
	return packages
}

func fits(name, pattern string) bool {
	if below, ok := strings.CutSuffix(pattern, "..."); ok {
		return below == "" || name+"/" == below || strings.HasPrefix(name, below)
	}
	return name == pattern
}

func TestArrows(t *testing.T) {
	for _, p := range list(t) {
		line := slices.IndexFunc(arrows, func(a arrow) bool { return fits(p.name(), a.who) })
		if line < 0 {
			t.Errorf("package %s has no line in the table of arrows: say there what it may import", p.name())
			continue
		}
		for _, imported := range p.Imports {
			if name, ours := strings.CutPrefix(imported, module); ours {
				check(t, p.name(), name, arrows[line].may)
			}
		}
	}
}

func check(t *testing.T, name, imported string, may []string) {
	t.Helper()
	if !slices.ContainsFunc(may, func(pattern string) bool { return fits(imported, pattern) }) {
		t.Errorf("%s imports %s; it may import %s", name, imported, strings.Join(may, ", "))
	}
	if ofTests(imported) && !ofTests(name) {
		t.Errorf("%s imports %s, which is for tests", name, imported)
	}
}

// TestGophercloud: Cinder is the business of one image, and of the tests of it.
func TestGophercloud(t *testing.T) {
	for _, p := range list(t) {
		imports := p.Imports
		if !fits(p.name(), "test/cinder/...") {
			imports = slices.Concat(p.Imports, p.TestImports, p.XTestImports)
		}
		if fits(p.name(), "images/cinder-iscsi/...") {
			continue
		}
		for _, imported := range imports {
			if strings.HasPrefix(imported, "github.com/gophercloud/") {
				t.Errorf("%s imports %s: only images/cinder-iscsi may", p.name(), imported)
			}
		}
	}
}

// pure are the packages that turn values into values.
var pure = []string{"sdk/contract", "internal/quantity", "internal/skeleton", "configmaps", "podspec", "dispatcher/observed", "dispatcher/resize", "dispatcher/events", "dispatcher/classes", "dispatcher/obstacles", "dispatcher/reconcile", "dispatcher/progress", "cmd/kubectl-flex/inspect"}

// TestPure: no clock, randomness, environment, network or context; and no client, however far away.
func TestPure(t *testing.T) {
	impure := []string{"context", "io/ioutil", "log", "math/rand", "math/rand/v2", "crypto/rand", "net", "net/http", "os", "os/exec", "syscall", "sync"}
	far := []string{"k8s.io/client-go", "sigs.k8s.io/sig-storage-lib-external-provisioner"}
	for _, p := range list(t) {
		if !slices.Contains(pure, p.name()) {
			continue
		}
		for _, imported := range p.Imports {
			if slices.Contains(impure, imported) {
				t.Errorf("%s imports %s: it is pure", p.name(), imported)
			}
		}
		for _, dependency := range p.Deps {
			if slices.ContainsFunc(far, func(prefix string) bool { return strings.HasPrefix(dependency, prefix) }) {
				t.Errorf("%s depends on %s: it is pure", p.name(), dependency)
			}
		}
		for _, file := range p.GoFiles {
			checkClock(t, filepath.Join(p.Dir, file))
		}
	}
}

// checkClock: of package time only durations and times that are handed in.
func checkClock(t *testing.T, name string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	clock := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
	ast.Inspect(file, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if of, ok := selector.X.(*ast.Ident); ok && of.Name == "time" && slices.Contains(clock, selector.Sel.Name) {
			t.Errorf("%s uses time.%s: its package is pure", name, selector.Sel.Name)
		}
		return true
	})
}

// TestContractIsLight: what every image builds against imports nothing but the standard library.
func TestContractIsLight(t *testing.T) {
	for _, p := range list(t) {
		if p.name() != "sdk/contract" {
			continue
		}
		for _, imported := range p.Imports {
			if strings.Contains(imported, ".") {
				t.Errorf("contract imports %s, which is not of the standard library", imported)
			}
		}
	}
}
