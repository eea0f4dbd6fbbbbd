package contract

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// What an image, a user or a backend wrote goes through one of these functions before a person sees it, in an event, a log, a report
// or on a terminal. It could hold escape sequences of terminals, line ends that forge lines, and characters that change the
// direction of writing.

// Lines is the text with a space in place of each character that is neither printable nor a tab or line end.
func Lines(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "?"))
}

// Paragraph is the text of Lines with every line but the first indented, so that no line of it looks like one of the program's own.
func Paragraph(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(Lines(text)), "\n", "\n  ")
}

// OneLine is the text as one line of printable characters, of any length.
func OneLine(text string) string { return strings.Join(strings.Fields(Lines(text)), " ") }

// Clean is the text as one line of printable characters, of at most MaxMessage bytes.
func Clean(text string) string { return Clip(OneLine(text), MaxMessage) }

// MaxClass is the limit in bytes on what is kept of a text that should name a StorageClass, and need not. It is more
// than any name takes.
const MaxClass = 300

// Clip shortens a text to a number of bytes, at the end of a character, and marks the cut by three dots.
func Clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const more = "..."
	cut := limit - len(more)
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + more
}
