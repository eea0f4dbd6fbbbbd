//go:build !linux

package sandbox

import (
	"context"
	"errors"
)

// Process is a program that was started in a sandbox.
type Process struct{}

// Enter does nothing without a sandbox.
func Enter() {}

// Start returns an error, since there is no sandbox.
func Start(Spec, Output) (*Process, error) {
	return nil, errors.New("start sandbox: it needs Linux; run the kit in a Linux container or machine")
}

// Kill is never called.
func (*Process) Kill() {}

// Terminate is never called.
func (*Process) Terminate() {}

// Wait is never called.
func (*Process) Wait(context.Context) (Exit, error) { return Exit{}, errors.New("nothing was started") }
