package main

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flex-provisioner/flex-provisioner/images/btrfs/kernel"
)

// marginOf is what is never promised, so that the file system's own records have room: a twentieth.
func marginOf(size uint64) uint64 { return size / 20 }

// roomIn is how many bytes can still be promised in a file system: what is free, less what groups were promised and have not written
// yet. So all volumes can be filled to their sizes.
func roomIn(size, free uint64, groups map[uint64]kernel.Group) uint64 {
	promised := marginOf(size)
	for _, group := range groups {
		if group.Limited && group.Limit > group.Used {
			promised += group.Limit - group.Used
		}
	}
	if promised >= free {
		return 0
	}
	return free - promised
}

// mebibytes is a size for people.
func mebibytes(bytes uint64) string {
	return resource.NewQuantity(int64(bytes>>20<<20), resource.BinarySI).String()
}
