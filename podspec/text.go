package podspec

import "github.com/flex-provisioner/flex-provisioner/sdk/contract"

// Clean is contract.Clean.
func Clean(text string) string { return contract.Clean(text) }

// OneLine is contract.OneLine.
func OneLine(text string) string { return contract.OneLine(text) }

// Clip is contract.Clip.
func Clip(text string, limit int) string { return contract.Clip(text, limit) }

// MaxEvent is the limit in bytes on an event's message, as in the API events.k8s.io. Other places that show the same
// text have it too.
const MaxEvent = 1024

// EventMessage is the text as one line of printable characters, of at most MaxEvent bytes.
func EventMessage(text string) string { return Clip(OneLine(text), MaxEvent) }
