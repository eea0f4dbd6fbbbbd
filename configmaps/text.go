package configmaps

import (
	"fmt"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkText refuses characters that do not pass unchanged through an environment, a JSON file and a terminal. The error
// does not show the value, which may be a credential, and may be long.
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

// isReplacementCharacter distinguishes a U+FFFD in the text from the one that the decoder returns for an invalid byte.
func isReplacementCharacter(text string) bool {
	_, size := utf8.DecodeRuneInString(text)
	return size > 1
}

func emptyValue(path *field.Path) *field.Error {
	return field.Required(path, "is empty; give it a value or leave it out")
}

// tooLong is field.TooLong with the remedy as its detail.
func tooLong(path *field.Path, detail string) *field.Error {
	return &field.Error{Type: field.ErrorTypeTooLong, Field: path.String(), BadValue: field.OmitValueType{},
		Detail: detail}
}

func tooLongBytes(path *field.Path, size, limit int) *field.Error {
	fault := fmt.Sprintf("has %d bytes, at most %d are allowed; put large files into the image or a Secret (key "+
		"secrets)",
		size, limit)

	return tooLong(path, fault)
}
