package podspec

import (
	"strconv"
	"testing"
)

// TestImageVolumes: a version that nobody can read is an error, and not an old one.
func TestImageVolumes(t *testing.T) {
	for version, want := range map[string]string{"v1.35.0": "true", "v1.34.9": "false", "v1.35.0-alpha.1": "true", "v2.0.0": "true", "v1.36.1+k3s1": "true", "": "error"} {
		known, err := ImageVolumes(version)
		got := strconv.FormatBool(known)
		if err != nil {
			got = "error"
		}

		if got != want {
			t.Errorf("ImageVolumes(%q) = %s, want %s", version, got, want)
		}
	}
}
