package conformance

import (
	"encoding/base64"
	"regexp"
	"strings"
)

// shortest is the minimum length in bytes of a secret. Shorter words may appear by chance.
const shortest = 8

// guarded matches the names of settings whose values are secrets.
var guarded = regexp.MustCompile(`(?i)passw|secret|token|key`)

// secretWords returns the secrets in a file of a Secret: its lines. Of a setting KEY=value it is the value, if the key
// is guarded.
func secretWords(data string) []string {
	var words []string
	for line := range strings.Lines(data) {
		if key, value, found := strings.Cut(line, "="); found && !guarded.MatchString(key) {
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

// shows reports whether a text contains the secret, plain or in base64.
func shows(text, secret string) bool {
	return strings.Contains(text, secret) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(secret)))
}

// redact hides secrets in a text of the report.
func redact(text string, secrets []string) string {
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, "[secret]")
		text = strings.ReplaceAll(text, base64.StdEncoding.EncodeToString([]byte(secret)), "[secret]")
	}
	return text
}
