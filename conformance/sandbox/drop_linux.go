package sandbox

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ofRoot are the capabilities that a pod of root's keeps.
const ofRoot = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER

const lastCapabilityAt = "/proc/sys/kernel/cap_last_cap"

// drop gives up all that a provisioner pod does not have. Capabilities themselves are lost when another program is run:
// of root's only those in the bounding set stay, of other users' none.
func (s Spec) drop() error {
	last := unix.CAP_LAST_CAP
	if text, err := os.ReadFile(lastCapabilityAt); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			last = n
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	for capability := range last + 1 {
		if s.User != 0 || ofRoot&(1<<capability) == 0 {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(capability), 0, 0, 0); err != nil {
				return err
			}
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if s.Mapped {
		return nil
	}
	if err := syscall.Setgroups(nil); err != nil {
		return err
	}
	if err := syscall.Setgid(s.User); err != nil {
		return err
	}
	return syscall.Setuid(s.User)
}
