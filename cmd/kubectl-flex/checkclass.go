package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

func newClassCheck(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "check NAME",
		Short: "Say what an existing storage class lacks",
		Long: `Looks at the StorageClass, its ConfigMap and the faults of that, the ServiceAccount with its right and its grants, and
the Secrets and claims that its pods mount. It says what is missing, with the remedy, and changes nothing.`,
		Example:               "  kubectl flex class check silver",
		DisableFlagsInUseLine: true,
		Args:                  args(1, 1, "the name of a StorageClass"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.checkClass(cmd.Context(), args[0]); err != nil {
				return fmt.Errorf("class %s: %w", args[0], err)
			}
			return nil
		},
	}
}

func (o *options) checkClass(ctx context.Context, name string) error {
	cluster, err := o.classes()
	if err != nil {
		return err
	}
	place, err := o.place(ctx)
	if err != nil {
		return err
	}
	report, err := cluster.Check(ctx, name, place)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, what := range report.Missing {
		fmt.Fprintf(&text, "missing: %s\n", what)
	}
	for _, what := range report.Unknown {
		fmt.Fprintf(&text, "not checked: %s\n", what)
	}
	if len(report.Grants) > 0 {
		grants, err := yaml.Marshal(report.Grants)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "granted:\n  %s\n", strings.ReplaceAll(strings.TrimSpace(string(grants)), "\n", "\n  "))
	}
	if _, err := fmt.Fprint(o.Out, text.String()); err != nil {
		return err
	}
	if n := len(report.Missing); n > 0 {
		return fmt.Errorf("%d things are missing", n)
	}
	return nil
}
