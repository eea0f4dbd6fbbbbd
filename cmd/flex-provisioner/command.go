package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/internal/version"
)

const long = `flex-provisioner runs a pod of a storage administrator's own container for each PersistentVolumeClaim.

A ConfigMap in --namespace with the labels storage-class=CLASS and type=provisioner-config names the image (or holds a
script), a ServiceAccount and the properties that the container gets. The pod makes the storage and creates the
PersistentVolume; when the volume is released, a pod of the same image removes the storage. StorageClasses name
--provisioner-name as their provisioner.

It serves /healthz, /readyz (which names what is missing, permissions included) and /metrics on --http-address, needs no
storage of its own, and may be stopped and started at any moment. Run two replicas to have one take over at once.`

// width of the help in columns.
const width = 116

func newCommand() *cobra.Command {
	o := defaults()
	command := &cobra.Command{
		Use:           "flex-provisioner",
		Short:         "Provision volumes by pods of your own image",
		Long:          long,
		Version:       version.String(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, _ []string) error {
			checked, err := o.validate()
			if err != nil {
				return err
			}
			return run(command.Context(), checked)
		},
	}
	o.register(command.Flags())
	verbosity := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(verbosity)
	command.Flags().AddGoFlag(verbosity.Lookup("v"))
	command.Flags().SortFlags = false
	command.PersistentPreRunE = func(*cobra.Command, []string) error {
		return setUpLogging(os.Stderr, o.loggingFormat, verbosity.Lookup("v").Value.String())
	}
	command.SetUsageFunc(usage)
	command.CompletionOptions.DisableDefaultCmd = true
	return command
}

// usage is no template of cobra's: one that is executed can name any method, so that the linker keeps all of them. The
// process takes 10 MB more then.
func usage(c *cobra.Command) error {
	_, err := fmt.Fprintf(c.OutOrStdout(), "Usage:\n  %s\n\nFlags:\n%s", c.UseLine(), c.LocalFlags().FlagUsagesWrapped(width))

	return err
}
