// Command flexctl is for provisioners that are scripts. Inside the pod it creates the PersistentVolume, reads the request, and fails with
// a message and an exit code of the contract. It is a thin layer over package sdk/bare, and small, since every pod that runs a
// script has it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/flex-provisioner/flex-provisioner/internal/version"
	"github.com/flex-provisioner/flex-provisioner/sdk/bare"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	code := run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

type streams struct {
	in       io.Reader
	out, err io.Writer
}

func run(ctx context.Context, args []string, s streams) int {
	root := os.Getenv(bare.RootEnv)
	cmd := newCommand(root)
	cmd.SetArgs(args)
	cmd.SetIn(s.in)
	cmd.SetOut(s.out)
	cmd.SetErr(s.err)
	return bare.Report(root, cmd.ExecuteContext(ctx), s.err)
}

func newCommand(root string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "flexctl",
		Short: "Inside a provisioner pod: create the volume, read the request, fail well",
		Long: `flexctl is for provisioners written in shell. Whatever fails writes the pod's termination message, which is
what the claim's owner sees, and ends with the exit code that the contract gives it:

   0  done
  64  the request can never work and nothing was made
  69  not on this node and nothing was made
  75  nothing is wrong, try again soon
   1  anything else: tried again with growing delays`,
		Example: `  set -eu
  flexctl require server --mark /export/.disks
  dir=/export/$FLEX_PV_NAME
  case $FLEX_OPERATION in
  provision) mkdir -p "$dir"; flexctl create-pv --nfs "$SERVER:$dir" ;;
  delete)    rm -rf -- "$dir" ;;
  *)         flexctl fail --refuse "unknown: $FLEX_OPERATION" ;;
  esac`,
		Version:       version.String(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w; see %s --help", err, c.CommandPath())
	})
	cmd.AddCommand(newCreateCommand(root), newFailCommand(), newPublishCommand(root), newRequestCommand(root), newVolumeCommand(root), newRequireCommand(root),
		newDirnameCommand(root), newCopyCommand(), newInstallCommand())
	return cmd
}

// atMost allows n arguments. The error names the first one that is too many.
func atMost(n int, remedy string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return fmt.Errorf("%s: unexpected argument %q: %s", cmd.CommandPath(), args[n], remedy)
		}
		return nil
	}
}
