package snapshot

import (
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "",
		"oidc:alice@example.com":              "oidc:alice@example.com",
		"CN=Jörg $(PASSWORD) `id`, O=x":       "CN=Jörg $(PASSWORD) `id`, O=x", // the pod's environment doubles every $
		"alice\nFLEX_OPERATION=delete":        "",
		"alice\x00":                           "",
		"\x1b[2Jalice":                        "",
		"alice\u202eecila":                    "",
		"alice\u2028bob":                      "",
		"\xff":                                "",
		strings.Repeat("a", maxCreator):       strings.Repeat("a", maxCreator),
		strings.Repeat("a", maxCreator) + "a": "",
	} {
		if got := printable(text); got != want {
			t.Errorf("printable(%.40q) = %.40q, want %.40q", text, got, want)
		}
	}
}

// Properties that the class has gained come on top, but for those whose environment name the volume uses already.
func TestWithGained(t *testing.T) {
	got := withGained(contract.Identity{Properties: map[string]string{"a.b": "frozen"}, Parameters: map[string]string{"pool": "a"}},
		map[string]string{"a-b": "now", "a.b": "now", "pool": "now", "new": "now"})
	if len(got) != 2 || got["a.b"] != "frozen" || got["new"] != "now" {
		t.Errorf("properties are %v", got)
	}
}
