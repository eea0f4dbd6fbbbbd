package configmaps

import (
	"fmt"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkText refuses what neither an environment, a JSON file nor a terminal carries unharmed. The error does not show
// the value: it may be a credential, and it may be long.
func checkText(value string, path *field.Path) field.ErrorList {
	for at, r := range value {
		fault := ""
		switch {
		case r == utf8.RuneError && !isReplacementCharacter(value[at:]):
			fault = "is not UTF-8; put binary files into a Secret (key secrets)"
		case r == '\r':
			fault = "is a carriage return; save the text with Unix line ends"
		case unicode.IsControl(r) && r != '\n' && r != '\t':
			fault = fmt.Sprintf("is the control character %U; only newline and tab are allowed", r)
		}
		if fault != "" {
			return field.ErrorList{field.Invalid(path, field.OmitValueType{}, fmt.Sprintf("byte %d %s", at, fault))}
		}
	}
	return nil
}

// isReplacementCharacter tells a real U+FFFD from the one that stands for a broken byte.
func isReplacementCharacter(text string) bool {
	_, size := utf8.DecodeRuneInString(text)
	return size > 1
}

func empty(path *field.Path) *field.Error {
	return field.Required(path, "is empty; give it a value or leave it out")
}

// tooLong is field.TooLong with a detail that tells the remedy.
func tooLong(path *field.Path, detail string) *field.Error {
	return &field.Error{Type: field.ErrorTypeTooLong, Field: path.String(), BadValue: field.OmitValueType{}, Detail: detail}
}

func tooLongBytes(path *field.Path, size, limit int) *field.Error {
	return tooLong(path, fmt.Sprintf("has %d bytes, at most %d are allowed; put large files into the image or a Secret (key secrets)", size, limit))
}
