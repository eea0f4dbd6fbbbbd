package kernel

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The requests of linux/btrfs.h, which golang.org/x/sys/unix does not have: direction, size of the argument, and number.
const (
	ioctlSearch      = readWrite | 4096<<16 | 17
	ioctlLookup      = readWrite | 4096<<16 | 18
	ioctlSnapshot    = write | 4096<<16 | 23
	ioctlCreate      = write | 4096<<16 | 24
	ioctlGetFlags    = read | 8<<16 | 25
	ioctlSetFlags    = write | 8<<16 | 26
	ioctlFSInfo      = read | 1024<<16 | 31
	ioctlQuota       = readWrite | 16<<16 | 40
	ioctlGroupAssign = write | 24<<16 | 41
	ioctlGroupCreate = write | 16<<16 | 42
	ioctlGroupLimit  = read | 48<<16 | 43
	ioctlDestroy     = write | 4096<<16 | 63

	write     = 1<<30 | 0x94<<8
	read      = 2<<30 | 0x94<<8
	readWrite = write | read
)

// Flags and numbers of linux/btrfs.h and linux/btrfs_tree.h.
const (
	quotaEnableSimple = 4      // BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA
	limitReferenced   = 1      // BTRFS_QGROUP_LIMIT_MAX_RFER
	limitExclusive    = 2      // BTRFS_QGROUP_LIMIT_MAX_EXCL
	flagInherit       = 1 << 2 // BTRFS_SUBVOL_QGROUP_INHERIT
	flagByID          = 1 << 4 // BTRFS_SUBVOL_SPEC_BY_ID
	flagReadOnly      = 1 << 1 // BTRFS_SUBVOL_RDONLY
	treeRoots         = 1      // BTRFS_ROOT_TREE_OBJECTID
	treeQuota         = 8      // BTRFS_QUOTA_TREE_OBJECTID
	itemName          = 12     // BTRFS_INODE_REF_KEY
	itemSubvolume     = 156    // BTRFS_ROOT_REF_KEY
	itemGroup         = 242    // BTRFS_QGROUP_INFO_KEY
	itemLimit         = 244    // BTRFS_QGROUP_LIMIT_KEY
	itemMember        = 246    // BTRFS_QGROUP_RELATION_KEY
	firstFree         = 256    // BTRFS_FIRST_FREE_OBJECTID, the inode of each subvolume's root
	unlimited         = ^uint64(0)
)

// volumeArgs is struct btrfs_ioctl_vol_args_v2.
type volumeArgs struct {
	fd          int64
	_           uint64
	flags       uint64
	inheritSize uint64
	inherit     *inherit
	_           [2]uint64
	name        [4040]byte
}

// inherit is struct btrfs_qgroup_inherit with one group.
type inherit struct {
	_      uint64
	groups uint64
	_, _   uint64
	_      limit
	group  uint64
}

// limit is struct btrfs_qgroup_limit.
type limit struct{ flags, referenced, exclusive, _, _ uint64 }

func ioctl(file *os.File, request uintptr, args unsafe.Pointer) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, file.Fd(), request, uintptr(args))
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}
