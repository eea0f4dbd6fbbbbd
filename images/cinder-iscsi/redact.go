package main

import "strings"

// redacted is an error without secrets in its text, for users and logs. Servers may quote the request in their messages.
type redacted struct {
	text string
	err  error
}

func (e redacted) Error() string { return e.text }

// Unwrap keeps the exit code.
func (e redacted) Unwrap() error { return e.err }

// minSecret is the length of the shortest secret that is replaced. Shorter ones may be parts of other words.
const minSecret = 4

// redact replaces the secrets in an error's text.
func redact(err error, secrets []string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, secret := range secrets {
		if len(secret) >= minSecret {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	if text == err.Error() {
		return err
	}
	return redacted{text, err}
}
