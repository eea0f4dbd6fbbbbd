//go:build !linux

package sandbox

import (
	"context"
	"errors"
	"net"
)

// Process is a program that was started in a sandbox.
type Process struct {
	// Listener is never there.
	Listener net.Listener
}

var errNotStarted = errors.New("nothing was started")

// HostID is -1, since there is no sandbox.
func HostID(int, bool) int { return -1 }

// Umask does nothing without a sandbox.
func Umask() {}

// Start returns an error, since there is no sandbox.
func Start(Spec, Output) (*Process, error) {
	return nil, errors.New("start sandbox: it needs Linux; run the kit in a Linux container or machine")
}

// Kill is never called.
func (*Process) Kill() {}

// Terminate is never called.
func (*Process) Terminate() {}

// Wait is never called.
func (*Process) Wait(context.Context) (Exit, error) { return Exit{}, errNotStarted }

// Tail is never called.
func (*Process) Tail(string, int64) ([]byte, error) { return nil, errNotStarted }

// Has is never called.
func (*Process) Has(string, string) bool { return false }

// Close is never called.
func (*Process) Close() {}
