package quantity

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"12Gi": "12Gi", "100m": "100m", "2": "2", "1e9": "1e9", "1E3": "1e3", "-1Ki": "-1Ki", "+1.5G": "1500M",
		strings.Repeat("9", 24): strings.Repeat("9", 24),
	} {
		got, err := Parse(text)
		if err != nil || got.Cmp(resource.MustParse(want)) != 0 {
			t.Errorf("%q: got %s, %v, want %s", text, got.String(), err, want)
		}
	}
	for _, text := range []string{
		"", "x", "Gi", "1 Gi", " 1Gi", "1Gi\n", "1Gib", "1..2", "1e", "--1", "NaN", "0x10",
		"1e2147483647", "1e100", "1e-100", strings.Repeat("9", 25),
	} {
		if got, err := Parse(text); !errors.Is(err, resource.ErrFormatWrong) && !errors.Is(err, resource.ErrSuffix) && !errors.Is(err, resource.ErrNumeric) {
			t.Errorf("%q: got %v, %v, want an error of its form", text, got, err)
		}
	}
}
