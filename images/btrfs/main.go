// Command btrfs is a provisioner of volumes with a size limit on the disks of nodes: subvolumes of a btrfs file system, each with a quota.
// README.md is for administrators.
package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/flex-provisioner/flex-provisioner/internal/version"
	"github.com/flex-provisioner/flex-provisioner/sdk"
)

func main() {
	if slices.Equal(os.Args[1:], []string{"--version"}) {
		fmt.Println("btrfs version", version.String())
		return
	}
	sdk.Main(provisioner{node: os.Getenv("FLEX_NODE"), root: os.Getenv(sdk.RootEnv)})
}
