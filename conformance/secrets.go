package conformance

import (
	"encoding/base64"
	"regexp"
	"strings"
)

// shortest is the length in bytes from which on a word counts as a secret: shorter ones turn up by chance.
const shortest = 8

var guarded = regexp.MustCompile(`(?i)passw|secret|token|key`)

// Guarded reports whether nobody should see the value of a setting of that name.
func Guarded(key string) bool { return guarded.MatchString(key) }

// SecretWords are the lines of a Secret's file that nobody should see. Of settings, KEY=value, only those with a name that
// is Guarded count, and of them the value.
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

// Shows reports whether a text has the secret in it, plain or in base64.
func Shows(text, secret string) bool {
	return strings.Contains(text, secret) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(secret)))
}

// Redact hides secrets in what a report shows.
func Redact(text string, secrets []string) string {
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, "[secret]")
		text = strings.ReplaceAll(text, base64.StdEncoding.EncodeToString([]byte(secret)), "[secret]")
	}
	return text
}
