package conformance

import (
	"encoding/base64"
	"regexp"
	"strings"
)

// shortest is the minimum length in bytes of a secret. Shorter words may appear by chance.
const shortest = 8

var guarded = regexp.MustCompile(`(?i)passw|secret|token|key`)

// Guarded reports whether the value of a setting with that name is a secret.
func Guarded(key string) bool { return guarded.MatchString(key) }

// SecretWords returns the secrets in a file of a Secret: its lines. Of a setting KEY=value it is the value, if the key is Guarded.
func SecretWords(data string) []string {
	var words []string
	for line := range strings.Lines(data) {
		if key, value, found := strings.Cut(line, "="); found && !Guarded(key) {
			continue
		} else if found {
			line = value
		}
		if word := strings.Trim(strings.TrimSpace(line), `"'`); len(word) >= shortest {
			words = append(words, word)
		}
	}
	return words
}

// Shows reports whether a text contains the secret, plain or in base64.
func Shows(text, secret string) bool {
	return strings.Contains(text, secret) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(secret)))
}

// Redact hides secrets in a text of the report.
func Redact(text string, secrets []string) string {
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, "[secret]")
		text = strings.ReplaceAll(text, base64.StdEncoding.EncodeToString([]byte(secret)), "[secret]")
	}
	return text
}
