package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Level is the level of the provisioner's quota groups. btrfs allows any number, so this one distinguishes them from other groups.
const Level = 26220

const numberBits = 48

// Group is a quota group of the level. Its usage is what is written to its members. With simple quotas a subvolume that is created inside a
// member is a member too, unless its creator names other groups, or none (BTRFS_SUBVOL_QGROUP_INHERIT). The kernel allows that to any
// user.
type Group struct {
	// Limited reports whether the members together may have Limit bytes and no more.
	Limited bool
	Limit   uint64
	// Used is the members' usage in bytes, as of the last commit of the file system.
	Used uint64
	// Members are the IDs of subvolumes.
	Members map[uint64]bool
}

// GroupID is the ID of a quota group of the level. Only the last 48 bits of number count.
func GroupID(number uint64) uint64 { return Level<<numberBits | number&(1<<numberBits-1) }

// Groups returns all quota groups of the level, by ID.
func (fs *FS) Groups() (map[uint64]Group, error) {
	groups := map[uint64]Group{}
	err := fs.search(treeQuota, key{}, key{unlimited, 255, unlimited}, func(k key, data []byte) {
		id := k.offset
		if id>>numberBits != Level {
			return
		}
		group := groups[id]
		switch k.kind {
		case itemGroup: // struct btrfs_qgroup_info_item: generation, referenced, ...
			group.Used = binary.LittleEndian.Uint64(data[8:])
		case itemLimit: // struct btrfs_qgroup_limit_item: flags, referenced, ...
			group.Limit = binary.LittleEndian.Uint64(data[8:])
			group.Limited = binary.LittleEndian.Uint64(data)&limitReferenced != 0
		case itemMember: // from the member to the group, and back
			if group.Members == nil {
				group.Members = map[uint64]bool{}
			}
			group.Members[k.object] = true
		default:
			return
		}
		groups[id] = group
	})
	return groups, err
}

// SetLimit sets the limit of a group, and creates the group if it does not exist.
func (fs *FS) SetLimit(group, bytes uint64) error {
	if err := fs.groupCreate(1, group); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return fs.limit(group, limit{flags: limitReferenced, referenced: bytes})
}

// SetNoLimit creates a group without a limit if it does not exist.
func (fs *FS) SetNoLimit(group uint64) error {
	if err := fs.groupCreate(1, group); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// ClearLimit removes the limit of a group.
func (fs *FS) ClearLimit(group uint64) error {
	return fs.limit(group, limit{flags: limitReferenced, referenced: unlimited}) // the kernel's value for no limit
}

func (fs *FS) limit(group uint64, l limit) error {
	args := struct {
		group uint64
		limit limit
	}{group, l}
	return fs.wrap("limit quota group "+groupName(group), ioctl(fs.dir, ioctlGroupLimit, unsafe.Pointer(&args)))
}

// leaveGroups removes every limit of a subvolume that is about to be destroyed.
func (fs *FS) leaveGroups(subvolume uint64) error {
	var groups []uint64
	err := fs.search(treeQuota, key{subvolume, itemMember, 0}, key{subvolume, itemMember, unlimited}, func(k key, _ []byte) {
		if k.object == subvolume && k.kind == itemMember {
			groups = append(groups, k.offset)
		}
	})
	if err != nil {
		return err
	}
	for _, group := range groups {
		args := struct{ assign, member, group uint64 }{0, subvolume, group}
		if err := ioctl(fs.dir, ioctlGroupAssign, unsafe.Pointer(&args)); err != nil {
			return fs.wrap(fmt.Sprintf("take subvolume %d out of quota group %s", subvolume, groupName(group)), err)
		}
	}
	// Each subvolume has a group of its own, of level 0, whose limit its creator may set.
	return fs.limit(subvolume, limit{flags: limitReferenced | limitExclusive, referenced: unlimited, exclusive: unlimited})
}

// RemoveGroup removes a group. The error is EBUSY while it has members. A destroyed subvolume is a member until the kernel has freed its
// space.
func (fs *FS) RemoveGroup(group uint64) error { return fs.groupCreate(0, group) }

func (fs *FS) groupCreate(create, group uint64) error {
	args := struct{ create, group uint64 }{create, group}
	return fs.wrap("create or remove quota group "+groupName(group), ioctl(fs.dir, ioctlGroupCreate, unsafe.Pointer(&args)))
}

func groupName(group uint64) string {
	return fmt.Sprintf("%d/%d", group>>numberBits, group&(1<<numberBits-1))
}
