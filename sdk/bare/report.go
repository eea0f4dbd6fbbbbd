package bare

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Report writes an error to the termination message, for the claim's owner, and to stderr, for the pod's log. It returns the exit code. It
// writes nothing for a nil error. Outside a pod it does not create a termination file.
func Report(root string, err error, stderr io.Writer) int {
	if err == nil {
		return contract.ExitDone
	}
	fmt.Fprintln(stderr, "error:", contract.Paragraph(err.Error()))
	line, _ := contract.LocationLine(ReportedLocation(root))
	_ = writeTermination(root, line+Message(err)) // stderr has the message too
	return ExitCode(err)
}

// SetLocation reports where this attempt works, such as a project, a region or an array. Call it before anything is made there. Later
// attempts for the claim, the undo, and the pods that expand and delete the volume get it as Request.Location, and compare it by
// CheckLocation. It is an error if the location is
// not 1 to contract.MaxLocation printable ASCII characters without spaces, or cannot be written.
func SetLocation(root, location string) error {
	line, ok := contract.LocationLine(location)
	if !ok {
		return fmt.Errorf("location %.64q: it must be 1 to %d printable ASCII characters without spaces", location, contract.MaxLocation)
	}
	if err := writeTermination(root, line); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write the location: %w", err)
	}
	return nil
}

// ReportedLocation is the location that this attempt has reported, empty where it has reported none.
func ReportedLocation(root string) string {
	written, _ := os.ReadFile(filepath.Join(root, contract.TerminationFile)) // outside a pod there is none
	location, _ := contract.CutLocation(string(written))
	return location
}

// CheckLocation returns an error if an earlier attempt worked in another location. This attempt would not find what that one made.
func CheckLocation(request contract.Request, location string) error {
	if request.Location == "" || request.Location == location {
		return nil
	}
	return fmt.Errorf("an earlier attempt worked in %s, but the credentials are now for %s; give back those of the former until nothing of volume %s is left there",
		contract.OneLine(request.Location), contract.OneLine(location), request.VolumeName)
}

func writeTermination(root, text string) error {
	file, err := os.OpenFile(filepath.Join(root, contract.TerminationFile), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = io.WriteString(file, text)
	return errors.Join(err, file.Close())
}

// Message is the text of an error as users see it: one line of printable characters, of at most contract.MaxMessage bytes.
func Message(err error) string { return contract.Clean(err.Error()) }
