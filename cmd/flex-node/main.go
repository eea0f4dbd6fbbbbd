// Command flex-node is the node side of volumes that Kubernetes has no type for: a CSI driver without a controller. The
// kubelet asks it to stage, publish and grow them. It asks nobody, and has no rights at the API server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/cmd/flex-node/driver"
	"github.com/flex-provisioner/flex-provisioner/cmd/flex-node/host"
	"github.com/flex-provisioner/flex-provisioner/internal/version"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	klog.Flush()
	if err != nil {
		fmt.Fprintln(os.Stderr, "flex-node:", contract.Paragraph(err.Error()))
		os.Exit(1)
	}
}

type options struct {
	driverName, nodeName, kubeletDir string
	stagers, directories             []string
}

const long = `flex-node is a CSI driver for the kubelet of its node. It registers itself, and needs no sidecar, no token and no network.

The stager loop mounts images: files --directory/VOLUME/image, which a provisioner pod makes together with a
PersistentVolume that has this driver. The stager iscsi reaches volumes of arrays, by iscsiadm and multipath of its
node. It runs privileged, with these directories, /dev and --kubelet-dir of its node, and for iscsi it sees the node's
processes.`

func newCommand() *cobra.Command {
	var o options
	command := &cobra.Command{
		Use: "flex-node", Short: "Mount volumes that Kubernetes has no type for", Long: long,
		Version: version.String(), Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(command *cobra.Command, _ []string) error { return o.run(command.Context()) },
	}
	flags := command.Flags()
	flags.StringVar(&o.driverName, "driver-name", contract.SnapshotDriver("flex-provisioner.io/dispatcher"),
		"the name of the CSI driver, which is that of the dispatcher for snapshots")
	flags.StringVar(&o.nodeName, "node-name", os.Getenv("NODE_NAME"), "the node's name")
	flags.StringVar(&o.kubeletDir, "kubelet-dir", "/var/lib/kubelet",
		"the kubelet's directory (--root-dir), at the same path as on the node")
	flags.StringSliceVar(&o.stagers, "stagers", []string{"loop"}, "the `STAGERS` whose volumes are served: loop, iscsi")
	flags.StringArrayVar(&o.directories, "directory", nil, "a `DIRECTORY` that may have images; may be repeated")
	verbosity := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(verbosity)
	flags.AddGoFlag(verbosity.Lookup("v"))
	command.CompletionOptions.DisableDefaultCmd = true

	return command
}

func (o options) run(ctx context.Context) error {
	if o.nodeName == "" {
		return errors.New("--node-name is empty, and so is NODE_NAME")
	}

	if err := driver.CheckDirectories(o.directories); err != nil {
		return err
	}

	if err := driver.CheckStagers(o.stagers); err != nil {
		return err
	}

	plugin := filepath.Join(o.kubeletDir, "plugins", o.driverName)
	node := host.New(filepath.Join(plugin, "volumes"))
	id := o.nodeName
	if slices.Contains(o.stagers, "iscsi") { // no array has to know a node that has only images
		var err error
		if id, err = node.NodeID(o.nodeName, os.Getenv("NODE_IP")); err != nil {
			return err
		}
	}

	syscall.Umask(0o077) // sockets are for root alone

	return serve(ctx, endpoints{
		csi:          filepath.Join(plugin, "csi.sock"),
		registration: filepath.Join(o.kubeletDir, "plugins_registry", o.driverName+"-reg.sock"),
	}, &driver.Identity{Name: o.driverName, Version: version.String()},
		&driver.Node{Host: node, ID: id, Name: o.nodeName, Stagers: o.stagers, Directories: o.directories})
}
