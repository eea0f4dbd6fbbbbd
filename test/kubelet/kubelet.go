// Package kubelet does to provisioner pods what a kubelet, and a container in them, would, for tests without nodes.
package kubelet

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Identity is whom the API server authenticates by the token of a pod. With it the admission policies see what they would see of a
// container's request.
func Identity(pod *corev1.Pod) rest.ImpersonationConfig {
	return rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + pod.Namespace + ":" + pod.Spec.ServiceAccountName,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + pod.Namespace, "system:authenticated"},
		Extra:    map[string][]string{"authentication.kubernetes.io/pod-name": {pod.Name}, "authentication.kubernetes.io/pod-uid": {string(pod.UID)}},
	}
}

// Volume is the volume that a pod is to create, on an NFS export.
func Volume(pod *corev1.Pod, server, path string) (*corev1.PersistentVolume, error) {
	var volume corev1.PersistentVolume
	if err := yaml.Unmarshal([]byte(pod.Annotations[contract.AnnVolume]), &volume); err != nil {
		return nil, fmt.Errorf("read volume of pod %s: %w", pod.Name, err)
	}
	volume.Spec.NFS = &corev1.NFSVolumeSource{Server: server, Path: path}
	return &volume, nil
}

// SetStatus writes the status of a pod whose container is in the state. A pod of another UID is a conflict.
func SetStatus(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, status corev1.PodStatus, state corev1.ContainerState) error {
	container := pod.Spec.Containers[0]
	status.ContainerStatuses = []corev1.ContainerStatus{{Name: container.Name, Image: container.Image, State: state}}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	if _, err = client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("write status of pod %s: %w", pod.Name, err)
	}
	return nil
}
