package cluster

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/conformance"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// consumerUser is the user of the pods that use the volumes. It is not root, as in most pods.
const consumerUser = int64(65532)

func noFileSystem(s *stage) string { return s.without(corev1.PersistentVolumeFilesystem) }

func noBlock(s *stage) string {
	if s.config == nil {
		return "without a valid ConfigMap nobody offers it"
	}
	return s.without(corev1.PersistentVolumeBlock)
}

func (s *stage) without(mode corev1.PersistentVolumeMode) string {
	if s.config != nil && !slices.Contains(s.config.VolumeModes, mode) {
		return fmt.Sprintf("the class does not offer volumeMode %s (its key volume-modes)", mode)
	}
	return ""
}

func (t *trial) checkFileSystem() { t.checkUsed(corev1.PersistentVolumeFilesystem) }

func (t *trial) checkDevice() { t.checkUsed(corev1.PersistentVolumeBlock) }

func (t *trial) checkUsed(mode corev1.PersistentVolumeMode) {
	c, ok := t.bound(mode)
	if !ok {
		return
	}
	if t.writes(c) {
		t.reads(c, "in another pod")
	}
	t.wantGone(c, "after it was used", "see check delete")
}

// mark is the text that is written to a claim's volume. It has the same length for all claims.
func (c *claim) mark() string { return "written to " + string(c.UID) }

// writes runs a pod that writes to the volume and reads it back.
func (t *trial) writes(c *claim) bool {
	script := fmt.Sprintf("echo %q > /data/mark && sync && cat /data/mark", c.mark())
	if c.raw() {
		script = fmt.Sprintf("echo %q | dd of=/dev/data bs=512 count=1 conv=sync,fsync 2>/dev/null && dd if=/dev/data bs=%d count=1 2>/dev/null", c.mark(), len(c.mark()))
	}
	return t.wantPrinted(c, script, "a pod writes to the volume and reads it back")
}

// reads runs another pod that reads what writes wrote.
func (t *trial) reads(c *claim, when string) bool {
	script := "cat /data/mark"
	if c.raw() {
		script = fmt.Sprintf("dd if=/dev/data bs=%d count=1 2>/dev/null", len(c.mark()))
	}
	return t.wantPrinted(c, script, when+": the data is there")
}

func (c *claim) raw() bool { return podspec.ModeOf(c.Spec.VolumeMode) == corev1.PersistentVolumeBlock }

// wantPrinted runs a script in a pod with the volume. The check fails unless the script prints the claim's mark.
func (t *trial) wantPrinted(c *claim, script, expected string) bool {
	pod := t.consumer(c, script)
	now := &corev1.Pod{}
	lack := t.until(func() string {
		t.must(t.api.get(t.ctx, pod.Namespace, "pods", pod.Name, now))
		if ended(now) || imageFault(now) != "" {
			return ""
		}
		return fmt.Sprintf("after %s the pod is %s", t.options.Timeout, now.Status.Phase)
	})
	if why := imageFault(now); why != "" {
		t.end(conformance.Skipped, fmt.Sprintf("not checked: image %s cannot be had (%s); --consumer-image names another one", t.options.ConsumerImage, why))
	}
	printed := ""
	if lack == "" {
		text, err := t.api.core.Get().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("log").DoRaw(t.ctx)
		t.must(wrap("get", "log of pod", pod.Name, err))
		if printed = strings.TrimSpace(string(text)); now.Status.Phase != corev1.PodSucceeded || printed != c.mark() {
			lack = fmt.Sprintf("the pod is %s and printed %q, not %q", now.Status.Phase, printed, c.mark())
		}
	}
	if lack != "" {
		t.fail(c, expected, lack+t.lastWarningOn(c), "let the storage belong to, or be open to, the pods that use it; fsGroup is set where the volume heeds it")
	}
	t.must(t.api.remove(t.ctx, pod.Namespace, "pods", pod.Name, pod.UID))
	return lack == ""
}

// imageFault says why a pod's image cannot be pulled.
func imageFault(pod *corev1.Pod) string {
	for _, status := range pod.Status.ContainerStatuses {
		if waiting := status.State.Waiting; waiting != nil && slices.Contains([]string{"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"}, waiting.Reason) {
			return waiting.Reason
		}
	}
	return ""
}

// consumer starts a pod with the claim's volume. The check ends if the namespace does not allow such a pod.
func (t *trial) consumer(c *claim, script string) *corev1.Pod {
	made := &corev1.Pod{}
	err := t.api.create(t.ctx, t.namespace, "pods", consumerPod(c.PersistentVolumeClaim, t.prefix, t.options.ConsumerImage, script), made)
	if apierrors.IsForbidden(err) {
		t.end(conformance.Skipped, "not checked: "+err.Error())
	}
	t.must(err)
	c.pods = append(c.pods, made)
	return made
}

// consumerPod meets Pod Security "restricted", unless the volume is a raw device, which only root may open.
func consumerPod(c *corev1.PersistentVolumeClaim, prefix, image, script string) *corev1.Pod {
	no, yes, grace, user, root := false, true, int64(1), consumerUser, int64(0)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "consumer-"},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no, TerminationGracePeriodSeconds: &grace,
			SecurityContext: &corev1.PodSecurityContext{RunAsUser: &user, RunAsNonRoot: &yes, FSGroup: &user,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{Name: "consumer", Image: image, Command: []string{"/bin/sh", "-c", script},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.Name}}}},
		},
	}
	if podspec.ModeOf(c.Spec.VolumeMode) == corev1.PersistentVolumeBlock {
		pod.Spec.SecurityContext.RunAsUser, pod.Spec.SecurityContext.RunAsNonRoot = &root, &no
		container := &pod.Spec.Containers[0]
		container.VolumeMounts, container.VolumeDevices = nil, []corev1.VolumeDevice{{Name: "data", DevicePath: "/dev/data"}}
	}
	return pod
}
