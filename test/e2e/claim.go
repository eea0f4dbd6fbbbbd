//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// claim is a claim that a test made.
type claim struct {
	*corev1.PersistentVolumeClaim
	s       *scope
	class   *class
	created time.Time
}

func newClaim(namespace, name, class, size string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		},
	}
}

// claim makes a claim of 64Mi as the admin. The changes, if any, are made to it before.
func (c *class) claim(name string, changes ...func(*corev1.PersistentVolumeClaim)) *claim {
	c.s.Helper()
	return c.claimBy(shared.admin, name, changes...)
}

func (c *class) claimBy(user kubernetes.Interface, name string, changes ...func(*corev1.PersistentVolumeClaim)) *claim {
	c.s.Helper()
	pvc := newClaim(c.s.name, name, c.name, "64Mi")
	for _, change := range changes {
		change(pvc)
	}
	created := time.Now()
	made, err := user.CoreV1().PersistentVolumeClaims(c.s.name).Create(c.s.Context(), pvc, metav1.CreateOptions{})
	c.s.ok(err)
	return &claim{PersistentVolumeClaim: made, s: c.s, class: c, created: created}
}

// volumeName is the name that the claim's volume has to have.
func (c *claim) volumeName() string { return podspec.VolumeName(string(c.UID)) }

// pod is the name of the pod of an attempt, as events give it.
func (c *claim) pod(operation contract.Operation, attempt int) string {
	return contract.ProvisionersNamespace + "/" + podspec.Name(operation, string(c.UID), attempt)
}

func (c *claim) volume() *corev1.PersistentVolume {
	return get[corev1.PersistentVolume](shared.volumes, c.volumeName())
}

// now is the claim as the watch has it, nil where it is gone.
func (c *claim) now() *corev1.PersistentVolumeClaim {
	return get[corev1.PersistentVolumeClaim](shared.claims, c.Namespace+"/"+c.Name)
}

func (c *claim) isBound() bool {
	now := c.now()
	return now != nil && now.Status.Phase == corev1.ClaimBound && now.Spec.VolumeName == c.volumeName() && c.volume() != nil
}

// unbound says what is lacking until the claim is bound to its volume.
func (c *claim) unbound() string {
	now := c.now()
	switch {
	case now == nil:
		return fmt.Sprintf("claim %s is not there", c.Name)
	case c.isBound():
		return ""
	}
	return fmt.Sprintf("claim %s is %s, volume %q%s", c.Name, now.Status.Phase, now.Spec.VolumeName, showEvents(eventsOn(c.UID)))
}

// bound waits until the claim is bound, and returns how long that took since it was made.
func (c *claim) bound(limit time.Duration) time.Duration {
	c.s.Helper()
	c.s.wait(limit, "claim bound", c.unbound)
	return time.Since(c.created)
}

// told waits for an event on the claim. In the pattern, {pod} stands for the claim's first provision pod, and {volume}
// for its volume's name. The limit begins when the controller-manager has handed the claim over: it looks again only after
// 15 seconds at a claim whose class it did not know yet.
func (c *claim) told(limit time.Duration, reason, pattern string) time.Duration {
	c.s.Helper()
	pattern = strings.NewReplacer("{pod}", c.pod(contract.Provision, 0), "{volume}", c.volumeName()).Replace(pattern)
	late := c.s.wait(patient, "claim handed over", func() string {
		if now := c.now(); now != nil && now.Annotations["volume.kubernetes.io/storage-provisioner"] != "" {
			return ""
		}
		return untold(c.UID, reason, pattern) // deleted by now, or never handed over
	})
	return late + c.s.told(limit, c.UID, reason, pattern)
}

func (c *claim) delete() {
	c.s.Helper()
	c.s.ok(shared.admin.CoreV1().PersistentVolumeClaims(c.Namespace).Delete(c.s.Context(), c.Name, metav1.DeleteOptions{}))
}

// gone waits until the claim, its volume and its provisioner pods are gone, and fails if its directory is not.
func (c *claim) gone(limit time.Duration) {
	c.s.Helper()
	c.s.wait(limit, "claim and volume gone", c.left)
	if dir := c.directory(); exists(dir) {
		c.s.Errorf("directory %s is left", dir)
	}
}

func (c *claim) left() string {
	var names []string
	if c.now() != nil {
		names = append(names, "claim "+c.Name)
	}
	if v := c.volume(); v != nil {
		names = append(names, fmt.Sprintf("volume %s (%s)%s", v.Name, v.Status.Phase, showEvents(eventsOn(v.UID))))
	}
	for _, p := range c.livePods() {
		names = append(names, fmt.Sprintf("pod %s (%s)", p.Name, p.Status.Phase))
	}
	return strings.Join(names, ", ")
}

// livePods are the claim's provisioner pods that exist, without those that are kept for their logs.
func (c *claim) livePods() []*corev1.Pod {
	return all(shared.pods, func(p *corev1.Pod) bool { return p.Labels[contract.LabelClaimUID] == string(c.UID) && !kept(p) })
}

// present says that the claim, or another one of its name, is there.
func (c *claim) present() string {
	if c.now() != nil {
		return "claim " + c.Name + " is there"
	}
	return ""
}

// noDirectory says that the claim's directory is not there.
func (c *claim) noDirectory() string {
	if !exists(c.directory()) {
		return "no directory " + c.directory() + showEvents(eventsOn(c.UID))
	}
	return ""
}

// directory is where the claim's volume lies on the node.
func (c *claim) directory() string { return c.class.dir() + "/volumes/" + c.volumeName() }

// ran fails unless there were exactly so many pods of the operation, numbered from 0, none of them twice.
func (c *claim) ran(operation contract.Operation, count int) {
	c.s.Helper()
	var names, want []string
	for _, p := range shared.ran(operation, c.UID) {
		names = append(names, p.Name)
	}
	for i := range count {
		want = append(want, podspec.Name(operation, string(c.UID), i))
	}
	if strings.Join(names, " ") != strings.Join(want, " ") {
		c.s.Errorf("%s pods of claim %s: %v, want %v", operation, c.Name, names, want)
	}
}

// consume writes to the claim's volume and reads it back, in a pod of its own.
func (c *claim) consume(user kubernetes.Interface) {
	c.s.Helper()
	c.s.finished(c.consumer(user), "hello from "+c.Name+"\n")
}

func (c *claim) consumer(user kubernetes.Interface, changes ...func(*corev1.Pod)) *corev1.Pod {
	c.s.Helper()
	return c.consumerOf(user, `echo "hello from `+c.Name+`" > /data/hello && cat /data/hello`, changes...)
}

// consumerOf makes a pod that runs a script with the claim's volume at /data. The changes, if any, are made to it before.
func (c *claim) consumerOf(user kubernetes.Interface, script string, changes ...func(*corev1.Pod)) *corev1.Pod {
	c.s.Helper()
	pod := consumerPod(c.Name, script)
	for _, change := range changes {
		change(pod)
	}
	pod, err := user.CoreV1().Pods(c.Namespace).Create(c.s.Context(), pod, metav1.CreateOptions{})
	c.s.ok(err)
	return pod
}

// consumerPod is a pod of an ordinary user.
func consumerPod(claim, script string) *corev1.Pod {
	no, yes, none, uid := false, true, int64(0), int64(65532)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "consumer-"},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no, TerminationGracePeriodSeconds: &none,
			SecurityContext: &corev1.PodSecurityContext{RunAsUser: &uid, RunAsNonRoot: &yes},
			Containers: []corev1.Container{{
				Name: "consumer", Image: shellImage, VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
				Command: []string{"/bin/sh", "-c", script},
			}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}},
		},
	}
}

// asRoot makes a consumer what most images are.
func asRoot(pod *corev1.Pod) {
	root := int64(0)
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &root}
}

// ownsFiles lets a consumer write to a new file system, which belongs to root.
func ownsFiles(pod *corev1.Pod) {
	pod.Spec.SecurityContext.FSGroup = pod.Spec.SecurityContext.RunAsUser
}

// withDevice gives a consumer the volume as the device /dev/data. It runs as root: nobody else may open it.
func withDevice(pod *corev1.Pod) {
	asRoot(pod)
	consumer := &pod.Spec.Containers[0]
	consumer.VolumeMounts, consumer.VolumeDevices = nil, []corev1.VolumeDevice{{Name: "data", DevicePath: "/dev/data"}}
}

// podRuns waits until the pod runs, and returns it as it is then.
func (s *scope) podRuns(pod *corev1.Pod) *corev1.Pod {
	s.Helper()
	var now *corev1.Pod
	s.wait(patient, "pod "+pod.Name+" runs", func() string {
		switch now = get[corev1.Pod](shared.pods, pod.Namespace+"/"+pod.Name); {
		case now == nil:
			return "it is not there"
		case now.Status.Phase != corev1.PodRunning || now.Status.PodIP == "":
			return "it is " + string(now.Status.Phase) + showEvents(eventsOn(pod.UID))
		}
		return ""
	})
	return now
}

// finished waits until the pod has succeeded, fails unless it printed the text, and deletes it.
func (s *scope) finished(pod *corev1.Pod, text string) {
	s.Helper()
	if printed := s.printed(pod); printed != text {
		s.Errorf("pod %s printed %q, want %q", pod.Name, printed, text)
	}
}

// printed waits until the pod has succeeded, deletes it, and returns what it printed.
func (s *scope) printed(pod *corev1.Pod) string {
	s.Helper()
	pods := shared.admin.CoreV1().Pods(pod.Namespace)
	s.wait(patient, "consumer succeeded", func() string {
		switch now := get[corev1.Pod](shared.pods, pod.Namespace+"/"+pod.Name); {
		case now == nil:
			return "pod " + pod.Name + " is not there"
		case now.Status.Phase != corev1.PodSucceeded:
			return fmt.Sprintf("pod %s is %s%s", now.Name, now.Status.Phase, showEvents(eventsOn(now.UID)))
		}
		return ""
	})
	log, err := pods.GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(s.Context())
	s.ok(err)
	s.ok(pods.Delete(s.Context(), pod.Name, metav1.DeleteOptions{}))
	return string(log)
}
