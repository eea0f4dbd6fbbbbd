package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/bare"
)

func newRequireCommand(root string) *cobra.Command {
	var mark string
	cmd := &cobra.Command{
		Use:   "require [--mark FILE] [PROPERTY...]",
		Short: "Fail unless the class sets these properties and the storage is mounted",
		Long: `Succeeds if the ConfigMap or the StorageClass sets each of the properties to something. Otherwise the request is refused
with exit code 64 and a message that names all that are missing. Call it before anything is made.

--mark tells mounted storage from an empty mount point, where everything would look as if it were gone. FILE lies in the
storage, beside the volumes. To provision, it is made. To expand and to delete, it has to be there; otherwise the exit code
is 75, and the request is tried again; to list, it is 69. An undo is let through without it, since it may come before the
first volume.`,
		Example: `  flexctl require server export
  flexctl require --mark /export/.silver server`,
		DisableFlagsInUseLine: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && mark == "" {
				return errors.New("flexctl require: name at least one property, or --mark FILE")
			}
			request, err := bare.LoadRequest(root)
			if err != nil {
				return err
			}
			if err := require(request, args); err != nil || mark == "" {
				return err
			}
			undo := false
			if request.Operation == contract.Delete {
				volume, err := loadVolume(root, request)
				if err != nil {
					return err
				}
				undo = volume == nil
			}
			return requireMark(mark, request.Operation, undo)
		},
	}
	cmd.Flags().StringVar(&mark, "mark", "", "a `FILE` that is there as long as the storage is mounted")
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

// requireMark fails unless the file mark shows that the storage is mounted. It never creates the mark's directory, which is missing if the
// storage is.
func requireMark(mark string, operation contract.Operation, undo bool) error {
	_, err := os.Stat(mark)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, os.ErrNotExist):
		return bare.TryAgain(fmt.Errorf("look for the mark of the storage: %w", err))
	case operation == contract.Provision:
		file, err := os.OpenFile(mark, os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return bare.TryAgain(fmt.Errorf("mark the storage: %w; is it mounted at %s, and may this user write to it?", err, filepath.Dir(mark)))
		}
		return file.Close()
	case operation == contract.List:
		return bare.NotHere(fmt.Errorf("%s is not there: nothing was made, or the storage is not mounted at %s", mark, filepath.Dir(mark)))
	case undo:
		if _, err := os.Stat(filepath.Dir(mark)); err == nil {
			return nil
		}
	}
	return bare.TryAgain(fmt.Errorf("%s is not there: the storage is not mounted at %s; if it is, make the file", mark, filepath.Dir(mark)))
}
