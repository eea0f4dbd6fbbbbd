package contract

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// What an image, a user or a backend wrote goes through one of these before a person sees it, in an event, a log, a report
// or on a terminal: it could hold escapes that a terminal obeys, line ends that forge lines, and characters that turn the
// direction of what follows.

// Lines is the text without anything but printable characters, tabs and line ends.
func Lines(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "?"))
}

// Paragraph is the text of Lines with every line but the first indented, so that none can pass for a line of somebody else's.
func Paragraph(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(Lines(text)), "\n", "\n  ")
}

// OneLine is the text as one line of printable characters, of any length.
func OneLine(text string) string { return strings.Join(strings.Fields(Lines(text)), " ") }

// Clean is the text as one line of printable characters, of at most MaxMessage bytes.
func Clean(text string) string { return Clip(OneLine(text), MaxMessage) }

// Clip cuts a text to a number of bytes, between two characters, and shows that it did.
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
