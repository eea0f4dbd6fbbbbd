package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	"github.com/spf13/cobra"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/jsonpath"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/inspect"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/admission"
	"github.com/flex-provisioner/flex-provisioner/internal/version"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// options are what all commands have in common.
type options struct {
	genericiooptions.IOStreams
	kube *genericclioptions.ConfigFlags
	// system is the dispatcher's namespace. If the others are empty, they are read from its Deployment.
	system, namespace, provisioner string
	output                         string
	headed                         bool // the heading of claims, or a YAML document, was written
	color                          string
	// width is the number of columns of the terminal that Out is, 0 for what is none.
	width int
	// qualified reports whether -o name prints claims with their namespaces.
	qualified bool

	client    kubernetes.Interface // of tests; else made of kube
	snapshots snapshotclient.Interface
	now       func() time.Time
	// lacking compares the cluster's policies with the shipped ones, as admission.Lacking does.
	lacking func([]admissionv1.ValidatingAdmissionPolicy, []admissionv1.ValidatingAdmissionPolicyBinding,
		string, string, string) ([]string, error)
	// period is the time between two reads of a watch.
	period time.Duration
}

const long = `Show how the claims of flex-provisioner stand and why, and act for them.

Exit codes: 0 done or bound, 1 failed, 2 wrong usage, 3 waits and nothing is wrong, 4 something is
wrong, 5 not of this dispatcher. docs/kubectl-flex.md explains each command.`

func newCommand(name string, streams genericiooptions.IOStreams) *cobra.Command {
	return commandOf(name, &options{IOStreams: streams, now: time.Now, lacking: admission.Lacking, period: period,
		width: widthOf(streams.Out), kube: genericclioptions.NewConfigFlags(true)})
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
	root.PersistentPreRunE = o.checkColour
	root.SetVersionTemplate("kubectl-flex version {{.Version}}\n")
	flags := root.PersistentFlags()
	o.kube.AddFlags(flags)
	flags.StringVar(&o.system, "system-namespace", contract.SystemNamespace, "Namespace of the dispatcher and its allow-list")
	flags.StringVar(&o.namespace, "provisioners-namespace", "", "Namespace of ConfigMaps (default: the Deployment's)")
	flags.StringVar(&o.provisioner, "provisioner-name", "", "Provisioner of the classes (default: the Deployment's)")
	flags.StringVar(&o.color, "color", "auto", "Colors: "+either(colors))
	for flag, complete := range map[string]cobra.CompletionFunc{"namespace": o.completeNamespaces, "system-namespace": o.completeNamespaces,
		"provisioners-namespace": o.completeNamespaces, "color": cobra.FixedCompletions(colors, cobra.ShellCompDirectiveNoFileComp)} {
		if err := root.RegisterFlagCompletionFunc(flag, complete); err != nil {
			panic(err) // the flag is there
		}
	}
	root.SetFlagErrorFunc(usageFault)
	root.SetHelpTemplate(helpTemplate)
	root.SetUsageTemplate(helpTemplate)
	root.AddCommand(newStatus(o), newCheck(o), newBundle(o), newWhy(o), newLogs(o), newRetry(o), newStopDeletes(o), newRelease(o),
		newRender(o), newValidate(o), newNew(o), newConformance(), newAudit(o), newAdopt(o), newVersion(o), newOptions())
	return root
}

func usageFault(c *cobra.Command, err error) error {
	return exit{exitUsage, fmt.Errorf("%w; see %s --help", err, c.CommandPath())}
}

// args checks the number of arguments.
func args(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usageFault(c, fmt.Errorf("%s takes %s, got %d arguments", c.CommandPath(), what, len(args)))
		}
		return nil
	}
}

// helpTemplate is a help that fits a screen of 40 lines. The flags that all commands take are in the help of the command
// options alone.
const helpTemplate = `{{if .Long}}{{.Long}}{{else}}{{.Short}}{{end}}

Usage:
  {{.UseLine}}
{{if .HasExample}}
Examples:
{{.Example}}
{{end}}{{if .HasAvailableSubCommands}}
Commands:
{{range .Commands}}{{if .IsAvailableCommand}}  {{rpad .Name 14}} {{.Short}}
{{end}}{{end}}{{end}}
Flags:
{{.LocalNonPersistentFlags.FlagUsagesWrapped 100}}{{if ne .Name "options"}}
"{{.Root.CommandPath}} options" lists the flags that all commands take, such as --namespace.
{{end}}`

// width of the help in columns.
const width = 100

// newOptions lists the flags that all commands have in common, as kubectl options does.
func newOptions() *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "List the flags that all commands take",
		Args:  args(0, 0, "none"),
		RunE: func(c *cobra.Command, _ []string) error {
			fmt.Fprintf(c.OutOrStdout(), "%s", c.Root().PersistentFlags().FlagUsagesWrapped(width))
			return nil
		},
	}
}

// jsonPath begins the value of -o that has a template.
const jsonPath = "jsonpath="

// addOutput adds the flag -o. Every command that has it knows the formats of data, and more.
func (o *options) addOutput(c *cobra.Command, more ...string) {
	formats := slices.Concat([]string{"table"}, more, []string{"yaml", "json", jsonPath})
	c.Flags().StringVarP(&o.output, "output", "o", "table", "Output format: "+either(formats))
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if template, found := strings.CutPrefix(o.output, jsonPath); found {
			if err := jsonpath.New("output").Parse(template); err != nil {
				return usageFault(c, fmt.Errorf("--output=%q: %w", o.output, err))
			}
			return nil
		}
		if !slices.Contains(formats, o.output) {
			return usageFault(c, fmt.Errorf("--output=%q: say %s", o.output, either(formats)))
		}
		return nil
	}
}

// either is a list in words.
func either(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// inNamespace is the namespace that kubectl would use.
func (o *options) inNamespace() (string, error) {
	namespace, _, err := o.kube.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}

// named is a name from the command line, with the namespace that it has before it, or else kubectl's.
func (o *options) named(name string) (string, string, error) {
	namespace, err := o.inNamespace()
	if err != nil {
		return "", "", err
	}
	namespace, name = inspect.SplitName(namespace, name)
	return namespace, name, nil
}
