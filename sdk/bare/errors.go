package bare

import (
	"errors"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Refuse marks an error with contract.ExitRefused: the request can never succeed. It promises that nothing was made. The request is retried
// seldom, or when the ConfigMap changes. Refuse, NotHere and TryAgain return nil for nil.
func Refuse(err error) error { return withCode(contract.ExitRefused, err) }

// NotHere marks an error with contract.ExitNotHere: this node cannot serve the request. It promises that nothing was made. The claim is
// scheduled again where its class allows it.
func NotHere(err error) error { return withCode(contract.ExitNotHere, err) }

// TryAgain marks an error with contract.ExitTryAgain: nothing is wrong, and the request is to be retried soon.
func TryAgain(err error) error { return withCode(contract.ExitTryAgain, err) }

// ExitCode is the exit code of an error: contract.ExitDone for nil, 1 for an error without a code.
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

func withCode(code int, err error) error {
	if err == nil {
		return nil
	}
	return codedError{code, err}
}
