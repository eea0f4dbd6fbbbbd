package main

import (
	"bytes"
	"context"
	"io"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// TestInterruptedInput: a command that waits for its input ends when it is interrupted.
func TestInterruptedInput(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in, typed := io.Pipe()
	defer typed.Close()
	go func() {
		_, _ = typed.Write([]byte("apiVersion: v1\n")) // the command reads by now
		cancel()
	}()
	var errs bytes.Buffer
	streams := genericiooptions.IOStreams{In: interruptible{ctx, in}, Out: io.Discard, ErrOut: &errs}
	if code := run(ctx, "kubectl flex", []string{"validate", "--offline", "-f", "-"}, streams); code != exitInterrupted || errs.Len() > 0 {
		t.Errorf("exit code %d, printed %s", code, &errs)
	}
}
