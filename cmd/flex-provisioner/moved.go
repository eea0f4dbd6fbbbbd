package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// movedAudit is the former command audit. It fails and names the new one.
func movedAudit() *cobra.Command {
	return &cobra.Command{
		Use:                "audit",
		Hidden:             true,
		DisableFlagParsing: true, // the flags are kubectl flex's
		RunE: func(*cobra.Command, []string) error {
			return errors.New("flex-provisioner audit is now kubectl flex audit; make build puts it into bin/kubectl-flex")
		},
	}
}
