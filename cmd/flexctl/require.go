package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flex-provisioner/flex-provisioner/sdk/bare"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

func newRequireCommand(root string) *cobra.Command {
	var mark string
	var mounted, optional []string
	cmd := &cobra.Command{
		Use:   "require [--mark FILE] [--mounted PATH=nfs://SERVER/DIRECTORY] [--optional PROPERTY,...] [PROPERTY...]",
		Short: "Fail unless the class sets these properties and the storage is mounted",
		Long: `Succeeds if the ConfigMap or the StorageClass sets each of the properties to something. Otherwise the request is refused
with exit code 64 and a message that names all that are missing. Call it before anything is made.

--optional names the other properties that the provisioner knows. To provision, any further one is refused with exit code
64: a setting that is misspelled has no effect, and nobody would notice. A volume that exists may have any.

--mark tells mounted storage from an empty mount point, where everything would look as if it were gone. FILE lies in the
storage, beside the volumes. To provision, it is made. To expand and to delete, it has to be there; otherwise the exit code
is 75, and the request is tried again; to list, it is 69. An undo is let through without it, since it may come before the
first volume.

The mark also tells the storage from another one. Its first line is the ID of the storage, of at most 64 printable
characters without spaces. A mark without one stays as it is, and FILE.id gets a random ID. create-pv writes the ID on the
volume. An expand, a delete or an undo that finds another ID fails with exit code 1, and names both.

--mounted compares what mount-claims mounts with what the class's properties say. If PATH is on another NFS export, a
provision is refused with exit code 64, and everything else fails with 1. Names and addresses of one server are different.`,
		Example: `  flexctl require server export
  flexctl require --mark /export/.silver server
  flexctl require server export --optional mode,mount
  flexctl require --mounted "/export=nfs://$SERVER$EXPORT" --mark /export/.silver`,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && mark == "" && len(mounted) == 0 {
				return errors.New("flexctl require: name at least one property, or --mark FILE")
			}
			request, err := bare.LoadRequest(root)
			if err != nil {
				return err
			}
			if err := require(request, args); err != nil {
				return err
			}
			if len(optional) > 0 {
				if err := bare.RefuseUnknown(request, slices.Concat(args, optional)); err != nil {
					return err
				}
			}
			for _, pair := range mounted {
				path, export, _ := strings.Cut(pair, "=")
				if err := bare.CheckMounted(request, path, export); err != nil {
					return err
				}
			}
			if mark == "" {
				return nil
			}
			undo := false
			if request.Operation == contract.Delete {
				volume, err := loadVolume(root, request)
				if err != nil {
					return err
				}
				undo = volume == nil
			}
			return bare.RequireMark(root, mark, request, undo, cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&mark, "mark", "", "a `FILE` that is there as long as the storage is mounted")
	cmd.Flags().StringSliceVar(&optional, "optional", nil, "`PROPERTIES` that the class may set, and no others")
	cmd.Flags().StringArrayVar(&mounted, "mounted", nil, "a `PATH=EXPORT`: what is mounted at a path of the pod")
	return cmd
}

func require(request contract.Request, names []string) error {
	var missing []string
	for _, name := range names {
		if request.Properties[name] == "" && request.Parameters[name] == "" {
			missing = append(missing, fmt.Sprintf("%q", name))
		}
	}
	switch len(missing) {
	case 0:
		return nil
	case 1:
		return bare.Refuse(fmt.Errorf("property %s is missing: set it in the class's ConfigMap", missing[0]))
	}
	return bare.Refuse(fmt.Errorf("properties %s are missing: set them in the class's ConfigMap", strings.Join(missing, ", ")))
}
