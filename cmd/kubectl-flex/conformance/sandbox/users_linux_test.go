package sandbox

import "testing"

// Root of a container without privileges has not all IDs to give.
func TestCovers(t *testing.T) {
	for table, want := range map[string]bool{
		"         0          0 4294967295\n":                              true,
		"         0       1000          1\n         1     100000 65536\n": false,
		"         0     100000      65536\n":                              false,
		"      1000          0 4294967295\n":                              false,
		"":                                                                false,
	} {
		if got := covers(table, firstID+2*ids); got != want {
			t.Errorf("%q: %t", table, got)
		}
	}
}
