package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"time"

	"github.com/spf13/cobra"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/audit"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

const auditLong = `Compares claims, volumes, snapshots, provisioner pods and Secrets with each other, and volumes with
the storage, and prints what nobody needs or what is missing, each with the command that would
remove or mend it. It runs none of them: look before you do.

Storage is looked at for classes whose ConfigMap says listable: "true", by a pod of their image that
lists what there is, of several classes at once. Of node-local classes one runs on each node. What
they wait for is printed to standard error, and one that does not start within a minute is given up.
Where several clusters share storage, that of the others looks like an orphan, unless the image
tells clusters apart.

It needs the rights of an administrator, and none of the dispatcher's. The exit code is 0 where
nothing was found, 1 where it could not look at everything, and 4 where it could and something was
found.`

func newAudit(o *options) *cobra.Command {
	storage := true
	command := &cobra.Command{
		Use:   "audit",
		Short: "Name the volumes, snapshots, pods, Secrets and storage that nobody needs",
		Long:  auditLong,
		Args:  args(0, 0, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			return o.audit(command.Context(), storage)
		},
	}
	command.Flags().BoolVar(&storage, "storage", storage, "Run pods that list the storage")
	o.addOutput(command)
	return command
}

func (o *options) audit(ctx context.Context, storage bool) error {
	r, err := o.read(ctx, "", reader.dispatcher)
	if err != nil {
		return err
	}
	d := r.o.Dispatcher
	a := auditor{client: r.client, namespace: d.Namespace, provisioner: d.Provisioner, storage: storage,
		patience: time.Minute, notes: log.New(o.ErrOut, "", 0)}
	snapshots, err := r.audited(ctx, a.note)
	if err != nil {
		return err
	}
	state, unseen := a.state(ctx)
	state.Snapshots = snapshots
	found := audit.Compare(state)
	if err := o.printAudit(found, len(unseen) == 0); err != nil {
		return err
	}
	if n := state.Unplaced(); n > 0 {
		a.note("volumes that were made before their record said where their storage is: %d. To delete or expand them, pods use what the class mounts by then: "+
			"see docs/operations.md#pointing-a-class-elsewhere", n)
	}
	switch {
	case len(unseen) > 0:
		return exit{exitFailed, fmt.Errorf("found %d, but could not look at everything: %w", len(found), utilerrors.NewAggregate(unseen))}
	case len(found) > 0:
		return exit{exitTrouble, fmt.Errorf("found %d", len(found))}
	}
	return nil
}

// auditFinding is a finding as data.
type auditFinding struct {
	Kind    audit.Kind `json:"kind"`
	Name    string     `json:"name"`
	Why     string     `json:"why"`
	Command string     `json:"command"`
}

// printAudit prints what was found. complete reports whether everything was looked at.
func (o *options) printAudit(found []audit.Finding, complete bool) error {
	list := []auditFinding{}
	for _, f := range found {
		list = append(list, auditFinding{f.Kind, f.Name, f.Why, f.Command})
	}
	if done, err := o.encode(list); done {
		return err
	}

	for _, f := range found {
		showFinding(o.Out, f)
	}
	if len(found) == 0 && complete {
		fmt.Fprintln(o.Out, "nothing found")
	}
	return nil
}

// showFinding prints a finding as two lines, whatever characters it has.
func showFinding(out io.Writer, f audit.Finding) {
	fmt.Fprintf(out, "%s\n    %s\n", contract.OneLine(fmt.Sprintf("%s %s: %s", f.Kind, f.Name, f.Why)), contract.OneLine(f.Command))
}

// state reads the objects before and after the storage is listed. unseen has an error for everything that could not be read.
func (a auditor) state(ctx context.Context) (s audit.State, unseen []error) {
	s = audit.State{Provisioner: a.provisioner}
	before, err := a.objects(ctx)
	if err != nil {
		return s, []error{err}
	}
	s.Before = before
	if a.storage {
		s.Listings, unseen = a.listings(ctx)
	}
	if s.Objects, err = a.objects(ctx); err != nil {
		unseen = append(unseen, err)
		s.Objects, s.Listings = audit.Objects{}, nil // with some of the objects missing, others would look left over
	}
	s.Now = time.Now()
	return s, unseen
}

func (a auditor) note(format string, args ...any) {
	a.notes.Print(contract.OneLine(fmt.Sprintf(format, args...)))
}
