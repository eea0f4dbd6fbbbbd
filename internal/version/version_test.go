package version

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"testing"
)

func TestOf(t *testing.T) {
	built := func(version string) *debug.BuildInfo { return &debug.BuildInfo{Main: debug.Module{Version: version}} }
	for name, c := range map[string]struct {
		stamp string
		info  *debug.BuildInfo
		want  string
	}{
		"by make":                   {"v1.2.3-4-gabcdef0", built("(devel)"), "v1.2.3-4-gabcdef0"},
		"by make, of a release":     {"v1.2.3", built("v1.2.2"), "v1.2.3"},
		"by go install":             {"", built("v1.2.3"), "v1.2.3"},
		"by go build in a checkout": {"", built("v0.0.0-20260102030405-abcdef012345+dirty"), "v0.0.0-20260102030405-abcdef012345+dirty"},
		"with -buildvcs=false":      {"", built("(devel)"), "v0.0.0-dev"},
		"without modules":           {"", built(""), "v0.0.0-dev"},
		"without any information":   {"", nil, "v0.0.0-dev"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := of(c.stamp, c.info); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// stampIn is the variable that the linker is to set, as the first group of the pattern finds it in a file.
func stampIn(t *testing.T, file, pattern string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	match := regexp.MustCompile(pattern).FindSubmatch(text)
	if match == nil {
		t.Fatalf("%s has nothing like %s", file, pattern)
	}
	return string(match[1])
}

// TestStamp: every program says the version that it was linked with, by the Makefile and by a release. The linker is
// silent where they name a variable that does not exist.
func TestStamp(t *testing.T) {
	stamp := stampIn(t, "../../Makefile", `-X ([^ ]+)=%`)
	released := stampIn(t, "../../tools/release.sh", `module=(\S+)`) + stampIn(t, "../../tools/release.sh", `-X \$module(/[^ ]+)=`)
	if released != stamp {
		t.Errorf("tools/release.sh stamps %s, the Makefile %s", released, stamp)
	}

	for _, pattern := range []string{"../../cmd/*/main.go", "../../images/*/main.go"} {
		programs, err := filepath.Glob(pattern)
		if err != nil || len(programs) == 0 {
			t.Fatalf("%s names %d programs: %v", pattern, len(programs), err)
		}
		for _, main := range programs {
			dir := filepath.Dir(main)
			t.Run(filepath.Base(dir), func(t *testing.T) {
				out, err := exec.CommandContext(t.Context(), "go", "run", "-ldflags", "-X "+stamp+"=v1.2.3-4-gabcdef0", dir, "--version").CombinedOutput()
				if want := filepath.Base(dir) + " version v1.2.3-4-gabcdef0\n"; err != nil || string(out) != want {
					t.Errorf("%s, %v, want %s", out, err, want)
				}
			})
		}
	}
}

func TestImage(t *testing.T) {
	t.Cleanup(func() { registry, stamp = "", "" })
	for _, c := range []struct{ registry, stamp, want string }{
		{"", "v1.2.3", "registry.invalid/flex-provisioner/shell:dev"},
		{"registry.example/flex", "v1.2.3", "registry.example/flex/shell:v1.2.3"},
	} {
		registry, stamp = c.registry, c.stamp
		if got := Image("shell"); got != c.want {
			t.Errorf("registry %q, version %q: %s, want %s", c.registry, c.stamp, got, c.want)
		}
	}
}

// here is of this package, wherever it is.
type here struct{}

// TestReleaseStamps: what a release links in is there.
func TestReleaseStamps(t *testing.T) {
	script, err := os.ReadFile("../../tools/release.sh")
	if err != nil {
		t.Fatal(err)
	}

	var names []string
	for _, match := range regexp.MustCompile(`-X \$module/(\S+)=`).FindAllSubmatch(script, -1) {
		names = append(names, "github.com/flex-provisioner/flex-provisioner/"+string(match[1]))
	}

	path := reflect.TypeFor[here]().PkgPath()
	if want := []string{path + ".stamp", path + ".registry"}; !slices.Equal(names, want) {
		t.Errorf("tools/release.sh stamps %q, want %q", names, want)
	}
}
