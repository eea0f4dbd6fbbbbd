package admission

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// identity is whom a probe is sent as.
type identity int

const (
	// asProvisioner is ProbeIdentity, which may do what provisioners may.
	asProvisioner identity = iota
	asDispatcher
)

// probe is a hostile request that a policy has to refuse. It is wrong in one thing only, so that of the shipped
// policies no other one refuses it: with the policy's binding taken away, the API server accepts it. It is always a dry
// run.
type probe struct {
	policy, what string
	as           identity
	send         func(context.Context, kubernetes.Interface, target) error
}

// target is where the requests are sent to.
type target struct {
	system string
	pods   podspec.Cluster
}

var dryRun = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

// The claim that the probe's pod would work for, and one that is another's.
const (
	probeUID   = "00000000-0000-4000-8000-000000000000"
	foreignUID = "ffffffff-ffff-4fff-8fff-ffffffffffff"
)

// allowList is the ConfigMap by which administrators say what volumes may be.
const allowList = "flex-pv-policy"

// probes has one or more for each policy without which no pod is made. That on VolumeAttachments is compared alone: it
// is about changes of an object that need not exist. The guard of the claims' creators is not among these, and cannot
// be tried: where claims are stamped, a forged name is overwritten before any policy sees it.
var probes = []probe{
	{"flex-pv-by-provisioner-pod", "another claim's volume", asProvisioner, createVolume},
	{"flex-secrets-by-provisioner-pod", "another volume's Secret", asProvisioner, createSecret},
	{"flex-allow-list", "the allow-list", asProvisioner, createAllowList},
	{"flex-provisioner-namespace", "an event on a pod that does not start", asProvisioner, createEvent},
	{"flex-provisioner-pods", "a pod with a device that nobody granted", asDispatcher, createDevicePod},
	{"flex-dispatcher", "a pod with a name of its own", asDispatcher, createNamedPod},
}

func createVolume(ctx context.Context, client kubernetes.Interface, _ target) error {
	_, err := client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: podspec.VolumeName(foreignUID)},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(1<<30, resource.BinarySI)},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				NFS: &corev1.NFSVolumeSource{Server: "192.0.2.1", Path: "/trial"},
			},
		},
	}, dryRun)

	return err
}

func createSecret(ctx context.Context, client kubernetes.Interface, s target) error {
	_, err := client.CoreV1().Secrets(s.pods.Namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: podspec.VolumeName(foreignUID)},
	}, dryRun)

	return err
}

// createAllowList creates what is there, so that nothing but a refusal, or that it is there, can be the answer. The
// right to create one is all that the account has on it: with the policy gone it could change nothing.
func createAllowList(ctx context.Context, client kubernetes.Interface, s target) error {
	_, err := client.CoreV1().ConfigMaps(s.system).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: allowList},
	}, dryRun)

	return err
}

func createEvent(ctx context.Context, client kubernetes.Interface, s target) error {
	_, err := client.CoreV1().Events(s.pods.Namespace).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: ProbeAccount},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: s.pods.Namespace, Name: ProbePod},
		Type:           corev1.EventTypeWarning, Reason: "FailedMount",
	}, dryRun)

	return err
}

func createDevicePod(ctx context.Context, client kubernetes.Interface, s target) error {
	return createPod(ctx, client, s, func(pod *corev1.Pod) {
		claim := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: ProbeAccount}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name: "device", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: claim},
		})
		pod.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "device", DevicePath: "/dev/device"}}
	})
}

func createNamedPod(ctx context.Context, client kubernetes.Interface, s target) error {
	return createPod(ctx, client, s, func(pod *corev1.Pod) { pod.Name = ProbeAccount })
}

// createPod sends a provisioner pod with one change.
func createPod(ctx context.Context, client kubernetes.Interface, s target, mutate func(*corev1.Pod)) error {
	pod, err := probePod(s.pods)
	if err != nil {
		return err
	}

	mutate(pod)
	_, err = client.CoreV1().Pods(s.pods.Namespace).Create(ctx, pod, dryRun)

	return err
}

// probePod is a provisioner pod as all are, of a class that does not exist. It meets every level of Pod Security, which
// judges before the policies do.
func probePod(c podspec.Cluster) (*corev1.Pod, error) {
	config := &configmaps.Config{
		StorageClass: ProbeAccount, Image: "example.com/trial", ServiceAccountName: ProbeAccount,
		StartTimeout: time.Minute, Timeout: time.Minute,
	}
	request := contract.Request{
		Operation:    contract.Delete,
		VolumeName:   podspec.VolumeName(probeUID),
		StorageClass: ProbeAccount, ServiceAccount: ProbeAccount,
		Claim: contract.Claim{Namespace: "default", Name: ProbeAccount, UID: probeUID},
	}

	pod, err := podspec.Build(podspec.Attempt{Config: config, Request: request}, c)
	if err != nil {
		return nil, fmt.Errorf("make pod to try the admission policies with: %w", err)
	}

	return pod, nil
}
