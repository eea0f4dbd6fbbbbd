package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/spf13/cobra"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/inspect"
	"github.com/flex-provisioner/flex-provisioner/internal/version"
)

func newVersion(o *options) *cobra.Command {
	clientOnly := false
	c := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of this program and of the cluster's dispatcher",
		Long: `Show the versions of this program and of the cluster's dispatcher, and warn where they differ. The
dispatcher's is the label app.kubernetes.io/version of its Deployment, or else the tag of its image.
Snapshots is the version of the CustomResourceDefinitions of snapshots, where the cluster has them.`,
		Example: "  kubectl flex version\n  kubectl flex version --client    # asks no cluster",
		Args:    args(0, 0, "no arguments"),
		RunE:    func(c *cobra.Command, _ []string) error { return o.version(c.Context(), clientOnly) },
	}
	c.Flags().BoolVar(&clientOnly, "client", false, "Ask no cluster")
	o.addOutput(c)
	return c
}

// versions are those of both sides.
type versions struct {
	Client string `json:"client"`
	// Dispatcher is nil where it is not known.
	Dispatcher *dispatcherVersion `json:"dispatcher,omitempty"`
	// Snapshots is the version of the kinds of snapshots, or that they are not served. It is empty where it is not known.
	Snapshots string `json:"snapshots,omitempty"`
	// Warning says that the versions differ.
	Warning string `json:"warning,omitempty"`
}

type dispatcherVersion struct {
	// Version is empty where the Deployment does not say it.
	Version string `json:"version,omitempty"`
	Image   string `json:"image,omitempty"`
	Ready   int32  `json:"ready"`
	Wanted  int32  `json:"wanted"`
}

func (o *options) version(ctx context.Context, clientOnly bool) error {
	both := versions{Client: version.String()}
	var problem error
	if !clientOnly {
		both, problem = o.bothVersions(ctx)
	}

	if done, err := o.encode(both); err != nil {
		return err
	} else if !done {
		o.printVersions(both)
	}
	return problem
}

// bothVersions has the client's version, whatever the error is.
func (o *options) bothVersions(ctx context.Context) (versions, error) {
	both := versions{Client: version.String()}
	r, err := o.read(ctx, "", reader.dispatcher)
	if err != nil {
		return both, err
	}
	if !r.o.Dispatcher.Found {
		return both, fmt.Errorf("namespace %s has no Deployment %s that may be read: "+
			"name the dispatcher's with --system-namespace, or say --client", o.system, deploymentName)
	}

	both = versionsOf(both.Client, r.o.Dispatcher)
	lacks, err := lacksKinds(r.client)
	switch {
	case err != nil:
	case len(lacks) > 0:
		both.Snapshots = "not served"
	default:
		both.Snapshots = snapshotv1.SchemeGroupVersion.String()
	}

	return both, err
}

func versionsOf(client string, d inspect.DispatcherOptions) versions {
	both := versions{Client: client, Dispatcher: &dispatcherVersion{
		Version: d.Version, Image: d.Image, Ready: d.Ready, Wanted: d.Wanted}}
	if d.Version != "" && d.Version != client {
		both.Warning = fmt.Sprintf("this program is %s, and the dispatcher is %s: causes and remedies may be those of "+
			"another version; take the plugin of the dispatcher's release", client, d.Version)
	}
	return both
}

func (o *options) printVersions(both versions) {
	fmt.Fprintf(o.Out, "%-13s%s\n", "Client:", both.Client)
	if d := both.Dispatcher; d != nil {
		fmt.Fprintf(o.Out, "%-13s%s, image %s, %d of %d ready\n", "Dispatcher:", cmp.Or(d.Version, "of unknown version"), d.Image, d.Ready, d.Wanted)
	}
	if both.Snapshots != "" {
		fmt.Fprintf(o.Out, "%-13s%s\n", "Snapshots:", both.Snapshots)
	}
	if both.Warning != "" {
		fmt.Fprintln(o.ErrOut, "warning:", both.Warning)
	}
}

// released is a tag that is a version. Others, such as dev, say nothing.
var released = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+`)

// versionOf is the version that the tag of an image says, empty where it says none.
func versionOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	if !released.MatchString(tag) {
		return ""
	}
	return tag
}
