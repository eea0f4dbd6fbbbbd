package sandbox

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Numbers of capabilities, from linux/capability.h.
const (
	capChown       = 0
	capDACOverride = 1
	capFowner      = 3
	capSetPCAP     = 8
	capSysChroot   = 18
	capSysAdmin    = 21
)

// Numbers of prctl, from linux/prctl.h.
const (
	prCapBSetDrop    = 24
	prSetNoNewPrivs  = 38
	prCapAmbient     = 47
	ambientClearAll  = 4
	ofRoot           = 1<<capChown | 1<<capDACOverride | 1<<capFowner
	lastCapabilityAt = "/proc/sys/kernel/cap_last_cap"
)

// drop gives up all that a provisioner pod does not have. Capabilities themselves are lost when another program is run:
// of root's only those in the bounding set stay, of other users' none.
func (s Spec) drop() error {
	last := 40
	if text, err := os.ReadFile(lastCapabilityAt); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			last = n
		}
	}
	if err := prctl(prCapAmbient, ambientClearAll); err != nil {
		return err
	}
	for capability := range last + 1 {
		if s.User != 0 || ofRoot&(1<<capability) == 0 {
			if err := prctl(prCapBSetDrop, uintptr(capability)); err != nil {
				return err
			}
		}
	}
	if err := prctl(prSetNoNewPrivs, 1); err != nil {
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

func prctl(option, argument uintptr) error {
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, option, argument, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
