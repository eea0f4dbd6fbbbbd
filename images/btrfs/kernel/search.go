package kernel

import (
	"encoding/binary"
	"fmt"
	"unsafe"
)

// key is struct btrfs_key. Items of a tree are in the order of their keys.
type key struct {
	object uint64
	kind   uint32
	offset uint64
}

// searchArgs is struct btrfs_ioctl_search_args.
type searchArgs struct {
	tree                           uint64
	minObject, maxObject           uint64
	minOffset, maxOffset           uint64
	minTransaction, maxTransaction uint64
	minKind, maxKind               uint32
	items                          uint32
	_                              uint32
	_                              [4]uint64
	buffer                         [3992]byte
}

// search calls do with each item from one key to another. The kernel compares whole keys, so items of other kinds are among them.
func (fs *FS) search(tree uint64, from, to key, do func(k key, data []byte)) error {
	for {
		args := searchArgs{tree: tree, minObject: from.object, minKind: from.kind, minOffset: from.offset,
			maxObject: to.object, maxKind: to.kind, maxOffset: to.offset, maxTransaction: unlimited, items: 4096}
		if err := ioctl(fs.dir, ioctlSearch, unsafe.Pointer(&args)); err != nil {
			return fmt.Errorf("search tree %d of %s: %w", tree, fs.dir.Name(), err)
		}
		if args.items == 0 {
			return nil
		}
		for rest := args.buffer[:]; args.items > 0; args.items-- {
			// struct btrfs_ioctl_search_header: transaction, object, offset, kind, length.
			length := binary.NativeEndian.Uint32(rest[28:])
			from = key{binary.NativeEndian.Uint64(rest[8:]), binary.NativeEndian.Uint32(rest[24:]), binary.NativeEndian.Uint64(rest[16:])}
			do(from, rest[32:32+length])
			rest = rest[32+length:]
		}
		if from == to {
			return nil
		}
		from = from.next()
	}
}

func (k key) next() key {
	switch {
	case k.offset < unlimited:
		k.offset++
	case k.kind < 255:
		k.kind, k.offset = k.kind+1, 0
	default:
		k = key{object: k.object + 1}
	}
	return k
}
