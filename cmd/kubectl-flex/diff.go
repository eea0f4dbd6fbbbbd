package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/inspect"
)

func newDiff(o *options) *cobra.Command {
	var files []string
	c := &cobra.Command{
		Use:   "diff -f FILE",
		Short: "Say what an edited ConfigMap would change for new and for existing volumes",
		Long: `Say what a ConfigMap in a file would change if it were applied: for volumes that are made from then on, and for
those that exist. Values of properties are not shown. The exit code is 0 if nothing would change, else 3.`,
		Example: "  kubectl flex diff -f configmap.yaml",
		Args:    args(0, 0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			if len(files) == 0 {
				return usageFault(c, errors.New("name a file with -f"))
			}
			if err := o.checkOutput(c); err != nil {
				return err
			}
			return o.diff(c.Context(), files)
		},
	}
	c.Flags().StringSliceVarP(&files, "filename", "f", nil, "Files or directories with the ConfigMap as it would be, - for standard input")
	o.addOutput(c)
	return c
}

func (o *options) diff(ctx context.Context, files []string) error {
	r, m, faults, err := o.withFiles(ctx, files, false)
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return exit{exitTrouble, errors.New(joinFaults(faults))}
	}
	var edited []*corev1.ConfigMap
	for _, cm := range m.ConfigMaps {
		if cm.Labels[configmaps.LabelType] == configmaps.TypeProvisioner {
			edited = append(edited, cm)
		}
	}
	if len(edited) == 0 {
		return fmt.Errorf("no file has a ConfigMap with the label %s: %s", configmaps.LabelType, configmaps.TypeProvisioner)
	}
	diffs := []*inspect.Diff{}
	changed := false
	for _, cm := range edited {
		d, err := r.o.DiffOf(cm)
		if err != nil {
			return exit{exitTrouble, err}
		}
		diffs = append(diffs, d)
		changed = changed || len(d.Changes) > 0 || d.New
	}
	if done, err := o.encode(diffs); err != nil {
		return err
	} else if !done {
		for _, d := range diffs {
			if err := o.showDiff(d); err != nil {
				return err
			}
		}
		o.unread(r.o.Unread)
	}
	if changed {
		return exit{code: exitWaits}
	}
	return nil
}

func (o *options) showDiff(d *inspect.Diff) error {
	fmt.Fprintf(o.Out, "ConfigMap %s, of the classes %s: %d volumes exist, %d claims wait.\n", d.ConfigMap, strings.Join(d.Classes, ", "), d.Volumes, d.Waiting)
	switch {
	case d.New:
		fmt.Fprintln(o.Out, "It does not exist yet.")
		return nil
	case len(d.Changes) == 0:
		fmt.Fprintln(o.Out, "Nothing changes.")
		return nil
	}
	var rows [][]string
	for _, c := range d.Changes {
		rows = append(rows, []string{c.Key, c.What, c.NewVolumes, c.Existing})
	}
	if err := columns(o.Out, "KEY CHANGE NEW-VOLUMES EXISTING-VOLUMES", rows); err != nil {
		return err
	}
	if d.Unplaced > 0 {
		fmt.Fprintln(o.Out, "Warning: volumes whose record does not say where they are: "+strconv.Itoa(d.Unplaced)+". They are deleted and expanded in what the class mounts then.")
	}
	if d.Undone > 0 {
		fmt.Fprintln(o.Out, "What earlier attempts may have made is removed first, for waiting claims: "+strconv.Itoa(d.Undone))
	}
	return nil
}
