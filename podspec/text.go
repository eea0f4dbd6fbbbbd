package podspec

import (
	"unicode/utf8"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// Clean is contract.Clean.
func Clean(text string) string { return contract.Clean(text) }

// OneLine is contract.OneLine.
func OneLine(text string) string { return contract.OneLine(text) }

// Clip is contract.Clip.
func Clip(text string, limit int) string { return contract.Clip(text, limit) }

// MaxLog is how much of a pod's log is read for its end, in bytes, and LogLines are the lines of that end.
const (
	MaxLog   = 64 << 10
	LogLines = 10
)

// LogEnd is the end of a log as one line of printable characters, of at most contract.MaxMessage bytes: where a program failed, its last
// words say why.
func LogEnd(log []byte) string {
	const more = "..."
	end := OneLine(string(log))
	if len(end) <= contract.MaxMessage {
		return end
	}
	cut := len(end) - contract.MaxMessage + len(more)
	for cut < len(end) && !utf8.RuneStart(end[cut]) {
		cut++
	}
	return more + end[cut:]
}
