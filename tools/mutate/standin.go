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

// What the stand-in is told.
const (
	envGo      = "MUTATE_GO"
	envPackage = "MUTATE_PACKAGE"
	envStages  = "MUTATE_STAGES"
	envLog     = "MUTATE_LOG"
)

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
	if args[0] != "test" {
		return code(command(args...).Run())
	}
	if err := toRoot(); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		return notViable
	}
	_ = syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: memory, Max: memory})
	var stages [][]string
	if err := json.Unmarshal([]byte(os.Getenv(envStages)), &stages); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		return notViable
	}
	if !parses(os.Getenv(envPackage)) {
		return notViable
	}
	profile := ""
	if i := slices.Index(args, "-coverprofile"); i >= 0 {
		profile = args[i+1]
	}
	for i, stage := range stages {
		status, output := test(stage)
		if status == lived {
			continue
		}
		if profile != "" {
			os.Stderr.Write(output) // the code as it is fails
		} else if i > 0 {
			note(os.Getenv(envLog))
		}
		return status
	}
	if profile == "" {
		return lived
	}
	if err := writeProfile(profile, os.Getenv(envPackage)); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		return killed
	}
	return lived
}

// parses says at once of many mutants that they do not compile.
func parses(pkg string) bool {
	files, err := filepath.Glob(filepath.Join(pkg, "*.go"))
	for _, name := range files {
		if _, failed := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution); failed != nil {
			err = failed
		}
	}
	return err == nil
}

// test runs one stage. A test that hangs is a test that fails.
func test(stage []string) (status int, output []byte) {
	// The packages come before the flags of their tests.
	cmd := command(append([]string{"test", "-vet=off", "-count=1", "-failfast", "-timeout=10m", "-ldflags=-s -w"}, stage...)...)
	output, err := cmd.CombinedOutput()
	if err != nil && bytes.Contains(output, []byte("[build failed]")) {
		return notViable, output
	}
	return min(code(err), killed), output
}

// toRoot goes from the package's folder, where gremlins calls go, to the module's.
func toRoot() error {
	mod, err := command("env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}
	return os.Chdir(filepath.Dir(string(mod)))
}

func command(args ...string) *exec.Cmd {
	return exec.Command(os.Getenv(envGo), args...)
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

func writeProfile(name, pkg string) error {
	list, err := command("list", "-f", `{{$p := .ImportPath}}{{range .GoFiles}}{{$p}}/{{.}}{{"\n"}}{{end}}`, "./"+pkg).Output()
	if err != nil {
		return fmt.Errorf("list the files of %s: %w", pkg, err)
	}
	var b strings.Builder
	b.WriteString("mode: set\n")
	for file := range strings.FieldsSeq(string(list)) {
		fmt.Fprintf(&b, "%s:1.1,100000.1 1 1\n", file)
	}
	return os.WriteFile(name, []byte(b.String()), 0o644)
}
