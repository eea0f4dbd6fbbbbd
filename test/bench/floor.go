package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// bareThreads are what the dispatcher has for a class by default.
const bareThreads = 8

// bareProgram makes a pod for each claim and deletes it when it has ended, and nothing else: it reads nothing before it
// writes, keeps no record, verifies nothing and tells nobody. No provisioner with a pod for each claim can do with less.
type bareProgram struct {
	client kubernetes.Interface
	config *configmaps.Config
	queue  chan func(ctx context.Context) error
	mu     sync.Mutex
	made   map[string]bool
	done   sync.WaitGroup
}

// startBareProgram serves the class until end.
func startBareProgram(ctx context.Context, p *plane, o *observer, c class) (*bareProgram, error) {
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	b := &bareProgram{client: kubernetes.NewForConfigOrDie(protobuf(p.server.Config(dispatcherUser.Token()))), config: config,
		queue: make(chan func(context.Context) error, 1<<17), made: map[string]bool{}}
	o.onClaim = append(o.onClaim, b.claim)
	o.onPod = append(o.onPod, b.pod)
	for range bareThreads {
		b.done.Go(func() {
			for do := range b.queue {
				if err := do(ctx); err != nil && ctx.Err() == nil {
					fmt.Fprintln(os.Stderr, "bench: bare program:", err)
				}
			}
		})
	}
	return b, nil
}

// end is called when the observer has ended.
func (b *bareProgram) end() {
	close(b.queue)
	b.done.Wait()
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
	volume, err := podspec.Skeleton(request, podspec.ClassTerms{Provisioner: contract.ProvisionerName, ReclaimPolicy: corev1.PersistentVolumeReclaimDelete})
	if err != nil {
		return err
	}
	pod, err := podspec.Build(podspec.Attempt{Config: b.config, Request: request, Volume: volume}, podspec.Cluster{
		Namespace: contract.ProvisionersNamespace, KubeAPI: "https://10.96.0.1:443", FlexctlImage: image, ImageVolumes: true})
	if err != nil {
		return err
	}
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
			none := int64(0)
			err := b.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &none})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete pod %s: %w", pod.Name, err)
			}
			return nil
		}
	}
}
