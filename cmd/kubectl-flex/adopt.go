package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/inspect"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// adoption is the command adopt.
type adoption struct {
	*options
	class, from    string
	all, yes, undo bool
}

func newAdopt(o *options) *cobra.Command {
	a := &adoption{options: o}
	c := &cobra.Command{
		Use:   "adopt PV...|--all --from CLASS [--class CLASS] [--yes]",
		Short: "Take over volumes of another provisioner, or give them back",
		Long: `Give volumes of another provisioner to a class of this one, which then expands and removes their
storage. A pod of the class's image has to find the storage first. Without --yes, say what would be
done and change nothing. --undo gives a volume back, until its claim is deleted. docs/adopt.md
explains it.`,
		Example: "  kubectl flex adopt --all --from local-path --class disks\n  kubectl flex adopt pvc-UID --class disks --yes\n  kubectl flex adopt pvc-UID --undo",
		RunE: func(c *cobra.Command, names []string) error {
			switch {
			case a.all == (len(names) > 0):
				return usageFault(c, errors.New("name volumes, or say --all"))
			case a.all && a.undo:
				return usageFault(c, errors.New("--undo takes names of volumes"))
			case a.all == (a.from == ""):
				return usageFault(c, errors.New("--all and --from CLASS go together: CLASS is the StorageClass that the volumes have"))
			case a.undo && a.class+a.from != "":
				return usageFault(c, errors.New("--undo takes no class: the volume has its former one"))
			}
			return a.run(c.Context(), names)
		},
		ValidArgsFunction: o.complete(anyNumber, (*inspect.Objects).ForeignVolumes),
	}
	flags := c.Flags()
	flags.StringVar(&a.class, "class", "", "StorageClass of this provisioner that takes the volumes (default: the volume's own)")
	flags.BoolVar(&a.all, "all", false, "Take all volumes of --from")
	flags.StringVar(&a.from, "from", "", "With --all: the StorageClass whose volumes are taken")
	flags.BoolVar(&a.yes, "yes", false, "Do it")
	flags.BoolVar(&a.undo, "undo", false, "Give the volumes back")
	for flag, find := range map[string]completion{"class": classNames, "from": (*inspect.Objects).AllClassNames} {
		if err := c.RegisterFlagCompletionFunc(flag, o.complete(anyNumber, find)); err != nil {
			panic(err) // the flag is there
		}
	}
	return c
}

// run adopts the volumes one after another. It goes on after a volume that cannot be adopted.
func (a *adoption) run(ctx context.Context, names []string) error {
	r, err := a.read(ctx, "", everything...)
	if err != nil {
		return err
	}
	client, objects := r.client, r.o
	if len(objects.Unread) > 0 {
		// An object that cannot be read may be a reason against the adoption.
		return fmt.Errorf("adopting takes the right to %s", objects.Unread[0].Right)
	}
	if a.class != "" {
		if a.class, err = objects.FindClass(a.class); err != nil {
			return notFound(err)
		}
	}
	if a.all {
		if names = objects.VolumesOfClass(a.from); len(names) == 0 {
			if err := objects.FindAnyClass(a.from); err != nil {
				return notFound(err)
			}
			fmt.Fprintf(a.Out, "No volume of StorageClass %s is of another provisioner.\n", a.from)
			return nil
		}
	}
	failed := 0
	for _, name := range names {
		_, name = inspect.SplitName("", name)
		one := a.adopt
		if a.undo {
			one = a.giveBack
		}
		if err := one(ctx, client, objects, name); err != nil {
			if ctx.Err() != nil {
				return err
			}
			failed++
			fmt.Fprintf(a.Out, "%s: not done: %s\n", name, podspec.Clip(contract.OneLine(strings.ReplaceAll(err.Error(), "\n", "; ")), 2000))
		}
	}
	if !a.yes && failed < len(names) {
		fmt.Fprintln(a.Out, "This was a dry run: nothing was changed. To do it, say --yes.")
	}
	if failed > 0 {
		return exit{exitTrouble, fmt.Errorf("%d of %d volumes: not done", failed, len(names))}
	}
	return nil
}

// adopt makes three writes, in this order: it creates the pod that looks for the storage, marks the claim, and patches
// the volume. By the mark, the policy on the dispatcher lets it write into the status of a claim that names another
// provisioner. It changes nothing else.
//
// The patch of the volume is a single write. It sets the annotation provisioned-by, which names the volume's
// provisioner, the class, the properties that find the storage, the finalizer, and what the volume had before. So the
// volume is entirely the other provisioner's before the patch and entirely the dispatcher's after it, and the same
// object has all that is needed to undo it. If the annotation were written first, a released volume could be deleted by
// the class's present properties instead of those that the pod verified. If the finalizer were written first and the
// command then killed, no provisioner would remove it.
//
// The patch has the UID and the resource version of the volume that the pod was built from. So the API server refuses
// it if the volume was released, deleted or adopted meanwhile. A command that is killed before the patch leaves at most
// the pod. The pod changes nothing, ends by its deadline, and has a name that the next run deletes first.
func (a *adoption) adopt(ctx context.Context, client kubernetes.Interface, objects *inspect.Objects, name string) error {
	plan, err := objects.AdoptionOf(name, a.class)
	if err != nil {
		return err
	}
	after := fmt.Sprintf("class %s, served by ConfigMap %s", cmp.Or(a.class, podspec.ClassOf(plan.Volume)), plan.Config.Name)
	before, ref := provisionerOf(plan.From), plan.Volume.Spec.ClaimRef
	if !a.yes {
		if err := patchVolume(ctx, client, plan.Volume, plan.Patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			return err
		}
		fmt.Fprintf(a.Out, "%s of claim %s/%s: from %s, class %s, to %s, once its image has found the storage\n", name, ref.Namespace, ref.Name, before, plan.From.StorageClass, after)
		return nil
	}
	if err := a.verifyStorage(ctx, client, plan); err != nil {
		return fmt.Errorf("the image does not find its storage: %w", err)
	}
	if err := markClaim(ctx, client, ref, plan.Volume.Annotations[contract.ProvisionedBy]); err != nil {
		return err
	}
	if err := patchVolume(ctx, client, plan.Volume, plan.Patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "%s of claim %s/%s: adopted from %s, class %s, to %s\n", name, ref.Namespace, ref.Name, before, plan.From.StorageClass, after)
	return nil
}

// provisionerOf names who had a volume before it was adopted.
func provisionerOf(from inspect.AdoptedFrom) string {
	if from.Provisioner == nil {
		return "no provisioner"
	}
	return "provisioner " + contract.OneLine(*from.Provisioner)
}

func (a *adoption) giveBack(ctx context.Context, client kubernetes.Interface, objects *inspect.Objects, name string) error {
	from, patch, err := objects.Reversal(name)
	if err != nil {
		return err
	}
	options, done := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "would be given back"
	if a.yes {
		options, done = metav1.PatchOptions{}, "given back"
	}
	volume := objects.VolumeNamed(name)
	if err := patchVolume(ctx, client, volume, patch, options); err != nil {
		return err
	}
	if ref := volume.Spec.ClaimRef; a.yes && ref != nil {
		if err := markClaim(ctx, client, ref, nil); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.Out, "%s: %s to %s, class %s\n", name, done, provisionerOf(from), contract.OneLine(from.StorageClass))
	return nil
}

// markClaim says on the claim that its volume was adopted, and from whom; nil takes that back. A claim that is gone
// needs no mark.
func markClaim(ctx context.Context, client kubernetes.Interface, ref *corev1.ObjectReference, former any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": ref.UID, "annotations": map[string]any{contract.AnnAdoptedFrom: former}}})
	if err != nil {
		return fmt.Errorf("encode patch of claim %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	claims := client.CoreV1().PersistentVolumeClaims(ref.Namespace)
	_, err = claims.Patch(ctx, ref.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("mark claim %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	return nil
}

func patchVolume(ctx context.Context, client kubernetes.Interface, v *corev1.PersistentVolume, patch []byte, options metav1.PatchOptions) error {
	_, err := client.CoreV1().PersistentVolumes().Patch(ctx, v.Name, types.MergePatchType, patch, options)
	if apierrors.IsConflict(err) {
		return fmt.Errorf("somebody changed it meanwhile: look again: %w", err)
	}
	if err != nil {
		return fmt.Errorf("change volume %s: %w", v.Name, err)
	}
	return nil
}

// verifyStorage runs a pod of the class's image that has to find the volume's storage.
func (a *adoption) verifyStorage(ctx context.Context, client kubernetes.Interface, plan *inspect.Adoption) (err error) {
	if err := deletePod(ctx, client, plan.Pod); err != nil { // a run that was killed may have left the pod
		return err
	}
	pod := plan.Pod
	limit := plan.Config.StartTimeout + plan.Config.Timeout
	gone := func(ctx context.Context) (bool, error) {
		pod, err = client.CoreV1().Pods(plan.Pod.Namespace).Create(ctx, plan.Pod, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // it is being deleted
			return false, nil
		}
		return err == nil, err
	}
	if err := wait.PollUntilContextTimeout(ctx, a.period, limit, true, gone); err != nil {
		return fmt.Errorf("create pod %s/%s: %w", plan.Pod.Namespace, plan.Pod.Name, err)
	}
	return runToEnd(ctx, client, pod, a.period, limit, nil, func(pod *corev1.Pod, outcome podspec.Outcome) error {
		if outcome.Phase == podspec.Succeeded {
			return nil
		}
		return errors.New(failure(ctx, client, pod, outcome))
	})
}
