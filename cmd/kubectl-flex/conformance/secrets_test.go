package conformance

import (
	"slices"
	"testing"
)

// TestSecretWords: which words of a Secret's file are looked for, and hidden in reports.
func TestSecretWords(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		want []string
	}{
		"a line":          {"second-secret\n", []string{"second-secret"}},
		"a section":       {"[Global]\n", []string{"[Global]"}},
		"a setting":       {"auth-url = https://keystone.example\n", nil},
		"a guarded one":   {"password = third=secret\n", []string{"third=secret"}},
		"quoted":          {"OS_PASSWORD='fourth secret'\n", []string{"fourth secret"}},
		"short by chance": {"1234567\n", nil},
	} {
		if got := secretWords(c.file); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}

	const text, secret = "it said second-secret, c2Vjb25kLXNlY3JldA==", "second-secret"
	if !shows("c2Vjb25kLXNlY3JldA==", secret) || shows("second", secret) {
		t.Error("a secret is found in base64, and only as a whole")
	}
	if got := redact(text, []string{secret}); got != "it said [secret], [secret]" {
		t.Errorf("redacted: %s", got)
	}
}
