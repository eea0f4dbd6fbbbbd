package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

func newInstallCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "install DIRECTORY",
		Short: "Copy flexctl itself into a directory",
		Long: `Copies the running binary to DIRECTORY/flexctl. The dispatcher does that to bring flexctl into pods that run inline
scripts in somebody else's image.`,
		Example:               "  flexctl install /opt/flex-provisioner",
		DisableFlagsInUseLine: true,
		Args:                  atMost(1, "give one directory"),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("flexctl install: the directory is missing")
			}
			if err := install(args[0]); err != nil {
				return fmt.Errorf("install flexctl: %w", err)
			}
			return nil
		},
	}
}

// install writes a temporary file and renames it, so that flexctl is never there in part.
func install(directory string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	source, err := os.Open(self)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.CreateTemp(directory, ".flexctl-")
	if err != nil {
		return err
	}
	defer os.Remove(target.Name()) // fails after the rename
	_, err = io.Copy(target, source)
	if err = errors.Join(err, target.Chmod(0o755), target.Close()); err != nil {
		return err
	}
	return os.Rename(target.Name(), filepath.Join(directory, "flexctl"))
}
