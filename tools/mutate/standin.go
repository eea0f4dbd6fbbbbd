package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// envOrder is what the stand-in is told, as JSON.
const envOrder = "MUTATE_ORDER"

// order is what the stand-in has to know.
type order struct {
	// Go is the real command.
	Go string
	// Source is the folder of the code as it is, Package the one whose mutants are made.
	Source, Package string
	Stages          []stage
	// Built are the stages' tests, with mutants in them.
	Built []string
	// Log gets a line for each mutant that a later stage kills.
	Log string
}

// How the stand-in ends, as gremlins understands it.
const (
	lived     = 0
	killed    = 1
	notViable = 2
)

// memory is what a process of a mutant may have: one that never ends may want all of it.
const memory = 8 << 30

// standIn is the go command as gremlins sees it. Of a mutant it runs the stages instead of the package's tests alone, and it says of
// one that does not compile that it is not viable, where gremlins takes go's exit code for a kill. Of the coverage, which gremlins asks
// for first, it says that all lines are covered: Go counts no condition of a case, and gremlins would leave those out.
func standIn(args []string) int {
	var o order
	if err := json.Unmarshal([]byte(os.Getenv(envOrder)), &o); err != nil {
		return fail(fmt.Errorf("%s: %w", envOrder, err))
	}
	if args[0] != "test" {
		c := exec.Command(o.Go, args...)
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		return code(c.Run())
	}
	_ = syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: memory, Max: memory})
	if i := slices.Index(args, "-coverprofile"); i >= 0 {
		if status, _, output := o.run(""); status != lived {
			return fail(fmt.Errorf("the tests of the code as it is fail:\n%s", output))
		}
		if err := o.writeProfile(args[i+1]); err != nil {
			return fail(err)
		}
		return lived
	}
	mutant, err := o.mutant()
	if err != nil {
		return fail(err)
	}
	status, at, _ := 0, 0, []byte(nil)
	switch {
	case mutant == "":
		return notViable
	case o.has(mutant):
		status, at, _ = o.run(mutant)
	default:
		status, at, _ = o.build()
	}
	if status == killed && at > 0 {
		note(o.Log)
	}
	return status
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "mutate:", err)
	return notViable
}

// run runs the tests that were built, with a mutant or with none, and says which of them failed.
func (o *order) run(mutant string) (status, at int, output []byte) {
	for i, stage := range o.Stages {
		c := exec.Command(o.Built[i], append([]string{"-test.failfast", "-test.timeout=" + stage.patience()}, stage.Flags...)...)
		c.Dir = filepath.Join(o.Source, stage.Package)
		c.Env = append(os.Environ(), envMutant+"="+mutant)
		if output, err := c.CombinedOutput(); err != nil {
			return killed, i, output
		}
	}
	return lived, 0, nil
}

// build builds and runs the tests of the mutant that gremlins has made of the files in its folder.
func (o *order) build() (status, at int, output []byte) {
	for i, stage := range o.Stages {
		args := append([]string{"test", "-vet=off", "-count=1", "-failfast", "-timeout=" + stage.patience(), "-ldflags=-s -w", "./" + stage.Package}, stage.Flags...)
		c := exec.Command(o.Go, args...)
		c.Dir = root(o.Package)
		switch output, err := c.CombinedOutput(); {
		case err == nil:
		case bytes.Contains(output, []byte("[build failed]")):
			return notViable, i, output
		default:
			return killed, i, output
		}
	}
	return lived, 0, nil
}

// root is the folder of the module that gremlins calls go in the package's folder of.
func root(pkg string) string { return strings.Repeat("../", strings.Count(pkg, "/")+1) }

// mutant is what gremlins has done to the package, or empty where that compiles for no types.
func (o *order) mutant() (string, error) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		return "", err
	}
	for _, name := range files {
		mutated, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		original, err := os.ReadFile(filepath.Join(o.Source, o.Package, name))
		if err != nil {
			return "", err
		}
		if bytes.Equal(mutated, original) {
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), name, mutated, parser.SkipObjectResolution); err != nil {
			return "", nil
		}
		if text, err := subtracts(original, mutated, name); text || err != nil {
			return "", err
		}
		return changed(original, mutated, name), nil
	}
	return "", errors.New("gremlins has changed no file of the package")
}

// has reports whether the built tests have the mutant in them.
func (o *order) has(mutant string) bool {
	for _, op := range []token.Token{token.EQL, token.NEQ, token.LSS, token.GTR, token.LEQ, token.GEQ, token.LAND, token.LOR} {
		if strings.HasSuffix(mutant, ":"+op.String()) {
			return len(o.Built) > 0
		}
	}
	return false
}

func code(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	}
	return 1
}

// note counts a mutant that a later stage killed.
func note(log string) {
	if f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0); err == nil {
		_, _ = f.WriteString("\n")
		_ = f.Close()
	}
}

func (o *order) writeProfile(name string) error {
	list := exec.Command(o.Go, "list", "-f", `{{$p := .ImportPath}}{{range .GoFiles}}{{$p}}/{{.}}{{"\n"}}{{end}}`, "./"+o.Package)
	list.Dir = o.Source
	files, err := list.Output()
	if err != nil {
		return fmt.Errorf("list the files of %s: %w", o.Package, err)
	}
	var b strings.Builder
	b.WriteString("mode: set\n")
	for file := range strings.FieldsSeq(string(files)) {
		fmt.Fprintf(&b, "%s:1.1,100000.1 1 1\n", file)
	}
	return os.WriteFile(name, []byte(b.String()), 0o644)
}
