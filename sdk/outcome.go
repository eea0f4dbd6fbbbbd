package sdk

import (
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/bare"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Refuse marks an error with contract.ExitRefused: the request can never succeed. It promises that nothing was made. The request is retried
// seldom, or when the ConfigMap changes. Refuse, NotHere and TryAgain return nil for nil.
func Refuse(err error) error { return bare.Refuse(err) }

// NotHere marks an error with contract.ExitNotHere: this node cannot serve the request. It promises that nothing was made. The claim is
// scheduled again where its class allows it.
func NotHere(err error) error { return bare.NotHere(err) }

// TryAgain marks an error with contract.ExitTryAgain: nothing is wrong, and the request is to be retried soon.
func TryAgain(err error) error { return bare.TryAgain(err) }

// ExitCode is the exit code of an error: contract.ExitDone for nil, 1 for an error without a code.
func ExitCode(err error) int { return bare.ExitCode(err) }

// Report writes an error to the termination message, for the claim's owner, and to stderr, for the pod's log. It returns the exit code. It
// writes nothing for a nil error. Outside a pod it does not create a termination file.
func Report(root string, err error, stderr io.Writer) int { return bare.Report(root, err, stderr) }

// SetLocation reports where this attempt works, such as a project, a region or an array. Call it before anything is made there. Later
// attempts for the claim, the undo, and the pods that expand and delete the volume get it as Request.Location, and compare it by
// CheckLocation. It is an error if the location is
// not 1 to contract.MaxLocation printable ASCII characters without spaces, or cannot be written.
func SetLocation(root, location string) error { return bare.SetLocation(root, location) }

// CheckLocation returns an error if an earlier attempt worked in another location. This attempt would not find what that one made.
func CheckLocation(request Request, location string) error {
	return bare.CheckLocation(request, location)
}

// RequireMark fails unless the file mark shows that the storage is mounted, and that it is the one that the request is about, by the ID in
// the mark. volume is that of the operation, nil for an undo. It is what flexctl require --mark does.
func RequireMark(root, mark string, request Request, volume *corev1.PersistentVolume) error {
	return bare.RequireMark(root, mark, request, request.Operation == contract.Delete && volume == nil, os.Stderr)
}

// RefuseUnknown refuses to provision with properties or parameters that are none of the known ones: a setting that is misspelled has no
// effect. Every other operation has to go on with what the volume was made with.
func RefuseUnknown(request Request, known ...string) error { return bare.RefuseUnknown(request, known) }

// Message is the text of an error as users see it: one line of printable characters, of at most contract.MaxMessage bytes.
func Message(err error) string { return bare.Message(err) }
