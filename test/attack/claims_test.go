//go:build e2e

package attack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/cluster"
)

// Limits of waits. They are generous, since two cores run everything, and a wait that succeeds does not use them up.
const (
	soon    = 30 * time.Second
	patient = 90 * time.Second
	glance  = 100 * time.Millisecond
)

// wait looks until nothing is lacking. The error says what was lacking last.
func (w *world) wait(ctx context.Context, limit time.Duration, lacking func() string) error {
	lack := ""
	err := wait.PollUntilContextTimeout(ctx, glance, limit, true, func(context.Context) (bool, error) {
		lack = lacking()
		return lack == "", nil
	})
	if err != nil {
		return errors.New(lack)
	}
	return nil
}

// open lets the claim's provision pods go on, at any attempt.
func (w *world) open(claim *corev1.PersistentVolumeClaim) error {
	for i := range 10 {
		if err := os.WriteFile(exportDir+"/gates/"+podspec.Name(contract.Provision, string(claim.UID), i), nil, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) notBound(ctx context.Context, claim *corev1.PersistentVolumeClaim) string {
	now, err := w.admin.CoreV1().PersistentVolumeClaims(claim.Namespace).Get(ctx, claim.Name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	if now.Status.Phase != corev1.ClaimBound {
		return fmt.Sprintf("claim %s is %s: %s", claim.Name, now.Status.Phase, w.events(ctx, claim.UID))
	}
	return ""
}

// running is the claim's first provision pod, where it runs.
func (w *world) running(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*corev1.Pod, string) {
	pod, err := w.admin.CoreV1().Pods(contract.ProvisionersNamespace).Get(ctx, podspec.Name(contract.Provision, string(claim.UID), 0), metav1.GetOptions{})
	switch {
	case err != nil:
		return nil, fmt.Sprintf("%v; events: %s", err, w.events(ctx, claim.UID))
	case pod.Status.Phase != corev1.PodRunning:
		return nil, fmt.Sprintf("pod %s is %s", pod.Name, pod.Status.Phase)
	}
	return pod, ""
}

func (w *world) pods(ctx context.Context, uid types.UID) []corev1.Pod {
	list, err := w.admin.CoreV1().Pods(contract.ProvisionersNamespace).List(ctx, metav1.ListOptions{LabelSelector: contract.LabelClaimUID + "=" + string(uid)})
	if err != nil {
		return nil
	}
	return list.Items
}

// eventList are the events on an object, in all namespaces.
func (w *world) eventList(ctx context.Context, uid types.UID) []corev1.Event {
	list, err := w.admin.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(uid)})
	if err != nil {
		return nil
	}
	return list.Items
}

func (w *world) events(ctx context.Context, uid types.UID) string {
	var lines []string
	for _, e := range w.eventList(ctx, uid) {
		lines = append(lines, e.Reason+": "+e.Message)
	}
	return strings.Join(lines, "; ")
}

// volumeOf is nil where the claim has no volume.
func (w *world) volumeOf(ctx context.Context, claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	volume, err := w.admin.CoreV1().PersistentVolumes().Get(ctx, podspec.VolumeName(string(claim.UID)), metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return volume
}

// gone says what there is of the claim, its volume and its storage.
func (w *world) gone(ctx context.Context, claim *corev1.PersistentVolumeClaim) string {
	_, err := w.admin.CoreV1().PersistentVolumeClaims(claim.Namespace).Get(ctx, claim.Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return "claim " + claim.Name + " is there"
	}
	volume := w.volumeOf(ctx, claim)
	if volume != nil {
		return fmt.Sprintf("volume %s is %s: %s", volume.Name, volume.Status.Phase, w.events(ctx, volume.UID))
	}
	if cluster.Exists(directory(claim)) {
		return "directory " + directory(claim) + " is there"
	}
	return ""
}

// left names volumes and pods of our classes.
func (w *world) left(ctx context.Context) string {
	var names []string
	volumes, err := w.admin.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for _, v := range volumes.Items {
		if strings.HasPrefix(v.Spec.StorageClassName, className) && v.Name != "attack-foreign" {
			names = append(names, "volume "+v.Name+": "+w.events(ctx, v.UID))
		}
	}
	return strings.Join(names, ", ")
}

// force takes away what cases left, so that others have a clean cluster.
func (w *world) force(ctx context.Context) {
	bare, now := []byte(`{"metadata":{"finalizers":null}}`), int64(0)
	core := w.admin.CoreV1()
	if volumes, err := core.PersistentVolumes().List(ctx, metav1.ListOptions{}); err == nil {
		for _, v := range volumes.Items {
			if strings.HasPrefix(v.Spec.StorageClassName, className) {
				_ = core.PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{})
				_, _ = core.PersistentVolumes().Patch(ctx, v.Name, types.MergePatchType, bare, metav1.PatchOptions{})
			}
		}
	}
	pods := core.Pods(contract.ProvisionersNamespace)
	if list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: contract.LabelClaimUID}); err == nil {
		for _, p := range list.Items {
			if strings.HasPrefix(p.Annotations[contract.AnnClass], className) {
				_, _ = pods.Patch(ctx, p.Name, types.MergePatchType, bare, metav1.PatchOptions{})
				_ = pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
			}
		}
	}
}
