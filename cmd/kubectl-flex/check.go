package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/inspect"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

func newCheck(o *options) *cobra.Command {
	c := &cobra.Command{
		Use:   "check",
		Short: "Check the installation and all classes, with one exit code",
		Long: `Check the installation and all classes: a line for each object that is ok, for each warning, and for
each failure with its remedy. It changes nothing.

The exit code is 0 if nothing failed, 4 if something did, and 1 if it could not look at everything.
Warnings do not change it: deletions that are stopped, claims that wait.`,
		Example: "  kubectl flex check\n  kubectl flex check -o json",
		Args:    args(0, 0, "no arguments"),
		RunE:    func(c *cobra.Command, _ []string) error { return o.check(c.Context()) },
	}
	o.addOutput(c)
	return c
}

func (o *options) check(ctx context.Context) error {
	r, err := o.read(ctx, "", everything...)
	if err != nil {
		return err
	}

	objects := r.o
	needs := objects.Needs(objects.OwnConfigMaps())
	if err := r.checkExists(ctx, append(needs, objects.Grantees()...)); err != nil {
		return err
	}
	denied, err := r.checkPermissions(ctx, needs)
	if err != nil {
		return err
	}

	findings := objects.Check(denied)
	if err := o.printFindings(findings); err != nil {
		return err
	}
	failed := slices.ContainsFunc(findings, func(f inspect.Finding) bool { return f.Result == inspect.ResultFailed })
	switch {
	case failed:
		return exit{code: exitTrouble}
	case len(objects.Unread) > 0:
		return exit{exitFailed, errors.New("not everything could be looked at")}
	}
	return nil
}

func (o *options) printFindings(findings []inspect.Finding) error {
	if done, err := o.encode(findings); done {
		return err
	}
	for i, f := range findings {
		padding := strings.Repeat(" ", 9-len(f.Result))
		result := o.paint(colourOfResult[f.Result], string(f.Result))
		fmt.Fprintf(o.Out, "%s%s%s: %s\n", result, padding, f.Object, contract.OneLine(f.Message))
		again := i+1 < len(findings) && findings[i+1].Do == f.Do
		if f.Do != "" && !again {
			fmt.Fprintf(o.Out, "%-9sdo: %s\n", "", f.Do)
		}
	}
	return nil
}
