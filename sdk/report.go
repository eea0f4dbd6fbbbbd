package sdk

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// Report tells the claim's owner, in the termination message, and the pod's log, on stderr, why an operation failed. It
// returns the exit code. A nil error says nothing. Outside a pod there is no termination file, and none is made.
func Report(root string, err error, stderr io.Writer) int {
	if err == nil {
		return contract.ExitDone
	}
	fmt.Fprintln(stderr, "error:", contract.Paragraph(err.Error()))
	file, openErr := os.OpenFile(filepath.Join(root, contract.TerminationFile), os.O_WRONLY|os.O_TRUNC, 0)
	if openErr == nil {
		_, _ = io.WriteString(file, Message(err)) // stderr has it as well
		_ = file.Close()
	}
	return ExitCode(err)
}

// Message is an error as users see it: one line of printable characters, of at most contract.MaxMessage bytes.
func Message(err error) string { return contract.Clean(err.Error()) }
