package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/flex-provisioner/flex-provisioner/cmd/flexctl/tree"
	"github.com/flex-provisioner/flex-provisioner/sdk/bare"
)

func newCopyCommand() *cobra.Command {
	full := false
	cmd := &cobra.Command{
		Use:   "copy [--full] FROM TO",
		Short: "Make the directory TO a copy of FROM, whole or not at all",
		Long: `Makes TO, which is in a directory that exists, a copy of the directory FROM: for snapshots and for restoring them. It
works under the name .TO.copy-..., and renames that to TO at last, so that TO is never half a copy. If TO is there already,
that is success. What an earlier attempt left is removed.

The copy shares the data of files with FROM, which takes a moment and no room (reflink: XFS, btrfs and others). Where the file
system cannot, the exit code is 64 and nothing is made, or with --full the data is copied.

It follows no link and never leaves FROM, whoever changes FROM meanwhile. Each file whose data is shared is as it was at one
moment; different files are of different moments. Names, links, holes, modes, owners, times, ACLs and the users' extended
attributes are kept; owners other than the pod's user need root.`,
		Example: `  flexctl copy "/export/$FLEX_PV_NAME" "/export/.disks/$FLEX_SNAPSHOT_NAME"
  flexctl copy --full "/export/.disks/$FLEX_SOURCE_SNAPSHOT" "/export/$FLEX_PV_NAME"`,
		DisableFlagsInUseLine: true,
		Args:                  atMost(2, "give FROM and TO, in quotes"),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 || args[0] == "" || args[1] == "" {
				return errors.New("flexctl copy: give the directories FROM and TO")
			}
			err := tree.Copy(args[0], args[1], full)
			if errors.Is(err, tree.ErrNoClone) {
				return bare.Refuse(fmt.Errorf("%s: %w; --full copies it", args[0], err))
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&full, "full", false, "copy the data where the file system cannot share it")
	return cmd
}
