package podspec

import (
	"bytes"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

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

// What is read of a log for its end: so many lines, of so many bytes together.
const (
	LogLines = 10
	MaxLog   = 64 << 10
)

// LogOptions ask for the end of a container's log.
func LogOptions(container string) *corev1.PodLogOptions {
	lines, size := int64(LogLines), int64(MaxLog)
	return &corev1.PodLogOptions{Container: container, TailLines: &lines, LimitBytes: &size}
}

// LogLost says that a log is what a kubelet answers, with success, where the container's log is gone: the container of a pod that was
// evicted is removed at once.
func LogLost(log []byte) bool {
	return bytes.HasPrefix(log, []byte("unable to retrieve container logs for ")) || bytes.HasPrefix(log, []byte("failed to try resolving symlinks in path "))
}

// LogEnd is the end of a log as one line of printable characters, of at most contract.MaxMessage bytes: where a program failed, its last
// words say why.
func LogEnd(log []byte) string {
	const more = "..."
	end := OneLine(string(log))
	if len(end) <= contract.MaxMessage {
		return end
	}
	cut := len(end) - contract.MaxMessage + len(more)
	for !utf8.RuneStart(end[cut]) {
		cut++
	}
	return more + end[cut:]
}
