package cluster

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// claim is a claim of this run, with the pods that use it.
type claim struct {
	*corev1.PersistentVolumeClaim
	pods []*corev1.Pod
}

func (c *claim) volumeName() string { return podspec.VolumeName(string(c.UID)) }

// claim creates a claim. If the scheduler selects the node first, it also creates a pod that uses the claim.
func (t *trial) claim(mode corev1.PersistentVolumeMode) *claim {
	access := accessMode(t.config)
	c := &claim{PersistentVolumeClaim: &corev1.PersistentVolumeClaim{}}
	t.must(t.api.create(t.ctx, t.namespace, "persistentvolumeclaims", &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s%d", t.prefix, len(t.claims))},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &t.class.Name, VolumeMode: &mode,
			AccessModes: []corev1.PersistentVolumeAccessMode{access},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: t.size()}}},
	}, c.PersistentVolumeClaim))
	t.claims = append(t.claims, c)
	if t.waitsForConsumer() {
		t.consumer(c, "true")
	}
	return c
}

// bound creates a claim and waits until it is bound. Else the check fails.
func (t *trial) bound(mode corev1.PersistentVolumeMode) (*claim, bool) {
	c := t.claim(mode)
	return c, t.wantBound(c, "a claim is bound", "read the message and the log")
}

func (t *trial) wantBound(c *claim, expected, remedy string) bool {
	lack := t.until(func() string {
		t.must(t.api.get(t.ctx, c.Namespace, "persistentvolumeclaims", c.Name, c.PersistentVolumeClaim))
		if c.Status.Phase == corev1.ClaimBound {
			return ""
		}
		return fmt.Sprintf("after %s it is %s", t.options.Timeout, c.Status.Phase)
	})
	if lack != "" {
		t.fail(c, expected, lack+t.lastWarningOn(c), remedy)
	}
	return lack == ""
}

// volume is the claim's volume, nil if there is none.
func (t *trial) volume(c *claim) *corev1.PersistentVolume {
	volume := &corev1.PersistentVolume{}
	there, err := t.api.exists(t.ctx, "", "persistentvolumes", c.volumeName(), volume)
	t.must(err)
	if !there {
		return nil
	}
	return volume
}

// discard deletes the claim and the pods that use it.
func (t *trial) discard(c *claim) {
	for _, pod := range c.pods {
		t.must(t.api.remove(t.ctx, pod.Namespace, "pods", pod.Name, pod.UID))
	}
	t.must(t.api.remove(t.ctx, c.Namespace, "persistentvolumeclaims", c.Name, c.UID))
}

// wantGone deletes a claim. The check fails if something is left of it.
func (t *trial) wantGone(c *claim, when, remedy string) bool {
	t.discard(c)
	return t.wantNothing(c, when, remedy)
}

func (t *trial) wantNothing(c *claim, when, remedy string) bool {
	left := t.untilGone(func() string { return t.left(c) })
	if left == "" {
		left = t.storageOf(c)
	}
	if left != "" {
		t.fail(c, when+": nothing is left of it", "there is "+left+t.lastWarningOn(c), remedy)
	}
	return left == ""
}

// left lists what is left of a claim that was deleted: itself, its volume, its provisioner pods, its Secret.
func (t *trial) left(c *claim) string {
	var left []string
	if there, err := t.api.exists(t.ctx, c.Namespace, "persistentvolumeclaims", c.Name, &corev1.PersistentVolumeClaim{}); err != nil {
		t.must(err)
	} else if there {
		left = append(left, "claim "+c.Name)
	}
	if volume := t.volume(c); volume != nil {
		left = append(left, fmt.Sprintf("volume %s (%s)", volume.Name, volume.Status.Phase))
	}
	for _, pod := range t.watcher.some(func(s seen) bool { return s.Labels[contract.LabelClaimUID] == string(c.UID) && !s.gone }) {
		// The class's key failed-pod-ttl may keep a failed pod for its log.
		if t.config != nil && t.config.FailedPodTTL == 0 || pod.Status.Phase != corev1.PodFailed {
			left = append(left, fmt.Sprintf("pod %s (%s)", pod.Name, pod.Status.Phase))
		}
	}
	lack, err := t.missingRights(t.ctx, toSecrets)
	t.must(err)
	if lack == "" {
		there, err := t.api.exists(t.ctx, t.options.ProvisionersNamespace, "secrets", c.volumeName(), &corev1.Secret{})
		t.must(err)
		if there {
			left = append(left, "Secret "+c.volumeName())
		}
	}
	return strings.Join(left, ", ")
}

// storageOf returns the storage of a claim in the list of the storage.
func (t *trial) storageOf(c *claim) string {
	if t.options.List == nil {
		return ""
	}
	lines, err := t.options.List(t.ctx)
	t.must(err)
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return !strings.Contains(line, string(c.UID)) }), ", ")
}
