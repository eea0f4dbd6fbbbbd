package main

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

var bareCluster = podspec.Cluster{Namespace: contract.ProvisionersNamespace, KubeAPI: "https://10.96.0.1:443", FlexctlImage: image, ImageVolumes: true}

// bareThreads are what the dispatcher has for a class by default.
const bareThreads = 32

// bareProgram makes a pod for each claim and deletes it when it has ended, and nothing else: it reads nothing before it
// writes, keeps no record, verifies nothing and tells nobody. No provisioner with a pod for each claim can do with less.
type bareProgram struct {
	*workers
	client kubernetes.Interface
	config *configmaps.Config
	mu     sync.Mutex
	made   map[string]bool
}

// startBareProgram serves the class until end.
func startBareProgram(ctx context.Context, p *plane, o *observer, c class) (*bareProgram, error) {
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	b := &bareProgram{workers: startWorkers(ctx, "bare program", bareThreads),
		client: kubernetes.NewForConfigOrDie(inProtobuf(p.server.Config(dispatcherUser.Token()))), config: config, made: map[string]bool{}}
	o.onClaim = append(o.onClaim, b.claim)
	o.onPod = append(o.onPod, b.pod)
	o.onVolume = append(o.onVolume, b.volume)
	return b, nil
}

// claim makes the pod as soon as the claim is handed over by Kubernetes, as a provisioner has to.
func (b *bareProgram) claim(claim *corev1.PersistentVolumeClaim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	uid := string(claim.UID)
	if claim.Annotations["volume.kubernetes.io/storage-provisioner"] == "" || b.made[uid] {
		return
	}
	b.made[uid] = true
	b.queue <- func(ctx context.Context) error { return b.makePod(ctx, claim) }
}

// makePod makes the same pod that the dispatcher would, without the finalizer.
func (b *bareProgram) makePod(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	request := contract.Request{Operation: contract.Provision, VolumeName: podspec.VolumeName(string(claim.UID)),
		Claim:        contract.Claim{Namespace: claim.Namespace, Name: claim.Name, UID: string(claim.UID)},
		StorageClass: *claim.Spec.StorageClassName, SizeBytes: gibibyte.Value(), AccessModes: []string{"ReadWriteOnce"}, VolumeMode: "Filesystem"}
	volume, err := podspec.Skeleton(request, podspec.ClassFields{Provisioner: contract.ProvisionerName, ReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		ConfigStamp: "flex-bench-floor/1@0123456789abcdef"})
	if err != nil {
		return err
	}
	pod, err := podspec.Build(podspec.Attempt{Config: b.config, Request: request, Volume: volume}, bareCluster)
	if err != nil {
		return err
	}
	return b.create(ctx, pod)
}

func (b *bareProgram) create(ctx context.Context, pod *corev1.Pod) error {
	pod.Finalizers = nil
	if _, err := b.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create pod %s: %w", pod.Name, err)
	}
	return nil
}

func (b *bareProgram) pod(pod *corev1.Pod, deleted bool) {
	if deleted || pod.DeletionTimestamp != nil || !podspec.OutcomeOf(pod).Final() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if key := string(pod.UID); !b.made[key] {
		b.made[key] = true
		b.queue <- func(ctx context.Context) error {
			if operation, uid, _, _ := podspec.ParseName(pod.Name); operation == contract.Delete {
				if err := b.drop(ctx, podspec.VolumeName(uid)); err != nil {
					return err
				}
			}
			none := int64(0)
			err := b.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &none})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete pod %s: %w", pod.Name, err)
			}
			return nil
		}
	}
}

// volume makes the pod that deletes a released volume's storage.
func (b *bareProgram) volume(volume *corev1.PersistentVolume) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if key := string(volume.UID); volume.Status.Phase == corev1.VolumeReleased && volume.Spec.StorageClassName == floorClass.name && !b.made[key] {
		b.made[key] = true
		b.queue <- func(ctx context.Context) error {
			request := contract.Request{Operation: contract.Delete, VolumeName: volume.Name, StorageClass: floorClass.name,
				Claim: contract.Claim{Namespace: volume.Spec.ClaimRef.Namespace, Name: volume.Spec.ClaimRef.Name, UID: string(volume.Spec.ClaimRef.UID)}}
			pod, err := podspec.Build(podspec.Attempt{Config: b.config, Request: request, Volume: volume}, bareCluster)
			if err != nil {
				return err
			}
			return b.create(ctx, pod)
		}
	}
}

// drop removes the volume of a delete pod that has ended.
func (b *bareProgram) drop(ctx context.Context, name string) error {
	volumes := b.client.CoreV1().PersistentVolumes()
	if err := volumes.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete volume %s: %w", name, err)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"$deleteFromPrimitiveList/finalizers":[%q]}}`, contract.VolumeFinalizer)
	if _, err := volumes.Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("take finalizer off volume %s: %w", name, err)
	}
	return nil
}
