package driver

import "context"

// Host is what the driver sees of its node, and does there. This process remembers nothing between two calls. What is
// staged is in the kernel's devices and mounts, which end with the boot that they are of. A file has what the kernel
// does not know of a volume.
type Host interface {
	Images
	Disks

	// Mounted returns what is mounted at a path, and an empty Mount for a path without one, or that does not exist. It
	// does not wait for the storage of the mount.
	Mounted(path string) (Mount, error)

	// Mount repairs the file system as after a power failure, and mounts it.
	Mount(ctx context.Context, v Volume, d Device, path string) error
	// Grow makes a mounted file system as large as its device.
	Grow(d Device, path string) error
	// Bind mounts what is at a path, a file system or a device, at another.
	Bind(from, to string, options []string) error
	// Unmount takes the uppermost mount of a path away.
	Unmount(path string) error
	// Remove removes a path that nothing is mounted at, or nothing is in. One that does not exist is no error.
	Remove(path string) error
	// Usage returns how full the file system is that is mounted at a path.
	Usage(path string) (Usage, error)
}

// Images are what the stager loop has of a node.
type Images interface {
	// Image finds the image of a volume and returns its size. It is an error if there is none, or one that may not be
	// used.
	Image(v Volume) (Image, error)
	// Devices lists the loop devices that have a file.
	Devices() ([]Device, error)
	// Content says what is on the device of a volume.
	Content(v Volume, d Device) (Content, error)

	// Attach gives the image a device. No other node and no other volume can have the image as long as there is that
	// device.
	Attach(v Volume) error
	// Detach takes the device away. It is an error if somebody still uses it.
	Detach(ctx context.Context, d Device) error
	// Resize gives the device the size of its file, which is in one of the directories, and returns that.
	Resize(d Device, directories []string) (size int64, err error)
	// Format makes a file system. It leaves a mark beside the image until it is whole, and then another.
	Format(v Volume, d Device) error
}

// Disks are what the stager iscsi has of a node.
type Disks interface {
	// Records returns those of all volumes, and the ID of this boot.
	Records() (records []Record, boot string, err error)
	// Link says what the node has of a path.
	Link(p Path) (Link, error)
	// Multipathd reports whether multipathd runs on the node.
	Multipathd() bool
	// Probe says what is on a device.
	Probe(d Device) (Content, error)
	// Users says who uses a device, and is empty where nobody does. The map of a disk is no user of it.
	Users(d Device) (string, error)

	// Keep writes a record, which lasts when the node loses its power.
	Keep(r Record) error
	// Forget removes a record.
	Forget(volume string) error
	// Login logs in to the portal and target of a path. Nothing is scanned.
	Login(p Path, c CHAP) error
	// Scan asks the target for the path's LUN alone, and waits for its disk.
	Scan(ctx context.Context, p Path) error
	// Rescan has the kernel ask a disk anew for its size and WWID.
	Rescan(address string) error
	// Join asks for the map that multipathd makes of disks, and waits for it.
	Join(ctx context.Context, disks []Disk) error
	// ResizeMap gives a map the size of its disks.
	ResizeMap(d Device) error
	// Protect has the kernel write nothing to a device.
	Protect(d Device) error
	// MakeFileSystem makes one, over whatever is there.
	MakeFileSystem(v Volume, d Device) error
	// Wipe makes the beginning of a device empty.
	Wipe(d Device) error
	// Flush writes what the node has for a map, and takes the map away. It is an error if somebody still uses it.
	Flush(d Device) error
	// Drop writes what the node has for a disk, and takes the disk away.
	Drop(l Link) error
	// Logout ends the sessions of the path's portal and target, and forgets how to log in there.
	Logout(p Path) error
}

// Record is what the node keeps of a volume of iscsi, so that it can take it away without asking anybody.
type Record struct {
	Version int    `json:"version"`
	Volume  string `json:"volume"`
	// Boot is the ID of the boot that the record is of. After another one the node has nothing of the volume.
	Boot  string `json:"boot"`
	Paths []Path `json:"paths"`
	// WWID is that of the volume's disks. It is empty until they were seen, and nobody used them.
	WWID string `json:"wwid,omitempty"`
	// Formatting is the WWID of the blank disk on which a file system was begun.
	Formatting string `json:"formatting,omitempty"`
}

// RecordVersion is that of the records that are written.
const RecordVersion = 1

// Link is what the node has of a path.
type Link struct {
	// Session is the ID of the session with the portal and target. It is empty where there is none.
	Session string
	// Others reports whether the session has devices of other LUNs.
	Others bool
	// Address is the kernel's for the LUN, as HOST:CHANNEL:ID:LUN. It is empty where the LUN was not scanned.
	Address string
	Disk    Disk
}

// Disk is the block device of a LUN. Its Path is empty where there is none.
type Disk struct {
	Device

	WWID string
	// Map is the device of multipath that has the disk. Its Path is empty where there is none.
	Map Device
}

// FileID is one file of the node.
type FileID struct{ Device, Inode uint64 }

// Image is the file of a volume.
type Image struct {
	File FileID
	Size int64
}

// Device is a block device.
type Device struct {
	Path   string
	Number uint64
	// File is that of a loop device.
	File FileID
	Size int64
	// Volume is the ID of the volume whose data it has. Marked reports whether it was attached for that.
	Volume string
	Marked bool
}

// Mount is what is mounted at a path.
type Mount struct {
	// Number is that of the device that has the file system, or of the device itself.
	Number uint64
	// Raw reports whether the device itself is bound there.
	Raw bool
	// ReadOnly reports whether nothing can be written by this mount.
	ReadOnly bool
}

// Content is what is on a device.
type Content struct {
	// FSType is empty where nothing that is known is on it.
	FSType string
	// Blank reports whether the beginning is empty, which no file system leaves so.
	Blank bool
	// Formatting reports whether a file system was begun, and nobody can have used it.
	Formatting bool
	// Formatted reports whether a file system was made there once.
	Formatted bool
}

// Usage of a file system, in bytes and in inodes.
type Usage struct{ Bytes, Inodes Amounts }

// Amounts are of one resource.
type Amounts struct{ Total, Used, Available int64 }
