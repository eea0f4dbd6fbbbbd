// Command mutate runs gremlins, which changes the code in small ways, over the packages that decide. It says which of its
// mutants no test kills, and fails where one of them has no reason in survivors.yaml, or a reason no survivor.
//
//	mutate -gremlins bin/gremlins -only podspec,configmaps
//
// It works in a copy of the files that git knows or would add, on the folder that it is started in.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// target is a package whose mutants are to be killed.
type target struct {
	Package string
	// Exclude is gremlins' expression for files below the package that are not part of it.
	Exclude string
	// Later are the tests that run where the package's own kill a mutant not.
	Later []stage
}

// stage are the tests of a package, with flags as its test program has them.
type stage struct {
	Package string
	Flags   []string
	// Minutes are how long they may take, 1 where 0. A test that hangs is one that fails.
	Minutes int
}

func (s stage) patience() string { return fmt.Sprintf("%dm", max(s.Minutes, 1)) }

var targets = []target{
	{Package: "podspec", Later: []stage{{Package: "dispatcher/reconcile"}}},
	{Package: "configmaps"},
	{Package: "dispatcher/obstacles", Later: []stage{{Package: "dispatcher/reconcile"}}},
	{Package: "dispatcher/reconcile", Later: []stage{{Package: "test/chaos", Minutes: 15, Flags: []string{"-seeds=60", "-shrink=false",
		"-test.run=^(TestSeeds|TestRegressions|TestCauseIsNamed|TestDeletesStopped|TestOwnPod.*|TestLeader.*)$"}}}},
	{Package: "dispatcher/progress"},
	{Package: "sdk", Exclude: "^(apiserver|bare|sdktest)/"},
	{Package: "sdk/bare", Later: []stage{{Package: "sdk"}}},
	{Package: "images/cinder-iscsi/flow"},
}

// least is the part of a package's mutants that has to be killed.
const least = 0.9

const (
	survivorsFile = "tools/mutate/survivors.yaml"
	scoresFile    = "docs/mutation.md"
)

func main() {
	if filepath.Base(os.Args[0]) == "go" {
		os.Exit(standIn(os.Args[1:]))
	}
	gremlins := flag.String("gremlins", "bin/gremlins", "the program")
	only := flag.String("only", "", "the packages to run, by comma; all where empty")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *gremlins, *only); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, gremlins, only string) error {
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	reasons, err := readReasons(survivorsFile)
	if err != nil {
		return err
	}
	if gremlins, err = filepath.Abs(gremlins); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	source := filepath.Join(work, "source")
	if err := copyFiles(source); err != nil {
		return err
	}
	var faults []error
	for _, t := range chosen {
		r, err := unleash(ctx, t, gremlins, work, source)
		if err != nil {
			return fmt.Errorf("package %s: %w", t.Package, err)
		}
		fmt.Print(r.report(reasons[t.Package]))
		if err := writeScore(scoresFile, r); err != nil {
			return err
		}
		faults = append(faults, r.check(reasons[t.Package]))
	}
	return errors.Join(faults...)
}

func choose(only string) ([]target, error) {
	if only == "" {
		return targets, nil
	}
	var chosen []target
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(targets, func(t target) bool { return t.Package == strings.Trim(name, "./") })
		if i < 0 {
			var known []string
			for _, t := range targets {
				known = append(known, t.Package)
			}
			return nil, fmt.Errorf("no mutants are made of package %q; choose from %s", name, strings.Join(known, ", "))
		}
		chosen = append(chosen, targets[i])
	}
	return chosen, nil
}

// copyFiles leaves out what was built: gremlins makes another copy of all that it is given.
func copyFiles(to string) error {
	list, err := exec.Command("git", "ls-files", "-co", "--exclude-standard", "-z").Output()
	if err != nil {
		return fmt.Errorf("list the files of the checkout: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		info, err := os.Lstat(name)
		switch {
		case errors.Is(err, os.ErrNotExist): // deleted, and git does not know it yet
			continue
		case err != nil:
			return err
		case !info.Mode().IsRegular(): // gremlins copies no links
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, data, info.Mode().Perm()); err != nil {
			return err
		}
	}
	return nil
}

// kinds are gremlins' kinds of mutants that it does not make unless it is asked to, and one whose mutants are those of another.
var kinds = []string{"invert-assignments", "invert-bitwise", "invert-bwassign", "invert-logical", "invert-loopctrl", "remove-self-assignments", "invert-negatives=false"}

// unleash runs gremlins, with a go command that is a stand-in for the real one.
func unleash(ctx context.Context, t target, gremlins, work, source string) (*result, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	real, err := exec.LookPath("go")
	if err != nil {
		return nil, err
	}
	path, output, log := filepath.Join(work, "path"), filepath.Join(work, "result.json"), filepath.Join(work, "stages")
	if err := errors.Join(os.MkdirAll(path, 0o755), os.RemoveAll(filepath.Join(path, "go")), os.Symlink(self, filepath.Join(path, "go")),
		os.WriteFile(log, nil, 0o644)); err != nil {
		return nil, err
	}
	// What takes too long the stand-in ends: gremlins must not.
	args := []string{"unleash", "--workers=1", "--timeout-coefficient=1000", "--output=" + output}
	for _, kind := range kinds {
		args = append(args, "--"+kind)
	}
	if t.Exclude != "" {
		args = append(args, "--exclude-files="+t.Exclude)
	}
	built, err := buildStages(t, source, filepath.Join(work, "built", t.Package))
	if err != nil {
		return nil, err
	}
	told, err := json.Marshal(order{Go: real, Source: source, Package: t.Package, Stages: t.stages(), Built: built, Log: log})
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, gremlins, append(args, "./"+t.Package)...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) } // it ends with the mutant that it tests
	command.Dir, command.Stdout, command.Stderr = source, os.Stdout, os.Stderr
	command.Env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"), envOrder+"="+string(told))
	if err := command.Run(); err != nil || ctx.Err() != nil {
		return nil, fmt.Errorf("gremlins: %w", errors.Join(err, context.Cause(ctx)))
	}
	data, err := os.ReadFile(output)
	if err != nil {
		return nil, err
	}
	late, err := os.ReadFile(log)
	if err != nil {
		return nil, err
	}
	return newResult(t.Package, source, data, bytes.Count(late, []byte("\n")))
}

func (t target) stages() []stage { return append([]stage{{Package: t.Package}}, t.Later...) }
