package contract

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"plain", "no space left", "no space left"},
		{"newlines and tabs", "one\n\ttwo\r\n three \n", "one two three"},
		{"terminal escapes", "\x1b[31mred\x1b[0m\x00", "[31mred [0m"},
		{"a title that a terminal would take", "\x1b]0;owned\x07x", "]0;owned x"},
		{"backspaces over what was said", "pvc-a\b\b\b\b\bpvc-b\x7f", "pvc-a pvc-b"},
		{"C1 controls and line separators", "a\u009bb\u2028c\u2029d\u0085e", "a b c d e"},
		{"text that turns direction", "user\u202egnp.exe\u2066\u200f", "user gnp.exe"},
		{"characters of no width", "pvc\u200b-\u00ada\ufeff\u2060b", "pvc - a b"},
		{"tags", "x\U000e0041\U000e007fy", "x y"},
		{"private and unassigned characters", "a\ue000b\U0010ffffc", "a b c"},
		{"odd spaces", "a\u00a0b\u3000c", "a b c"},
		{"letters of the world", "Größe 日本 עברית", "Größe 日本 עברית"},
		{"broken UTF-8", "a\xffb", "a?b"},
		{"at the limit", strings.Repeat("x", MaxMessage), strings.Repeat("x", MaxMessage)},
		{"too long", strings.Repeat("x", MaxMessage+1), strings.Repeat("x", MaxMessage-3) + "..."},
		{"cut between characters", strings.Repeat("é", MaxMessage), strings.Repeat("é", (MaxMessage-3)/2) + "..."},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Clean(c.text)
			if got != c.want {
				t.Errorf("Clean(%q) = %q, want %q", c.text, got, c.want)
			}
			if len(got) > MaxMessage || !utf8.ValidString(got) {
				t.Errorf("Clean(%q) has %d bytes, valid: %v", c.text, len(got), utf8.ValidString(got))
			}
		})
	}
}

func TestLines(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a log", "one\n\ttwo\n  three\n", "one\n\ttwo\n  three\n"},
		{"a carriage return that would overwrite", "FAIL\rok  ", "FAIL ok  "},
		{"a cleared screen", "a\x1b[2J\nb\u202e", "a [2J\nb "},
		{"line ends that are none", "a\u2028b\u0085c\vd\fe", "a b c d e"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Lines(c.text); got != c.want {
				t.Errorf("Lines(%q) = %q, want %q", c.text, got, c.want)
			}
		})
	}
}

func TestParagraph(t *testing.T) {
	const text, want = "two faults:\nstorage pvc-x\n\terror: \x1b[2Jno\n", "two faults:\n  storage pvc-x\n  \terror:  [2Jno"
	if got := Paragraph(text); got != want {
		t.Errorf("Paragraph(%q) = %q, want %q", text, got, want)
	}
}

func TestStorageLine(t *testing.T) {
	for _, c := range []struct {
		storage Storage
		want    string
	}{
		{Storage{Name: "pvc-x"}, "storage pvc-x"},
		{Storage{Name: "pvc-x", Remove: "rm \t-rf\n/srv/x"}, "storage pvc-x rm -rf /srv/x"},
		{Storage{Name: "a\nstorage pvc-y rm -rf /", Remove: "x\nstorage pvc-z"}, "storage a_storage_pvc-y_rm_-rf_/ x storage pvc-z"},
		{Storage{Name: "pvc-x reboot"}, "storage pvc-x_reboot"},
		{Storage{Name: "\x1b[2Jx\u202e"}, "storage [2Jx"},
	} {
		if got := c.storage.Line(); got != c.want {
			t.Errorf("%+v: line %q, want %q", c.storage, got, c.want)
		}
	}
}
