package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// bareClass is the class of the bare provisioner on the real kubelet: a pod with a token, made together with its claim, in
// which the least possible program creates the volume. Nobody watches it, checks it or keeps a record of it.
const bareClass = name + "-bare"

// addBare makes the class, and gives its pods the right to create volumes.
func (b *bench) addBare(ctx context.Context) error {
	meta := metav1.ObjectMeta{Name: bareClass}
	return makeAll(bareClass,
		func() error {
			_, err := b.client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{ObjectMeta: meta, Provisioner: floorProvisioner}, createOptions)
			return err
		},
		func() error {
			_, err := b.client.CoreV1().ServiceAccounts(name).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, createOptions)
			return err
		},
		func() error {
			_, err := b.client.RbacV1().ClusterRoleBindings().Create(ctx, mayCreateVolumes(bareClass, name), createOptions)
			return err
		})
}

// removeBare takes away what is in no namespace.
func (b *bench) removeBare(ctx context.Context) {
	removeClass(ctx, b.client, bareClass)
	volumes := metav1.ListOptions{LabelSelector: "bench=" + bareClass}
	if err := b.client.CoreV1().PersistentVolumes().DeleteCollection(ctx, metav1.DeleteOptions{}, volumes); err != nil {
		fmt.Fprintf(os.Stderr, "bench: delete volumes of class %s: %v\n", bareClass, err)
	}
}

// bareBound is the time from the creation of a claim, and of its bare pod, until the claim is bound.
func (b *bench) bareBound(ctx context.Context, claimName string) (time.Duration, error) {
	return b.boundBy(ctx, claimName, bareClass, func(claim *corev1.PersistentVolumeClaim) error {
		pod, err := bareProvisioner(claim)
		if err != nil {
			return err
		}
		if _, err := b.client.CoreV1().Pods(name).Create(ctx, pod, createOptions); err != nil {
			return fmt.Errorf("create pod %s: %w", pod.Name, err)
		}
		return nil
	})
}

// dropBare deletes the pods of a round, as ours are deleted after theirs.
func (b *bench) dropBare(ctx context.Context) error {
	none := int64(0)
	if err := b.client.CoreV1().Pods(name).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &none}, metav1.ListOptions{LabelSelector: "bench=" + bareClass}); err != nil {
		return fmt.Errorf("delete pods of class %s: %w", bareClass, err)
	}
	return nil
}

// bareProvisioner is the pod for a claim. With the claim's UID in the volume, which ours write too, the controller-manager
// binds at once; without, it does when it looks at all claims again, some ten seconds later.
func bareProvisioner(claim *corev1.PersistentVolumeClaim) (*corev1.Pod, error) {
	labels := map[string]string{"bench": bareClass}
	volume, err := json.Marshal(&corev1.PersistentVolume{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}, ObjectMeta: metav1.ObjectMeta{Name: bareClass + "-" + claim.Name, Labels: labels},
		Spec: corev1.PersistentVolumeSpec{StorageClassName: bareClass, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: gibibyte},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef:                      &corev1.ObjectReference{Namespace: name, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource:        corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "10.99.0.1", Path: "/" + claim.Name}}}})
	if err != nil {
		return nil, fmt.Errorf("encode volume of claim %s: %w", claim.Name, err)
	}
	no, file := false, corev1.HostPathFile
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: bareClass + "-" + claim.Name, Labels: labels}, Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, EnableServiceLinks: &no, ServiceAccountName: bareClass,
		Containers: []corev1.Container{{Name: "c", Image: image, Command: []string{"/bare"}, Env: []corev1.EnvVar{{Name: "VOLUME", Value: string(volume)}},
			VolumeMounts: []corev1.VolumeMount{{Name: "bare", MountPath: "/bare", ReadOnly: true}}}},
		Volumes: []corev1.Volume{{Name: "bare", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
			Path: filepath.Join(apiserver.Repo(), "bin", "bench-bare"), Type: &file}}}}}}, nil
}
