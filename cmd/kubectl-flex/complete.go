package main

import (
	"github.com/spf13/cobra"
)

// completeNames offers the claims of the namespace that something is to be done for.
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
