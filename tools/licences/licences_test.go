// Package licences is the test of licences.sh.
package licences

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// program lays out a module with a program that is linked from one other module, which has these files.
func program(t *testing.T, files map[string]string) string {
	t.Helper()
	own, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{
		"go.mod":         "module example.com/program\n\ngo 1.26.0\n\nrequire example.com/other v0.0.0\n\nreplace example.com/other => ./other\n",
		"main.go":        "package main\n\nimport _ \"example.com/other\"\n\nfunc main() {}\n",
		"LICENSE":        string(own),
		"other/go.mod":   "module example.com/other\n\ngo 1.26.0\n",
		"other/other.go": "package other\n",
	}
	for name, text := range files {
		all["other/"+name] = text
	}
	dir := t.TempDir()
	for name, text := range all {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func script(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	name, err := filepath.Abs("licences.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// common is a licence as Debian has it.
func common(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("/usr/share/common-licenses/" + name)
	if err != nil {
		t.Skipf("no texts of licences here: %v", err)
	}
	return string(text)
}

const mit = `Copyright (c) 2026 Somebody

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation
files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy,
modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the
Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE,
ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
`

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		err   string
	}{
		{"allowed", map[string]string{"LICENSE": mit}, ""},
		{"copyleft", map[string]string{"COPYING": common(t, "GPL-2")}, "Not allowed license 'GPL-2.0' found for library 'example.com/other'."},
		{"weaker copyleft", map[string]string{"LICENSE": common(t, "LGPL-3")}, "Not allowed license 'LGPL-3.0' found for library 'example.com/other'."},
		{"unknown", map[string]string{"LICENSE": "Pay me."}, "Did not find license for library 'example.com/other'."},
		{"none", nil, "Did not find license for library 'example.com/other'."},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := script(t, program(t, c.files), "check", "./...")
			if (err != nil) != (c.err != "") || strings.TrimSpace(out) != c.err {
				t.Errorf("got %q, %v, want %q", out, err, c.err)
			}
		})
	}
}

func TestSave(t *testing.T) {
	const ported = "The following files were ported: …"
	dir := program(t, map[string]string{"LICENSE": mit, "LICENSE.ported": ported, "NOTICE": "Note.", "PATENTS": "None.", "license.go": "package other\n"})
	if out, err := script(t, dir, "save", ".", "texts"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, want := range map[string]string{"LICENSE": mit, "LICENSE.ported": ported, "NOTICE": "Note.", "PATENTS": "None."} {
		if got, err := os.ReadFile(filepath.Join(dir, "texts/example.com/other", name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"example.com/program/LICENSE", "go/LICENSE"} {
		if info, err := os.Stat(filepath.Join(dir, "texts", name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if files, err := os.ReadDir(filepath.Join(dir, "texts/example.com/other")); err != nil || len(files) != 4 {
		t.Errorf("%v, %v: want 4 texts", files, err)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"check"}, {"save", "."}, {"list"}} {
		t.Run(fmt.Sprint(args), func(t *testing.T) {
			if out, err := script(t, t.TempDir(), args...); err == nil || !strings.HasPrefix(out, "licences.sh check PACKAGE...\n") {
				t.Errorf("got %q, %v, want how to use it", out, err)
			}
		})
	}
}
