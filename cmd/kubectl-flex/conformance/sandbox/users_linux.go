package sandbox

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
)

const (
	// firstID is the user and group of the machine that root of a sandbox is. The range is in the part that systemd
	// leaves to containers (https://systemd.io/UIDS-GIDS), and its end, so that neither people nor services have it.
	firstID = 0x6FFE0000
	// ids is the number of users of a sandbox.
	ids = 1 << 16
	// nobody is who owns what belongs to none of them.
	nobody = ids - 2
)

// asRoot reports whether the caller is root and may give a sandbox other users than himself. Root of a container
// without privileges may not.
var asRoot = sync.OnceValue(func() bool {
	table, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && os.Geteuid() == 0 && covers(string(table), firstID+2*ids)
})

// covers reports whether a table of uid_map has all IDs below end.
func covers(table string, end int64) bool {
	var inside, outside, size int64
	n, err := fmt.Sscan(strings.TrimSpace(table), &inside, &outside, &size)
	return err == nil && n == 3 && inside == 0 && size >= end
}

// HostID is the ID of the machine that a user or group of a sandbox has. It is -1 if all users of the sandbox are the
// caller.
func HostID(id int, hostUsers bool) int {
	if !asRoot() {
		return -1
	}
	if id < 0 || id >= ids {
		id = nobody
	}
	if hostUsers {
		return id
	}
	return firstID + id
}

// mapping maps the users or groups of the sandbox. Who is not root has one to give: his own.
func (s Spec) mapping(own int) []syscall.SysProcIDMap {
	if !asRoot() {
		return []syscall.SysProcIDMap{{ContainerID: s.User, HostID: own, Size: 1}}
	}
	all := []syscall.SysProcIDMap{{HostID: HostID(0, s.HostUsers), Size: ids}}
	if s.User >= ids && s.HostUsers {
		all = append(all, syscall.SysProcIDMap{ContainerID: s.User, HostID: s.User, Size: 1})
	} else if s.User >= ids {
		all = append(all, syscall.SysProcIDMap{ContainerID: s.User, HostID: firstID + ids, Size: 1})
	}
	return all
}
