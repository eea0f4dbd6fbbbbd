package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/flex-provisioner/flex-provisioner/audit"
	"github.com/flex-provisioner/flex-provisioner/contract"
)

// Exit codes of the audit; 0 is that nothing was found.
const (
	exitFound       = 1
	exitCouldNotSee = 2
)

// exitError ends the process with a code of its own.
type exitError struct {
	code int
	error
}

func (e exitError) Unwrap() error { return e.error }

const auditLong = `audit compares claims, volumes, provisioner pods and Secrets with each other and with the storage, and prints what nobody
needs or what is missing, each with the command that would remove or mend it. It runs none of them: look before you do.

Storage is looked at for classes whose ConfigMap says listable: "true", by a pod of their image that lists what there
is. Of node-local classes one runs on each node. Where several clusters share storage, that of the others looks like an
orphan, unless the image tells clusters apart.

It needs the rights of an administrator, and none of the dispatcher's. The exit code is 0 where nothing was found, 1
where something was, and 2 where it could not look at everything.`

type auditOptions struct {
	kubeconfig, namespace, provisioner string
	storage                            bool
}

func newAudit() *cobra.Command {
	o := auditOptions{namespace: contract.ProvisionersNamespace, provisioner: contract.ProvisionerName, storage: true}
	command := &cobra.Command{
		Use:   "audit",
		Short: "Name the volumes, pods, Secrets and storage that nobody needs",
		Long:  auditLong,
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return o.run(command.Context(), command.OutOrStdout(), command.ErrOrStderr())
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` that says how to reach the API server (default: $KUBECONFIG, ~/.kube/config, or the pod's ServiceAccount)")
	flags.StringVar(&o.namespace, "namespace", o.namespace, "`namespace` of the provisioner ConfigMaps and pods")
	flags.StringVar(&o.provisioner, "provisioner-name", o.provisioner, "the `name` that StorageClasses have as provisioner")
	flags.BoolVar(&o.storage, "storage", o.storage, "run pods that list the storage")
	flags.SortFlags = false
	return command
}

func (o auditOptions) run(ctx context.Context, out, notes io.Writer) error {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return exitError{exitCouldNotSee, fmt.Errorf("find the API server: %w", err)}
	}
	config.UserAgent = "flex-provisioner-audit"
	client, err := kubernetes.NewForConfig(limited(config, 50, 100))
	if err != nil {
		return exitError{exitCouldNotSee, fmt.Errorf("make client: %w", err)}
	}
	look := looker{client: client, auditOptions: o, notes: notes}
	state, unseen := look.state(ctx)
	found := audit.Compare(state)
	for _, f := range found {
		show(out, f)
	}
	switch {
	case len(unseen) > 0:
		return exitError{exitCouldNotSee, fmt.Errorf("found %d, but could not look at everything: %w", len(found), utilerrors.NewAggregate(unseen))}
	case len(found) > 0:
		return exitError{exitFound, fmt.Errorf("found %d", len(found))}
	}
	fmt.Fprintln(out, "nothing found")
	return nil
}

// show prints a finding as two lines, whatever is in it.
func show(out io.Writer, f audit.Finding) {
	fmt.Fprintf(out, "%s\n    %s\n", contract.OneLine(fmt.Sprintf("%s %s: %s", f.Kind, f.Name, f.Why)), contract.OneLine(f.Command))
}

// state looks at the objects before and after the storage, and returns what it could not look at.
func (l looker) state(ctx context.Context) (audit.State, []error) {
	s := audit.State{Provisioner: l.provisioner}
	before, err := l.objects(ctx)
	if err != nil {
		return s, []error{err}
	}
	s.Before = before
	var unseen []error
	if l.storage {
		s.Listings, unseen = l.listings(ctx)
	}
	if s.Objects, err = l.objects(ctx); err != nil {
		unseen = append(unseen, err)
		s.Objects, s.Listings = audit.Objects{}, nil // half of them would make the rest look like orphans
	}
	s.Now = time.Now()
	return s, unseen
}

func (l looker) note(format string, args ...any) {
	fmt.Fprintln(l.notes, contract.OneLine(fmt.Sprintf(format, args...)))
}
