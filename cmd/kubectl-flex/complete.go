package main

import (
	_ "embed" // of the script
	"fmt"

	"github.com/spf13/cobra"
)

// bashCompletion replaces the script that cobra generates, which has 380 lines more and does not pass shellcheck.
//
//go:embed completion.bash
var bashCompletion string

func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print the script by which a shell completes commands, flags and names",
		Long: `Print the script by which a shell completes commands, flags and names of kubectl-flex.

For "kubectl flex", kubectl looks for a program kubectl_complete-flex on the PATH. It has two lines:
    #!/bin/sh
    exec kubectl-flex __complete "$@"`,
		Example: `  source <(kubectl-flex completion bash)
  kubectl-flex completion zsh > "${fpath[1]}/_kubectl-flex"
  kubectl-flex completion fish | source`,
		DisableFlagsInUseLine: true,
		Args:                  args(1, 1, "the name of a shell"),
		ValidArgs:             []string{"bash", "zsh", "fish"},
		RunE: func(c *cobra.Command, args []string) error {
			out := c.OutOrStdout()
			switch args[0] {
			case "bash":
				_, err := fmt.Fprint(out, bashCompletion)
				return err
			case "zsh":
				return c.Root().GenZshCompletion(out)
			case "fish":
				return c.Root().GenFishCompletion(out, true)
			}
			return usageFault(c, fmt.Errorf("there is no completion for %q", args[0]))
		},
	}
}

// completeNames completes the names of claims of the namespace for which something is to be done.
func (o *options) completeNames(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	namespace, err := o.inNamespace()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	objects, err := o.read(c.Context(), namespace)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, s := range objects.Overview(namespace).Claims {
		if s.Claim != "" {
			names = append(names, s.Claim)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
