package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/flex-provisioner/flex-provisioner/conformance/cluster"
)

// consumerImage is an image of the project that has the programs which the kit's consumers need.
const consumerImage = "registry.invalid/flex-provisioner/shell:dev"

// Flags of one mode alone. Flags in neither list are for both modes.
var (
	alone = []string{"property", "parameter", "secret", "storage", "mount", "allow", "expandable", "listable", "image", "run-as-user", "network", "host-users", "grace", "flexctl"}
	there = []string{"class", "namespace", "size", "consumer-image"}
)

func (f *conformanceFlags) addCluster(flags *pflag.FlagSet) {
	o := &f.cluster
	flags.BoolVar(&f.onCluster, "cluster", false, "try a class that is installed on a cluster")
	flags.StringVar(&o.Class, "class", "", "with --cluster: the StorageClass to try")
	flags.StringVar(&o.Size, "size", "", "with --cluster: what claims ask for (default: 1Gi, or the nearest)")
	flags.StringVar(&o.ConsumerImage, "consumer-image", consumerImage, "with --cluster: the image of consumers, with sh, cat, dd and sync")
}

// checkMode refuses flags that have no effect in this mode.
func (f *conformanceFlags) checkMode(flags *pflag.FlagSet) (err error) {
	not, remedy := there, "only with --cluster"
	if f.onCluster {
		not, remedy = alone, "not with --cluster, where the class's own ConfigMap says it"
	}
	flags.Visit(func(flag *pflag.Flag) {
		if err == nil && slices.Contains(not, flag.Name) {
			err = fmt.Errorf("--%s: %s", flag.Name, remedy)
		}
	})
	return err
}

func (f *conformanceFlags) runOnCluster(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%q with --cluster: install it as a class, and name that by --class", args[0])
	}
	o, err := f.cluster, error(nil)
	if o.Config, err = f.o.kube.ToRESTConfig(); err != nil {
		return err
	}
	if o.ProvisionersNamespace, err = f.o.provisioners(cmd.Context()); err != nil {
		return err
	}
	o.Namespace = *f.o.kube.Namespace
	o.Timeout, o.Kills, o.Only, o.Done = 5*time.Minute, 3, f.Only, printResult(cmd.OutOrStdout())
	if cmd.Flags().Changed("timeout") {
		o.Timeout = f.Timeout
	}
	if cmd.Flags().Changed("kills") {
		o.Kills = f.Kills
	}
	if f.list != "" {
		o.List = func(ctx context.Context) ([]string, error) { return runList(ctx, f.list) }
	}
	defer context.AfterFunc(cmd.Context(), func() {
		fmt.Fprintln(cmd.ErrOrStderr(), "interrupted: what was made is being removed")
	})()
	return f.finish(cmd)(cluster.Run(cmd.Context(), o))
}
