package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/conformance"
)

// conformanceFlags are the flags of the command conformance.
type conformanceFlags struct {
	conformance.Options
	properties, parameters, secrets []string
	mounts                          []string
	runAsUser                       int64
	list, junit, json, flexctl      string
}

func newConformance() *cobra.Command {
	f := &conformanceFlags{}
	cmd := &cobra.Command{
		Use:   "conformance SCRIPT|IMAGE|CONFIGMAP",
		Short: "Try a provisioner against the contract, without a cluster",
		Long: `Runs a program, an archive or name of an image, or a class's ConfigMap a few hundred times, in a
sandbox on this machine. docs/conformance.md explains the checks, and how to try a class on a
cluster.`,
		Example:               `  kubectl flex conformance provisioner.sh --storage /export --property use-nfs-server=10.0.0.1`,
		DisableFlagsInUseLine: true,
		Args:                  args(1, 1, "a script, an image or a ConfigMap"),
		RunE:                  func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	f.add(cmd.Flags())
	return cmd
}

func (f *conformanceFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.properties, "property", nil, "KEY=VALUE: a property of the class; may be repeated")
	flags.StringArrayVar(&f.parameters, "parameter", nil, "KEY=VALUE: a parameter of the StorageClass")
	flags.StringArrayVar(&f.secrets, "secret", nil, "NAME=DIRECTORY: a Secret, from a directory of files")
	flags.StringArrayVar(&f.Storage, "storage", nil, "a path at which pods find a directory for their storage")
	flags.StringArrayVar(&f.mounts, "mount", nil, "PATH=DIRECTORY: a directory of this machine that pods find at PATH")
	flags.StringVar(&f.list, "list", "", "a shell command that prints a line for each piece of storage")
	flags.StringArrayVar(&f.Rights, "allow", nil, `a right of the class's ServiceAccount, such as "get secrets"`)
	flags.BoolVar(&f.Expandable, "expandable", false, "volumes can be expanded, as the ConfigMap's key says")
	flags.BoolVar(&f.Snapshots, "snapshots", false, "the operations of snapshots are known, as the ConfigMap's key says")
	flags.BoolVar(&f.Listable, "listable", false, "the operation list is known, as the ConfigMap's key says")
	flags.StringVar(&f.Image, "image", "", "the image to take instead of a ConfigMap's")
	flags.Int64Var(&f.runAsUser, "run-as-user", -1, "the pods' user (default: the ConfigMap's, else 65532)")
	flags.BoolVar(&f.Network, "network", false, "pods use the network of this machine (default: the API server only)")
	flags.BoolVar(&f.HostUsers, "host-users", false, "pods that run as root are root of this machine, to what --mount names")
	flags.DurationVar(&f.Timeout, "timeout", time.Minute, "how long a pod may run")
	flags.DurationVar(&f.Grace, "grace", 30*time.Second, "how long a pod may run on after SIGTERM")
	flags.IntVar(&f.Kills, "kills", 20, "how often each operation is killed")
	flags.StringArrayVar(&f.Only, "check", nil, "run this check only; the others then count as skipped")
	flags.StringVar(&f.flexctl, "flexctl", "", "the program for scripts (default: beside this one, or on PATH)")
	flags.StringVar(&f.junit, "junit", "", "write the report to this file, as JUnit XML")
	flags.StringVar(&f.json, "json", "", "write the report to this file, as JSON")
}

func (f *conformanceFlags) run(cmd *cobra.Command, subject string) (err error) {
	o := f.Options
	o.Subject = subject
	for _, pairs := range []struct {
		flag string
		from []string
		to   *map[string]string
	}{{"property", f.properties, &o.Properties}, {"parameter", f.parameters, &o.Parameters}, {"secret", f.secrets, &o.Secrets}, {"mount", f.mounts, &o.Mounts}} {
		if *pairs.to, err = parsePairs(pairs.flag, pairs.from); err != nil {
			return err
		}
	}
	if f.list != "" {
		o.List = func(ctx context.Context) ([]string, error) { return runList(ctx, f.list) }
	}
	if cmd.Flags().Changed("run-as-user") {
		o.RunAsUser = &f.runAsUser
	}
	if o.Flexctl, err = findFlexctl(f.flexctl); err != nil {
		return err
	}
	o.Done = func(r conformance.Result) {
		_ = r.WriteText(cmd.OutOrStdout()) // a line that cannot be printed does not end the run
	}
	o.Warn = func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), text) }

	report, err := conformance.Run(cmd.Context(), o)
	if err != nil {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout(), "\n"+report.Summary())
	if err := f.write(report); err != nil {
		return err
	}
	if !report.Passed {
		return errors.New("not all that is required passed")
	}
	return nil
}

func (f *conformanceFlags) write(report *conformance.Report) error {
	asJSON := func(w io.Writer) error {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	}
	for _, one := range []struct {
		name  string
		write func(io.Writer) error
	}{{f.junit, report.WriteJUnit}, {f.json, asJSON}} {
		if one.name == "" {
			continue
		}
		file, err := os.Create(one.name)
		if err != nil {
			return fmt.Errorf("write report: %w", err)
		}
		if err := errors.Join(one.write(file), file.Close()); err != nil {
			return fmt.Errorf("write report %s: %w", one.name, err)
		}
	}
	return nil
}

func parsePairs(flag string, pairs []string) (map[string]string, error) {
	values := map[string]string{}
	for _, pair := range pairs {
		key, value, found := strings.Cut(pair, "=")
		if _, twice := values[key]; !found || key == "" || twice {
			return nil, fmt.Errorf("--%s %q: write KEY=VALUE, each key once", flag, pair)
		}
		values[key] = value
	}
	return values, nil
}

// runList is the output of a shell command, without empty lines.
func runList(ctx context.Context, command string) ([]string, error) {
	output, err := exec.CommandContext(ctx, "/bin/sh", "-c", command).Output()
	if err != nil {
		return nil, fmt.Errorf("%q: %w", command, err)
	}
	return slices.DeleteFunc(strings.Split(string(output), "\n"), func(line string) bool { return strings.TrimSpace(line) == "" }), nil
}
