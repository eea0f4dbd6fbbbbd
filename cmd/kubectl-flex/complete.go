package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/inspect"
)

// completion finds what completes a word, among the objects with the claims of kubectl's namespace.
type completion func(objects *inspect.Objects, namespace, word string) []string

// complete is the completion of up to so many arguments, with claims of the namespace that the word begins with, or else of kubectl's.
func (o *options) complete(most int, find completion) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		namespace, _, err := o.named(word)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		r, err := o.read(c.Context(), namespace, ofNames...)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return matching(find(r.o, namespace, word), args, word), cobra.ShellCompDirectiveNoFileComp
	}
}

// matching are the names that begin with the word, and are no arguments yet.
func matching(names, args []string, word string) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasPrefix(name, word) || slices.Contains(args, name)
	})
}

func (o *options) completeNames(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	return o.complete(1, (*inspect.Objects).NamesFor)(c, args, word)
}

// any number of arguments.
const anyNumber = 1 << 10

func classNames(objects *inspect.Objects, _, word string) []string {
	return objects.ClassNamesFor(word)
}

// completeNamespaces completes the flags that name a namespace.
func (o *options) completeNamespaces(c *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	r, err := o.read(c.Context(), "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	list, err := r.client.CoreV1().Namespaces().List(c.Context(), r.lists)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, namespace := range list.Items {
		names = append(names, namespace.Name)
	}
	return matching(names, nil, word), cobra.ShellCompDirectiveNoFileComp
}
