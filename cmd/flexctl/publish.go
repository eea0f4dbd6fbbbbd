package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flex-provisioner/flex-provisioner/internal/version"
	"github.com/flex-provisioner/flex-provisioner/sdk/bare"
)

func newPublishCommand(root string) *cobra.Command {
	return &cobra.Command{
		Use:   "publish KEY=VALUE...",
		Short: "Tell the node how to reach the volume that was attached to it",
		Long: `Writes into the VolumeAttachment what flex-node has to know on the node, such as the portals of a target. Every
administrator can read it: no secrets in it. Call it last, in the operation attach. It replaces what an earlier attempt wrote.`,
		Example: `  flexctl publish "paths=10.0.0.5:3260/iqn.2026-01.com.example:$FLEX_PV_NAME/1"`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			metadata := map[string]string{}
			for _, arg := range args {
				key, value, found := strings.Cut(arg, "=")
				if !found || key == "" {
					return fmt.Errorf("flexctl publish: %q is not KEY=VALUE", arg)
				}
				metadata[key] = value
			}
			request, err := bare.LoadRequest(root)
			if err != nil {
				return err
			}
			client, err := bare.NewClient(root, "flexctl/"+version.String(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			timeout := createTimeout(request)
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout, fmt.Errorf("gave up after %s", timeout))
			defer cancel()
			return bare.Publish(ctx, client, request, metadata)
		},
	}
}
