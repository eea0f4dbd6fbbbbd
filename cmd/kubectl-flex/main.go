// Command kubectl-flex shows the people who run flex-provisioner how claims stand and why, and acts for them. It is a kubectl plugin,
// kubectl flex, and works alone.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/flex-provisioner/flex-provisioner/conformance"
	"github.com/flex-provisioner/flex-provisioner/contract"
)

func main() {
	conformance.Enter()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	streams := genericiooptions.IOStreams{In: interruptible{ctx, os.Stdin}, Out: os.Stdout, ErrOut: os.Stderr}
	name := filepath.Base(os.Args[0])
	if strings.HasPrefix(name, "kubectl-") {
		name = "kubectl flex" // as it is called most often; both ways work
	}
	code := run(ctx, name, os.Args[1:], streams)
	stop()
	os.Exit(code)
}

// interruptible ends a read once the context does: a read of a terminal or a pipe knows no signal.
type interruptible struct {
	ctx context.Context
	in  io.Reader
}

func (r interruptible) Read(into []byte) (int, error) {
	type result struct {
		text []byte
		err  error
	}
	done := make(chan result, 1)
	size := len(into) // a read that comes back later must not write into what the caller has by then
	go func() {
		text := make([]byte, size)
		n, err := r.in.Read(text)
		done <- result{text[:n], err}
	}()
	select {
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	case got := <-done:
		return copy(into, got.text), got.err
	}
}

// Exit codes. docs/kubectl-flex.md explains them.
const (
	exitDone    = 0
	exitFailed  = 1
	exitUsage   = 2
	exitWaits   = 3
	exitTrouble = 4
	exitNotOurs = 5
	// exitInterrupted is a shell's code for SIGINT.
	exitInterrupted = 130
)

// exit ends the command with a code. Where there is an error it is printed.
type exit struct {
	code int
	err  error
}

func (e exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e exit) Unwrap() error { return e.err }

func run(ctx context.Context, name string, args []string, streams genericiooptions.IOStreams) int {
	return runCommand(ctx, newCommand(name, streams), args, streams)
}

func runCommand(ctx context.Context, command *cobra.Command, args []string, streams genericiooptions.IOStreams) int {
	command.SetArgs(args)
	command.SetIn(streams.In)
	command.SetOut(streams.Out)
	command.SetErr(streams.ErrOut)
	err := command.ExecuteContext(ctx)
	code, shown := exitDone, err
	var wanted exit
	switch {
	case errors.As(err, &wanted):
		code, shown = wanted.code, wanted.err
	case err != nil && ctx.Err() != nil:
		code, shown = exitInterrupted, nil
	case err != nil:
		code = exitFailed
	}
	if shown != nil {
		fmt.Fprintln(streams.ErrOut, "error:", contract.Paragraph(shown.Error()))
	}
	return code
}
