package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/version"
)

// options are what all commands have in common.
type options struct {
	genericiooptions.IOStreams
	kube *genericclioptions.ConfigFlags
	// system is the dispatcher's namespace. The others are read from its Deployment where they are empty.
	system, namespace, provisioner string
	output                         string
	headed                         bool // the heading of claims, or a YAML document, was written

	client kubernetes.Interface // of tests; else made of kube
	now    func() time.Time
	// period is how often a watch looks.
	period time.Duration
}

const long = `Show how the claims of flex-provisioner stand and why, and act for them.

Exit codes: 0 done or bound, 1 failed, 2 wrong usage, 3 waits and nothing is wrong, 4 something is wrong,
5 not of this dispatcher. docs/kubectl-flex.md explains each command.`

func newCommand(name string, streams genericiooptions.IOStreams) *cobra.Command {
	return commandOf(name, &options{IOStreams: streams, now: time.Now, period: period, kube: genericclioptions.NewConfigFlags(true)})
}

func commandOf(name string, o *options) *cobra.Command {
	root := &cobra.Command{
		Use:         "kubectl-flex",
		Short:       "See and act for claims of flex-provisioner",
		Long:        long,
		Version:     version.String(),
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: name},
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageFault(c, fmt.Errorf("there is no command %q", args[0]))
			}
			return nil
		},
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetVersionTemplate("kubectl-flex version {{.Version}}\n")
	flags := root.PersistentFlags()
	o.kube.AddFlags(flags)
	flags.StringVar(&o.system, "system-namespace", contract.SystemNamespace, "Namespace of the dispatcher and its allow-list")
	flags.StringVar(&o.namespace, "provisioners-namespace", "", "Namespace of ConfigMaps and pods (default: as the dispatcher's Deployment says)")
	flags.StringVar(&o.provisioner, "provisioner-name", "", "Provisioner of the StorageClasses (default: as the dispatcher's Deployment says)")
	root.SetFlagErrorFunc(usageFault)
	root.SetHelpFunc(help)
	root.SetUsageFunc(func(c *cobra.Command) error { help(c, nil); return nil })
	root.AddCommand(newStatus(o), newWhy(o), newLogs(o), newRetry(o), newStopDeletes(o), newRelease(o),
		newRender(o), newValidate(o), newDiff(o), newClass(o), newNew(o), newConformance(o), newAudit(o), newAdopt(o))
	return root
}

func usageFault(c *cobra.Command, err error) error {
	return exit{exitUsage, fmt.Errorf("%w; see %s --help", err, c.CommandPath())}
}

// args checks how many arguments there are.
func args(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usageFault(c, fmt.Errorf("%s takes %s, got %d arguments", c.CommandPath(), what, len(args)))
		}
		return nil
	}
}

// help fits a screen: of kubectl's own flags, which people know, it has those that are used most.
func help(c *cobra.Command, _ []string) {
	out := c.OutOrStdout()
	fmt.Fprintf(out, "%s\n\nUsage:\n  %s\n", cmp.Or(c.Long, c.Short), c.UseLine())
	if c.Example != "" {
		fmt.Fprintf(out, "\nExamples:\n%s\n", c.Example)
	}
	var subs []*cobra.Command
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			subs = append(subs, sub)
		}
	}
	if len(subs) > 0 {
		fmt.Fprint(out, "\nCommands:\n")
		for _, sub := range subs {
			fmt.Fprintf(out, "  %-14s %s\n", sub.Name(), sub.Short)
		}
	}
	if own := c.LocalNonPersistentFlags(); own.HasAvailableFlags() {
		fmt.Fprintf(out, "\nFlags:\n%s", own.FlagUsagesWrapped(width))
	}
	fmt.Fprintf(out, "\nGlobal flags (those of kubectl for the cluster and the user work, too):\n%s", usual(c).FlagUsagesWrapped(width))
}

// width of the help in columns.
const width = 116

var usualFlags = []string{"namespace", "context", "kubeconfig", "as", "system-namespace", "provisioners-namespace", "provisioner-name"}

func usual(c *cobra.Command) *pflag.FlagSet {
	set := pflag.NewFlagSet("usual", pflag.ContinueOnError)
	set.SortFlags = false
	c.Root().PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(usualFlags, f.Name) {
			set.AddFlag(f)
		}
	})
	return set
}

// addOutput adds the flag -o.
func (o *options) addOutput(c *cobra.Command) {
	c.Flags().StringVarP(&o.output, "output", "o", "table", "Output format: table, wide, yaml or json")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "wide", "yaml", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

func (o *options) checkOutput(c *cobra.Command) error {
	if !slices.Contains([]string{"table", "wide", "yaml", "json"}, o.output) {
		return usageFault(c, fmt.Errorf("--output=%q: say table, wide, yaml or json", o.output))
	}
	return nil
}

// inNamespace is the namespace that kubectl would use.
func (o *options) inNamespace() (string, error) {
	namespace, _, err := o.kube.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}
