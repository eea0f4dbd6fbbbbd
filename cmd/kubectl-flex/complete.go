package main

import "github.com/spf13/cobra"

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
