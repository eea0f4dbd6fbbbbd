// Command kubectl-flex is for users and administrators of flex-provisioner. It shows the state of claims and its cause, and changes them on
// request. It is the kubectl plugin kubectl flex, and works without kubectl too.
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

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

func main() {
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

// interruptible is a reader whose Read returns once the context ends. A signal does not interrupt the read of a terminal or a pipe.
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
	size := len(into) // the goroutine must not write into the caller's buffer after Read has returned
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
	// exitInterrupted is the exit code of shells for SIGINT.
	exitInterrupted = 130
)

// exit is an error that ends the command with a code. If err is not nil, it is printed.
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
