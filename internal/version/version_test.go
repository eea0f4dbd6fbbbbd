package version

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
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

// stampsIn are the variables that the linker is to set, as the first group of the pattern finds them in a file.
func stampsIn(t *testing.T, file, pattern string) (stamps []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	for _, match := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
		stamps = append(stamps, string(match[1]))
	}
	if len(stamps) == 0 {
		t.Fatalf("%s has nothing like %s", file, pattern)
	}
	return stamps
}

// TestStamp: every program says the version that it was linked with, by the Makefile and by a release, which also links
// in the registry that TestImage sets. The linker is silent where they name a variable that does not exist.
func TestStamp(t *testing.T) {
	stamp := stampsIn(t, "../../Makefile", `-X ([^ ]+)=%`)[0]
	module := stampsIn(t, "../../tools/release.sh", `module=(\S+)`)[0]
	var released []string
	for _, path := range stampsIn(t, "../../tools/release.sh", `-X \$module(/[^ ]+)=`) {
		released = append(released, module+path)
	}
	if want := []string{stamp, strings.TrimSuffix(stamp, "stamp") + "registry"}; !slices.Equal(released, want) {
		t.Errorf("tools/release.sh stamps %q, want %q as in the Makefile", released, want)
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
