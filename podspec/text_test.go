package podspec

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// The last words of a log are those that count, whatever comes before them.
func TestLogEnd(t *testing.T) {
	for name, c := range map[string]struct{ log, want string }{
		"empty":                {"", ""},
		"white space":          {" \n\t\n", ""},
		"a line":               {"rm: can't remove '/export/pvc-1/d': Permission denied\n", "rm: can't remove '/export/pvc-1/d': Permission denied"},
		"lines":                {"+ rm -rf /export/pvc-1\r\nrm: no\n\n", "+ rm -rf /export/pvc-1 rm: no"},
		"control characters":   {"\x1b[2Jgone\x00\u202egnorw\x9b31m\n", "[2Jgone gnorw?31m"},
		"no text":              {"\xff\xfe\xfdno room", "?no room"},
		"as long as it may be": {strings.Repeat("x", contract.MaxMessage), strings.Repeat("x", contract.MaxMessage)},
		"long":                 {strings.Repeat("x", 70_000) + " no room", "..." + strings.Repeat("x", contract.MaxMessage-3-len(" no room")) + " no room"},
		"long, of wide characters": {strings.Repeat("ä", 5000) + " no room!",
			"..." + strings.Repeat("ä", (contract.MaxMessage-3-len(" no room!"))/2) + " no room!"},
		"only wide characters": {strings.Repeat("\U0001F600", 5000), "..." + strings.Repeat("\U0001F600", (contract.MaxMessage-3)/4)},
	} {
		got := LogEnd([]byte(c.log))
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if len(got) > contract.MaxMessage || !utf8.ValidString(got) {
			t.Errorf("%s: %d bytes, valid: %t", name, len(got), utf8.ValidString(got))
		}
	}
}

// TestLogOptions: enough of a log is read to fill a message.
func TestLogLost(t *testing.T) {
	for log, want := range map[string]bool{
		"unable to retrieve container logs for containerd://7d1b":                                          true,
		"failed to try resolving symlinks in path \"/var/log/pods/x/0.log\": lstat /var/log/pods: no such": true,
		"cannot reach 10.0.0.1: unable to retrieve container logs for x":                                   false,
		"": false,
	} {
		if got := LogLost([]byte(log)); got != want {
			t.Errorf("LogLost(%q) = %t", log, got)
		}
	}
}

func TestLogOptions(t *testing.T) {
	if o := LogOptions("c"); o.Container != "c" || *o.TailLines != LogLines || *o.LimitBytes < contract.MaxMessage {
		t.Errorf("%+v", o)
	}
}

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
