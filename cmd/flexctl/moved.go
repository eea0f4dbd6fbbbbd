package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// movedCommands are former commands of flexctl. They fail and name the command of kubectl flex. These are not for pods, and made flexctl
// large.
func movedCommands() []*cobra.Command {
	var commands []*cobra.Command
	for _, name := range []string{"class", "conformance", "new"} {
		commands = append(commands, &cobra.Command{
			Use:                name,
			Hidden:             true,
			DisableFlagParsing: true, // the flags are kubectl flex's
			RunE: func(*cobra.Command, []string) error {
				return fmt.Errorf("flexctl %[1]s is now kubectl flex %[1]s, with the same arguments; make build puts it into bin/kubectl-flex", name)
			},
		})
	}
	return commands
}
