package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/inspect"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

func newRetry(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "retry CLAIM|PV|POD",
		Short: "Ask for the next attempt now",
		Long: `Ask for the next attempt for a claim or volume now, before its time. It counts for one attempt:
where that fails too, the delays go on growing. It takes the right to patch pods, or the record of a
pod that is gone (controllerrevisions), in the provisioners' namespace, and the verb administer on
provisioners.flex-provisioner.io.`,
		Example:           "  kubectl flex retry data",
		Args:              args(1, 1, "the name of a claim, a volume or a provisioner pod"),
		ValidArgsFunction: o.completeNames,
		RunE:              func(c *cobra.Command, args []string) error { return o.retry(c.Context(), args[0]) },
	}
}

func (o *options) retry(ctx context.Context, name string) error {
	r, uid, err := o.findOwn(ctx, name)
	if err != nil {
		return err
	}
	failed, by, err := r.o.Retry(uid)
	if err != nil {
		return fmt.Errorf("%s is not tried again: %w", name, err)
	}
	record := failed.Pod.UID
	if failed.Gone {
		record = failed.Saved.UID
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": record, "annotations": map[string]any{contract.AnnRetry: "true"}}})
	if err != nil {
		return err
	}
	namespace, pod := failed.Pod.Namespace, failed.Pod.Name
	if failed.Gone {
		_, err = r.client.AppsV1().ControllerRevisions(namespace).Patch(ctx, pod, types.MergePatchType, patch, metav1.PatchOptions{})
	} else {
		_, err = r.client.CoreV1().Pods(namespace).Patch(ctx, pod, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		return fmt.Errorf("ask on %s %s/%s for the next attempt: %w", failed.Kind(), namespace, pod, err)
	}
	fmt.Fprintf(o.Out, "%s is tried again now, instead of %s.\n", name, o.until(by))
	return nil
}

func newStopDeletes(o *options) *cobra.Command {
	reason := ""
	c := &cobra.Command{
		Use:   "stop-deletes [on|off]",
		Short: "Keep all storage from being removed, or let it be removed again",
		Long: `Keep all storage from being removed while a backup is restored or an error is looked into, or let it
be removed again. The reason is shown to all who wait. Without an argument, say how it is.`,
		Example:   "  kubectl flex stop-deletes on --reason \"restoring last night's backup\"\n  kubectl flex stop-deletes off",
		Args:      args(0, 1, "on, off or nothing"),
		ValidArgs: []string{"on", "off"},
		RunE: func(c *cobra.Command, args []string) error {
			switch what := strings.Join(args, ""); {
			case what != "on" && what != "off" && what != "":
				return usageFault(c, fmt.Errorf("%q: say on or off", what))
			case what == "on" && podspec.Clean(reason) == "":
				return usageFault(c, errors.New("--reason is missing: it is shown to all whose storage is not removed"))
			default:
				return o.stopDeletes(c.Context(), what, podspec.Clean(reason))
			}
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "Why deletions are stopped")
	return c
}

func (o *options) stopDeletes(ctx context.Context, what, reason string) error {
	r, err := o.read(ctx, "", reader.dispatcher)
	if err != nil {
		return err
	}
	namespace := r.o.Dispatcher.Namespace
	if o.namespace == "" && !r.o.Dispatcher.Found {
		return fmt.Errorf("namespace %s has no Deployment %s that may be read, so that the dispatcher's namespace for provisioners is not known: "+
			"name it with --provisioners-namespace, or the dispatcher's with --system-namespace", o.system, deploymentName)
	}
	maps := r.client.CoreV1().ConfigMaps(namespace)
	old, err := maps.Get(ctx, contract.StopDeletes, metav1.GetOptions{})
	stopped, why := err == nil, ""
	switch {
	case stopped:
		why = podspec.Clean(old.Data["reason"])
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read ConfigMap %s/%s: %w", namespace, contract.StopDeletes, err)
	}
	switch {
	case what != "on" && !stopped:
		fmt.Fprintf(o.Out, "In namespace %s, deletions are not stopped.\n", namespace)
	case what == "":
		fmt.Fprintf(o.Out, "In namespace %s, deletions are stopped, for %s: %s\n", namespace, o.ago(old.CreationTimestamp.Time), why)
	case what == "off":
		err := maps.Delete(ctx, contract.StopDeletes, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &old.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete ConfigMap %s/%s: %w", namespace, contract.StopDeletes, err)
		}
		fmt.Fprintf(o.Out, "In namespace %s, deletions go on. They were stopped, for %s: %s\n", namespace, o.ago(old.CreationTimestamp.Time), why)
	case stopped:
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": old.UID}, "data": map[string]string{"reason": reason}})
		if err != nil {
			return err
		}
		if _, err := maps.Patch(ctx, contract.StopDeletes, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("change ConfigMap %s/%s: %w", namespace, contract.StopDeletes, err)
		}
		fmt.Fprintf(o.Out, "In namespace %s, deletions were stopped already, for %s: %s\nThe reason is now: %s\n", namespace, o.ago(old.CreationTimestamp.Time), why, reason)
	default:
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: contract.StopDeletes, Namespace: namespace}, Data: map[string]string{"reason": reason}}
		if _, err := maps.Create(ctx, cm, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create ConfigMap %s/%s: %w", namespace, contract.StopDeletes, err)
		}
		fmt.Fprintf(o.Out, "In namespace %s, deletions are stopped: %s\nTo let them go on: kubectl flex stop-deletes off\n", namespace, reason)
	}
	return nil
}

func newRelease(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "release PV",
		Short: "Give up a volume's storage that is held or retained, after asking twice",
		Long: `Have the storage of a Released volume removed that is held (DeletionHeld, DeletionLimit) or
retained. What is removed is gone for ever, so that it is asked twice: for the volume's name, and
for yes.`,
		Args: args(1, 1, "the name of a volume"),
		RunE: func(c *cobra.Command, args []string) error {
			return o.release(c.Context(), args[0])
		},
		ValidArgsFunction: o.complete(1, (*inspect.Objects).ReleasedVolumes),
	}
}

func (o *options) release(ctx context.Context, name string) error {
	_, name = inspect.SplitName("", name)
	r, err := o.releaseOf(ctx, name)
	if err != nil {
		return err
	}

	for _, line := range r.Why {
		fmt.Fprintln(o.Out, line)
	}
	if err := o.askTwice(r.Volume.Name); err != nil {
		return err
	}

	client, err := o.clientset()
	if err != nil {
		return err
	}

	// Controllers write to the volume too. The answers stand for what the administrator was told, and for nothing else.
	told := r
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		patch, err := json.Marshal(r.Patch)
		if err != nil {
			return err
		}

		_, err = client.CoreV1().PersistentVolumes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err == nil {
			return nil
		}
		refused := fmt.Errorf("release volume %s: %w", name, err)
		if !apierrors.IsConflict(err) {
			return refused
		}

		r, err = o.releaseOf(ctx, name)
		if err != nil {
			return err
		}
		if r.Volume.UID != told.Volume.UID || !slices.Equal(r.Why, told.Why) {
			return fmt.Errorf("volume %s was changed while the questions were answered, and nothing was done: "+
				"say the command again", name)
		}
		return refused
	})
	if err != nil {
		return err
	}

	fmt.Fprintf(o.Out, "The dispatcher was asked to remove the storage of volume %s. How far it is: kubectl flex status %s\n", name, name)
	return nil
}

func (o *options) releaseOf(ctx context.Context, name string) (*inspect.Release, error) {
	r, err := o.read(ctx, "", everything...)
	if err != nil {
		return nil, err
	}

	release, err := r.o.ReleaseOf(name)
	return release, notFound(err)
}

// askTwice returns an error unless the administrator types the volume's name and then yes.
func (o *options) askTwice(volume string) error {
	in := bufio.NewReader(o.In)
	for _, question := range []struct{ text, want string }{
		{"Its storage is removed for ever. To go on, type the volume's name: ", volume},
		{"Nobody can bring it back. To remove it, type yes: ", "yes"},
	} {
		fmt.Fprint(o.Out, question.text)
		got, err := in.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}

		if strings.TrimSpace(got) != question.want {
			fmt.Fprintln(o.Out)
			return errors.New("nothing was changed")
		}
	}
	return nil
}
