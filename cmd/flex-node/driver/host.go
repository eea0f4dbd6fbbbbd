package driver

import "context"

// Host is what the driver sees of its node, and does there. Nothing is remembered between two calls: the kernel's
// devices and mounts are the record of what is staged, and end with the boot that they are of.
type Host interface {
	// Image finds the image of a volume and returns its size. It is an error if there is none, or one that may not be
	// used.
	Image(v Volume) (Image, error)
	// Devices lists the loop devices that have a file.
	Devices() ([]Device, error)
	// Mounted returns what is mounted at a path, and an empty Mount for a path without one, or that does not exist. It
	// does not wait for the storage of the mount.
	Mounted(path string) (Mount, error)
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

// FileID is one file of the node.
type FileID struct{ Device, Inode uint64 }

// Image is the file of a volume.
type Image struct {
	File FileID
	Size int64
}

// Device is a loop device.
type Device struct {
	Path   string
	Number uint64
	File   FileID
	Size   int64
	// Volume is the ID of the volume whose image it has. Marked reports whether it was attached for that.
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
