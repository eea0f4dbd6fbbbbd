package podspec

import "github.com/flex-provisioner/flex-provisioner/contract"

// Clean is contract.Clean.
func Clean(text string) string { return contract.Clean(text) }

// OneLine is contract.OneLine.
func OneLine(text string) string { return contract.OneLine(text) }

// Clip is contract.Clip.
func Clip(text string, limit int) string { return contract.Clip(text, limit) }

// MaxEvent bounds in bytes an event's message, and other text that says the same, as the newer API for events does.
const MaxEvent = 1024

// EventMessage is the text as one line of printable characters, of at most MaxEvent bytes.
func EventMessage(text string) string { return Clip(OneLine(text), MaxEvent) }
