package main

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flex-provisioner/flex-provisioner/images/btrfs/kernel"
)

// marginOf is the space that is kept free for the metadata of the file system: a twentieth.
func marginOf(size uint64) uint64 { return size / 20 }

// roomIn is how many bytes a file system has left for new volumes: its free space, less what existing groups may still write up to their
// limits. So all volumes can be filled.
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
