package main

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"strconv"

	"github.com/flex-provisioner/flex-provisioner/images/btrfs/kernel"
	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// settings are the properties of the class.
type settings struct {
	// root is the directory of the node in which the subvolumes are.
	root string
	mode os.FileMode
}

var (
	rootForm = regexp.MustCompile(`^/[A-Za-z0-9._/-]+$`)
	modeForm = regexp.MustCompile(`^[0-7]{3,4}$`)
)

func settingsOf(request sdk.Request) (settings, error) {
	s := settings{root: request.Properties["root"], mode: 0o777}
	if err := sdk.RefuseUnknown(request, "root", "mode", contract.ParameterSmartClone); err != nil {
		return s, err
	}
	switch {
	case s.root == "":
		return s, sdk.Refuse(fmt.Errorf(`property "root" is missing: name a directory of the node, the same as in key "host-path"`))
	case !rootForm.MatchString(s.root) || path.Clean(s.root) != s.root:
		return s, sdk.Refuse(fmt.Errorf(`property "root" is %q: write an absolute path of letters, digits, '.', '_' and '-', without ".." or a '/' at its end`, s.root))
	}
	if text, ok := request.Properties["mode"]; ok {
		if !modeForm.MatchString(text) {
			return s, sdk.Refuse(fmt.Errorf(`property "mode" is %q: write octal digits such as 0777`, text))
		}
		bits, _ := strconv.ParseUint(text, 8, 32) // modeForm has octal digits alone
		s.mode = fileMode(uint32(bits))
	}
	return s, nil
}

// fileMode is the mode of chmod(1).
func fileMode(bits uint32) os.FileMode {
	mode := os.FileMode(bits & 0o777)
	for bit, special := range map[uint32]os.FileMode{0o4000: os.ModeSetuid, 0o2000: os.ModeSetgid, 0o1000: os.ModeSticky} {
		if bits&bit != 0 {
			mode |= special
		}
	}
	return mode
}

// nameForm is the form of the names of volumes and of snapshots. An administrator gives no other name to a snapshot here.
var nameForm = regexp.MustCompile(`^(pvc|snap)-([0-9a-f]{8})-([0-9a-f]{4})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// groupOf is the quota group of a volume or snapshot. Its number is the first 48 bits of the UID, which are random. So the group and its
// limit can be made before the subvolume.
func groupOf(name string) (uint64, error) {
	match := nameForm.FindStringSubmatch(name)
	if match == nil {
		return 0, sdk.Refuse(fmt.Errorf("%q is no name of a volume, pvc-UID, or of a snapshot, snap-UID", name))
	}
	number, _ := strconv.ParseUint(match[2]+match[3], 16, 64) // nameForm has 12 hexadecimal digits
	return kernel.GroupID(number), nil
}
