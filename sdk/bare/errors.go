package bare

import (
	"errors"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// Refuse says that the request can never work, and promises that nothing was made. It is tried again slowly, or when the
// ConfigMap changes. Refuse(nil) is nil, and so it is for the others.
func Refuse(err error) error { return coded(contract.ExitRefused, err) }

// NotHere says that it cannot be done on this node, and promises that nothing was made. The claim is scheduled anew where
// its class allows it.
func NotHere(err error) error { return coded(contract.ExitNotHere, err) }

// TryAgain says that nothing is wrong: try again soon.
func TryAgain(err error) error { return coded(contract.ExitTryAgain, err) }

// ExitCode is the contract's code for an error: ExitDone for nil, 1 for one that says nothing else.
func ExitCode(err error) int {
	if err == nil {
		return contract.ExitDone
	}
	var c codedError
	if errors.As(err, &c) {
		return c.code
	}
	return 1
}

type codedError struct {
	code int
	error
}

func (e codedError) Unwrap() error { return e.error }

func coded(code int, err error) error {
	if err == nil {
		return nil
	}
	return codedError{code, err}
}
