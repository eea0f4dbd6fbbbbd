package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// The kernel's path decides. Nobody who has a raw device can become another volume, and none is lost.
func TestVolumeOf(t *testing.T) {
	const dir = "/var/lib/flex-loop/"
	for _, c := range []struct {
		image, name, want string
		marked            bool
	}{
		{dir + "pvc-1/image\n", "flex:pvc-1", "pvc-1", true},
		{dir + "pvc-1/image\n", "flex:pvc-2", "pvc-1", true},
		{dir + "pvc-1/image\n", "/etc/shadow", "pvc-1", false},
		{dir + "pvc-1/image\n", "", "pvc-1", false},
		{"/pvc-1/image\n", "flex:pvc-1", "pvc-1", true},
		{dir + "pvc-1/image-away\n", "flex:pvc-1", "pvc-1", true},
		{dir + "pvc-1/image-away\n", "flex:pvc-2", "", false},
		{dir + "pvc-1/image (deleted)\n", "flex:pvc-1", "pvc-1", true},
		{dir + ".pvc-1.copy-removed/image (deleted)\n", "flex:pvc-1", "pvc-1", true},
		{"/srv/disk\n", "/srv/disk", "", false},
		{"\n", "flex:pvc-1", "", false},
	} {
		if got, marked := volumeOf(c.image, c.name); got != c.want || marked != c.marked {
			t.Errorf("%q, %q: %q, %t, want %q, %t", c.image, c.name, got, marked, c.want, c.marked)
		}
	}
}

// Where a part cannot be read, nobody knows what is there.
func TestIsBlank(t *testing.T) {
	broken := errors.New("input/output error")
	zeros := func(n int) io.Reader { return bytes.NewReader(make([]byte, n)) }
	for name, c := range map[string]struct {
		device io.Reader
		want   bool
		fault  string
	}{
		"blank":        {zeros(2 * blankSize), true, "<nil>"},
		"small":        {zeros(4096), true, "<nil>"},
		"data":         {io.MultiReader(zeros(blankSize-1), strings.NewReader("x")), false, "<nil>"},
		"not readable": {io.MultiReader(zeros(4096), iotest.ErrReader(broken)), false, "read the beginning of the device: input/output error"},
		"nothing":      {zeros(0), false, "read the beginning of the device: EOF"},
	} {
		got, err := isBlank(c.device)
		if got != c.want || fmt.Sprint(err) != c.fault {
			t.Errorf("%s: %t, %v, want %t, %s", name, got, err, c.want, c.fault)
		}
	}
}
