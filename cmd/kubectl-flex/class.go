package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/inspect"
	"github.com/flex-provisioner/flex-provisioner/configmaps"
)

func newRender(o *options) *cobra.Command {
	var files []string
	claim := ""
	c := &cobra.Command{
		Use:   "render CLASS",
		Short: "Print the pod that would be made for a claim of a class",
		Long: `Print the first pod that the dispatcher would make for a claim of the class: the one in --claim, or
one that asks for what the class offers. Files with -f take the place of the cluster's objects. The
pod shows the class's properties. The signature in its volume is not the dispatcher's.`,
		Example: "  kubectl flex render silver\n  kubectl flex render silver -f configmap.yaml --claim pvc.yaml",
		Args:    args(1, 1, "the name of a StorageClass"),
		RunE: func(c *cobra.Command, args []string) error {
			return o.render(c.Context(), args[0], claim, files)
		},
		ValidArgsFunction: o.complete(1, classNames),
	}
	c.Flags().StringVar(&claim, "claim", "", "File with the claim")
	c.Flags().StringSliceVarP(&files, "filename", "f", nil, "Files or directories with the ConfigMap and the StorageClass as they would be")
	return c
}

func (o *options) render(ctx context.Context, class, claimFile string, files []string) error {
	r, m, faults, err := o.withFiles(ctx, files, false)
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return exit{exitTrouble, errors.New(joinFaults(faults))}
	}
	if nothing := m.Nothing(); nothing != "" && len(files) > 0 {
		return exit{exitTrouble, errors.New(nothing)}
	}
	if err := r.podCluster(ctx); err != nil {
		return err
	}
	r.o.Overlay(m)
	if class, err = r.o.FindClass(class); err != nil {
		return notFound(err)
	}
	namespace, err := o.inNamespace()
	if err != nil {
		return err
	}
	claim := r.o.ExampleClaim(class, namespace)
	if claimFile != "" {
		of, faults, err := o.manifest([]string{claimFile})
		if err != nil {
			return err
		}
		if len(faults) > 0 {
			return exit{exitTrouble, errors.New(joinFaults(faults))}
		}
		if claim, err = onlyClaim(of); err != nil {
			return fmt.Errorf("%s: %w", claimFile, err)
		}
		if claim.Namespace == "" {
			claim.Namespace = namespace
		}
	}
	pod, err := r.o.Render(claim, class)
	if err != nil {
		return exit{exitTrouble, err}
	}
	text, err := yaml.Marshal(pod)
	if err != nil {
		return err
	}
	_, err = o.Out.Write(text)
	return err
}

func joinFaults(faults []inspect.Fault) string {
	lines := make([]string, len(faults))
	for i, f := range faults {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

func newValidate(o *options) *cobra.Command {
	var files []string
	offline := false
	c := &cobra.Command{
		Use:   "validate [CLASS...] [-f FILE]",
		Short: "Check ConfigMaps, StorageClasses, ServiceAccounts, Secrets and grants of classes",
		Long: `Check everything that a class consists of, in files or in the cluster, and print all faults at once.
Against a cluster, what the ConfigMap names has to exist, and the API server is asked by dry runs,
also for the pod of a claim. The exit code is 0 if all is well, and 4 if there are faults.`,
		Example: "  kubectl flex validate silver\n  kubectl kustomize examples/silver | kubectl flex validate -f -\n  kubectl flex validate -f class/ --offline",
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(files)+len(args) == 0:
				return usageFault(c, errors.New("name a class, or a file with -f"))
			case offline && len(args) > 0:
				return usageFault(c, errors.New("--offline checks files: name them with -f"))
			}
			return o.validate(c.Context(), args, files, offline)
		},
		ValidArgsFunction: o.complete(anyNumber, classNames),
	}
	c.Flags().StringSliceVarP(&files, "filename", "f", nil, "Files or directories to check, - for standard input")
	c.Flags().BoolVar(&offline, "offline", false, "Ask no cluster")
	o.addOutput(c)
	return c
}

func (o *options) validate(ctx context.Context, classes, files []string, offline bool) error {
	r, m, faults, err := o.withFiles(ctx, files, offline)
	if err != nil {
		return err
	}
	if nothing := m.Nothing(); nothing != "" && len(files) > 0 && len(faults) == 0 {
		return exit{exitTrouble, errors.New("nothing was checked: " + nothing)}
	}
	for _, u := range r.o.Unread {
		if len(classes) > 0 && (u.Kind == inspect.ConfigMaps || u.Kind == inspect.Classes) {
			return fmt.Errorf("%s may not be read, so that nothing was checked: it takes the right to %s", u.Kind, u.Right)
		}
	}
	r.o.Overlay(m)
	for i, class := range classes {
		if classes[i], err = r.o.FindClass(class); err != nil {
			return notFound(err)
		}
	}
	if !offline {
		list := m.ConfigMaps
		for _, class := range classes {
			list = append(list, r.o.ConfigMapsFor(class)...)
		}
		needs := r.o.Needs(list)
		if err := r.checkExists(ctx, needs); err != nil {
			return err
		}

		denied, err := r.checkPermissions(ctx, needs)
		if err != nil {
			return err
		}
		faults = append(faults, denied...)
	}
	faults = append(faults, r.o.Validate(m, classes)...)
	if !offline && len(faults) == 0 {
		dry, err := r.dryRuns(ctx, m, classes)
		if err != nil {
			return err
		}
		faults = dry
	}
	faults = append([]inspect.Fault{}, faults...)
	slices.SortStableFunc(faults, func(a, b inspect.Fault) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	done, err := o.encode(faults)
	if err != nil {
		return err
	}
	if !done {
		for _, f := range faults {
			fmt.Fprintln(o.Out, f)
		}
		switch {
		case len(faults) > 0:
		case !offline && len(r.o.Unread) > 0:
			fmt.Fprintln(o.Out, "No faults in what may be read.")
		default:
			fmt.Fprintln(o.Out, "No faults.")
		}
		if passed := m.PassedOver(); passed != "" {
			fmt.Fprintln(o.ErrOut, "passed over:", passed)
		}
		if !offline {
			o.unread(r.o.Unread)
		}
	}
	if len(faults) > 0 {
		return exit{code: exitTrouble}
	}
	return nil
}

// dryRuns returns what the API server refuses in a dry run: the objects of the files, and the pod of a claim of each class.
func (r reader) dryRuns(ctx context.Context, m *inspect.Manifest, classes []string) (faults []inspect.Fault, err error) {
	refused := func(object string, err error) {
		switch {
		case err == nil:
		case apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot "): // a right that is missing
			r.o.Unread = append(r.o.Unread, inspect.Unread{Kind: inspect.Kind("dry run of " + object), Right: "create and patch it", Why: err.Error()})
		default:
			faults = append(faults, inspect.Fault{Object: object, Message: err.Error()})
		}
	}
	dry := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: "kubectl-flex"}
	for _, cm := range m.ConfigMaps {
		cm = cm.DeepCopy()
		cm.APIVersion, cm.Kind, cm.ManagedFields = "v1", "ConfigMap", nil
		text, err := json.Marshal(cm)
		if err != nil {
			return nil, err
		}
		force := true
		dry.Force = &force
		_, err = r.client.CoreV1().ConfigMaps(cm.Namespace).Patch(ctx, cm.Name, types.ApplyPatchType, text, dry)
		refused("ConfigMap "+cm.Namespace+"/"+cm.Name, err)
		classes = append(classes, configmaps.ClassName(cm))
	}
	if err := r.podCluster(ctx); err != nil {
		return nil, err
	}
	for _, class := range classes {
		pod, err := r.o.Render(r.o.ExampleClaim(class, metav1.NamespaceDefault), class)
		if err != nil {
			faults = append(faults, inspect.Fault{Object: "StorageClass " + class, Message: err.Error()})
			continue
		}
		_, err = r.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		refused("the pod of a claim of StorageClass "+class, err)
	}
	return faults, nil
}
