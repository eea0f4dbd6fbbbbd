package main

import "strings"

// redacted is an error whose text goes to users and logs. Servers quote in theirs what they were sent.
type redacted struct {
	text string
	err  error
}

func (e redacted) Error() string { return e.text }

// Unwrap keeps the exit code.
func (e redacted) Unwrap() error { return e.err }

// shortest is the shortest secret that is looked for: shorter ones would also be found where they are not.
const shortest = 4

// redact replaces the secrets in an error's text.
func redact(err error, secrets []string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, secret := range secrets {
		if len(secret) >= shortest {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	if text == err.Error() {
		return err
	}
	return redacted{text, err}
}
