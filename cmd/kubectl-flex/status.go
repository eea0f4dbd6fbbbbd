package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/inspect"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

func newStatus(o *options) *cobra.Command {
	all, watch := false, false
	c := &cobra.Command{
		Use:   "status [CLAIM|PV|POD]",
		Short: "Show claims that wait, expand or are being deleted, classes and the dispatcher",
		Long: `Show each claim that waits, expands or is being deleted: phase, for how long, attempt, when the next
one follows, and why; then the classes and the dispatcher. With a name, show that claim alone.

With a name the exit code is 0 if the claim is bound, 3 if it waits, and 4 if something is wrong.`,
		Example: "  kubectl flex status -A\n  kubectl flex status data --watch    # until it is bound",
		Args:    args(0, 1, "at most one name"),
		RunE: func(c *cobra.Command, args []string) error {
			namespace, err := o.inNamespace()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				namespace, name := inspect.SplitName(namespace, args[0])
				return o.statusOf(c.Context(), namespace, name, watch)
			}
			if all {
				namespace, o.qualified = "", true
			}
			return o.status(c.Context(), namespace, watch)
		},
		ValidArgsFunction: o.completeNames,
	}
	c.Flags().BoolVarP(&all, "all-namespaces", "A", false, "Show the claims of all namespaces")
	c.Flags().BoolVarP(&watch, "watch", "w", false, "Go on, and show what changes")
	o.addOutput(c, "wide", "name")
	return c
}

// period is the time between two reads of a watch. They are served from the API server's cache.
const period = 2 * time.Second

func (o *options) status(ctx context.Context, namespace string, watch bool) error {
	r, err := o.read(ctx, namespace, everything...)
	if err != nil {
		return err
	}
	if err := r.denied(ctx); err != nil {
		return err
	}
	view := r.o.Overview(namespace)
	if err := o.showOverview(view); err != nil {
		return err
	}
	for _, u := range view.Unread {
		if u.Kind == inspect.Claims {
			return fmt.Errorf("claims may not be read: it takes the right to %s", u.Right)
		}
	}
	if !watch {
		return nil
	}
	last := byUID(view.Claims)
	for {
		if r, err = o.nextRead(ctx, namespace); err != nil {
			return err
		}
		now := r.o.Overview(namespace).Claims
		var changed []inspect.State
		for _, s := range now {
			if !reflect.DeepEqual(last[s.UID], s) {
				changed = append(changed, s)
			}
		}
		for _, uid := range slices.Sorted(maps.Keys(last)) {
			if !slices.ContainsFunc(now, func(s inspect.State) bool { return s.UID == uid }) {
				changed = append(changed, r.o.StateOf(uid))
			}
		}
		last = byUID(now)
		if err := o.showClaims(changed); err != nil {
			return err
		}
	}
}

// nextRead is the next read of a watch, after a pause. It retries transient errors.
func (o *options) nextRead(ctx context.Context, namespace string) (reader, error) {
	for o.pause(ctx) {
		r, err := o.read(ctx, namespace, everything...)
		if err == nil || ctx.Err() == nil && !isTransient(err) {
			return r, err
		}
		if ctx.Err() == nil {
			fmt.Fprintln(o.ErrOut, "looking again:", contract.Paragraph(err.Error()))
		}
	}
	return reader{}, ctx.Err()
}

// isTransient reports whether the API server is busy or not reachable.
func isTransient(err error) bool {
	for _, is := range []func(error) bool{apierrors.IsTooManyRequests, apierrors.IsServerTimeout, apierrors.IsTimeout, apierrors.IsServiceUnavailable, apierrors.IsInternalError,
		utilnet.IsConnectionRefused, utilnet.IsConnectionReset, utilnet.IsProbableEOF, utilnet.IsTimeout} {
		if is(err) {
			return true
		}
	}
	return false
}

func byUID(states []inspect.State) map[string]inspect.State {
	m := map[string]inspect.State{}
	for _, s := range states {
		m[s.UID] = s
	}
	return m
}

// pause waits until the next read of a watch is due. It is false once the command is to end.
func (o *options) pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(o.period):
		return true
	}
}

func (o *options) showClaims(states []inspect.State) error {
	if len(states) == 0 {
		return nil
	}
	if done, err := o.encode(states); done {
		return err
	}
	return o.printClaims(states)
}

// printClaims prints a table of claims, or their names.
func (o *options) printClaims(states []inspect.State) error {
	if o.output != "name" {
		return o.claimTable(states)
	}
	namespace, err := o.inNamespace()
	for _, s := range states {
		fmt.Fprintln(o.Out, s.Name(o.qualified || s.Namespace != namespace))
	}
	return err
}

func (o *options) statusOf(ctx context.Context, namespace, name string, watch bool) error {
	r, uid, err := o.find(ctx, namespace, name) // the UID is kept, since another claim may get the name
	if err != nil {
		return err
	}
	var last inspect.State
	for {
		s := r.o.StateOf(uid)
		if !reflect.DeepEqual(s, last) {
			last = s
			if done, err := o.encode(stateAndUnread{s, r.o.Unread}); err != nil {
				return err
			} else if !done {
				if err := o.printClaims([]inspect.State{s}); err != nil {
					return err
				}
				o.printUnread(s, r.o.Unread)
			}
		}
		if s.NotOurs != "" {
			return exit{exitNotOurs, errors.New(otherProvisionerMessage(s))}
		}
		if !watch || s.Done() {
			return exitOf(s)
		}
		if r, err = o.nextRead(ctx, namespace); err != nil {
			return err
		}
	}
}

// stateAndUnread is a state as YAML or JSON.
type stateAndUnread struct {
	inspect.State
	Unread []inspect.Unread `json:"unread,omitempty"`
}

// printUnread prints what could not be read for one claim. Users can read only their own claims, so for them it is one line.
func (o *options) printUnread(s inspect.State, list []inspect.Unread) {
	switch {
	case s.EventsOnly:
		fmt.Fprintln(o.ErrOut, "This is what the claim and its events say. Administrators see more; -o yaml says which rights that takes.")
	case s.NotOurs == "":
		o.unread(list)
	}
}

func otherProvisionerMessage(s inspect.State) string {
	if s.NotOurs == inspect.Nobody {
		return fmt.Sprintf("no provisioner answers for claim %s/%s: its class %q does not exist, or its volume was made by hand", s.Namespace, s.Claim, s.Class)
	}
	return fmt.Sprintf("%s is of provisioner %s, not of this dispatcher", s.Subject(), s.NotOurs)
}

func exitOf(s inspect.State) error {
	switch {
	case s.Troubled():
		return exit{code: exitTrouble}
	case !s.Done():
		return exit{code: exitWaits}
	}
	return nil
}

func notFound(err error) error {
	var other inspect.NotOursError
	var class inspect.NoClassError
	if errors.As(err, &other) || errors.As(err, &class) {
		return exit{exitNotOurs, err}
	}
	return err
}

func (o *options) showOverview(view inspect.Overview) error {
	if done, err := o.encode(view); done {
		return err
	}
	switch {
	case o.output == "name":
		o.unread(view.Unread)
		return o.printClaims(view.Claims)
	case len(view.Claims) > 0:
		if err := o.claimTable(view.Claims); err != nil {
			return err
		}
	case view.Reads(inspect.Claims):
		fmt.Fprintln(o.Out, "No claim waits, expands or is being deleted.")
	}
	if len(view.Classes) > 0 {
		fmt.Fprintln(o.Out)
		if err := o.classTable(view.Classes); err != nil {
			return err
		}
	}
	if d := view.Dispatcher; d != nil {
		fmt.Fprintln(o.Out)
		o.showDispatcher(d)
	}
	o.printUnread(inspect.State{EventsOnly: view.EventsOnly && view.Reads(inspect.Claims)}, view.Unread)
	return nil
}

func (o *options) classTable(classes []inspect.ClassState) error {
	heading := "CLASS CONFIGMAP HEALTH RUNNING WAITING MAX ACCOUNT GRANTS"
	var rows [][]string
	for _, c := range classes {
		most := ""
		if c.MaxConcurrent > 0 {
			most = strconv.Itoa(c.MaxConcurrent)
		}
		rows = append(rows, []string{c.Name, c.ConfigMap, c.Health, strconv.Itoa(c.Running), strconv.Itoa(c.Waiting), most, c.Account, o.grants(c.Grants)})
	}
	if err := o.columns(heading, rows, nil); err != nil {
		return err
	}
	for _, c := range classes {
		for _, problem := range c.Problems {
			fmt.Fprintf(o.Out, "  %s: %s\n", c.Name, problem)
		}
	}
	return nil
}

func (o *options) grants(grants map[string]string) string {
	if o.output != "wide" {
		return grants["volumeTypes"]
	}
	var all []string
	for _, setting := range slices.Sorted(maps.Keys(grants)) {
		all = append(all, setting+"="+grants[setting])
	}
	return strings.Join(all, " ")
}

func (o *options) showDispatcher(d *inspect.DispatcherState) {
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(o.Out, "%-13s%s\n", name+":", value)
		}
	}
	field("Provisioner", d.Provisioner)
	leader := d.Leader
	switch {
	case d.LeaderUnknown:
		leader = "the Lease may not be read"
	case leader == "":
		leader = "none holds the Lease"
	case !d.LeaderLost.IsZero():
		leader = fmt.Sprintf("none: %s has not renewed the Lease for %s", leader, o.ago(d.LeaderLost))
	case !d.LeaderSince.IsZero():
		leader += ", for " + o.ago(d.LeaderSince)
	}
	field("Leader", leader)
	if d.Image != "" {
		field("Image", fmt.Sprintf("%s, %d of %d ready", d.Image, d.Ready, d.Wanted))
	}
	field("Policies", strings.Join(d.Policies, "\n             "))
	field("Deletions", d.DeletionsStopped)
	field("Snapshots", d.Snapshots)
}
