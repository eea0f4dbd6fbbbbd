package sdk

import (
	"io"

	"github.com/flex-provisioner/flex-provisioner/sdk/bare"
)

// Refuse says that the request can never work, and promises that nothing was made. It is tried again slowly, or when the
// ConfigMap changes. Refuse(nil) is nil, and so it is for the others.
func Refuse(err error) error { return bare.Refuse(err) }

// NotHere says that it cannot be done on this node, and promises that nothing was made. The claim is scheduled anew where
// its class allows it.
func NotHere(err error) error { return bare.NotHere(err) }

// TryAgain says that nothing is wrong: try again soon.
func TryAgain(err error) error { return bare.TryAgain(err) }

// ExitCode is the contract's code for an error: ExitDone for nil, 1 for one that says nothing else.
func ExitCode(err error) int { return bare.ExitCode(err) }

// Report tells the claim's owner, in the termination message, and the pod's log, on stderr, why an operation failed. It
// returns the exit code. A nil error says nothing. Outside a pod there is no termination file, and none is made.
func Report(root string, err error, stderr io.Writer) int { return bare.Report(root, err, stderr) }

// SetLocation says where this attempt works, before it makes anything there: a project, a region, an array. The next attempt for
// the claim, and the undo, find it as Request.Location, and CheckLocation compares. It is an error if the location is not 1 to
// contract.MaxLocation printable ASCII characters without spaces, or cannot be written.
func SetLocation(root, location string) error { return bare.SetLocation(root, location) }

// CheckLocation is an error where an earlier attempt worked in another location than this one, which would not find what that one
// made.
func CheckLocation(request Request, location string) error {
	return bare.CheckLocation(request, location)
}

// Message is an error as users see it: one line of printable characters, of at most contract.MaxMessage bytes.
func Message(err error) string { return bare.Message(err) }
