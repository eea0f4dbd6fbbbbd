package flow

import (
	"math"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

func TestCheckRequest(t *testing.T) {
	const most = math.MaxInt32 * gib
	const size = "is not supported; ask for 1 byte to 2147483647 GiB"
	for _, c := range []struct {
		modes []string
		mode  string
		bytes int64
		err   string
	}{
		{[]string{"ReadWriteOnce"}, "", 1, ""},
		{[]string{"ReadOnlyMany", "ReadWriteOnce"}, "Block", most, ""},
		{[]string{"ReadOnlyMany"}, "Block", gib, ""},
		{[]string{"ReadOnlyMany"}, "", gib, "access mode ReadOnlyMany: an empty file system has nothing to read, and no node may write to it; make the claim a clone, or ask for ReadWriteOnce"},
		{[]string{"ReadWriteOnce", "ReadOnlyMany"}, "Filesystem", most, "access mode ReadOnlyMany beside ReadWriteOnce: a node that writes damages the file system for those that read it; ask for one of them, or for volumeMode Block"},
		{[]string{"ReadOnlyMany", "ReadWriteOncePod"}, "", gib, "access mode ReadOnlyMany beside ReadWriteOncePod: a node that writes damages the file system for those that read it; ask for one of them, or for volumeMode Block"},
		{[]string{"ReadWriteMany", "ReadWriteOnce"}, "Block", gib, ""},
		{[]string{"ReadWriteOnce"}, "Block", gib, ""},
		{[]string{"ReadWriteMany"}, "Filesystem", gib, "access mode ReadWriteMany: two nodes would destroy the file system; ask for volumeMode Block, or for ReadWriteOnce"},
		{[]string{"ReadWriteOncePod"}, "", gib, ""},
		{[]string{"ReadWriteNowhere"}, "", gib, "access mode ReadWriteNowhere is not supported; ask for ReadWriteOnce, ReadWriteOncePod, ReadOnlyMany, or ReadWriteMany with volumeMode Block"},
		{nil, "", gib, "the claim has no access mode"},
		{[]string{"ReadWriteOnce"}, "Tape", gib, "volumeMode Tape is not supported; ask for Filesystem or Block"},
		{[]string{"ReadWriteOnce"}, "", 0, "a size of 0 bytes " + size},
		{[]string{"ReadWriteOnce"}, "", most + 1, "a size of 2305843008139952129 bytes " + size},
	} {
		if err := checkRequest(contract.Request{AccessModes: c.modes, VolumeMode: c.mode, SizeBytes: c.bytes}); text(err) != c.err {
			t.Errorf("%q, %q, %d bytes: %v, want %s", c.modes, c.mode, c.bytes, err, c.err)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
