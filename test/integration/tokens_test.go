//go:build integration

package integration

import (
	"context"
	"fmt"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// token asks for a token of the ServiceAccount, bound to the pod unless that is nil.
func token(t *testing.T, namespace, account string, pod *corev1.Pod) string {
	t.Helper()
	return tokenAt(t, server, namespace, account, pod)
}

func tokenAt(t *testing.T, s *apiserver.Server, namespace, account string, pod *corev1.Pod) string {
	t.Helper()
	var request authenticationv1.TokenRequest
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	answer, err := s.Client(apiserver.Admin.Token()).CoreV1().ServiceAccounts(namespace).
		CreateToken(t.Context(), account, &request, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create token of %s/%s: %v", namespace, account, err)
	}
	return answer.Status.Token
}

func dispatcherToken(t *testing.T) string {
	t.Helper()
	return token(t, contract.SystemNamespace, "dispatcher", nil)
}

// tokenOf is the token of a user of the tables: one with a static token, the dispatcher, or a provisioner's
// ServiceAccount.
func tokenOf(t *testing.T, name string) string {
	t.Helper()
	for _, u := range append(users, apiserver.Admin, apiserver.Controllers) {
		if u.Name == name {
			return u.Token()
		}
	}
	if name == "dispatcher" {
		return dispatcherToken(t)
	}
	return token(t, contract.ProvisionersNamespace, name, nil)
}

// provisionerPod makes a pod as the dispatcher does, and removes it with the test.
func provisionerPod(t *testing.T, name, account string) *corev1.Pod {
	t.Helper()
	no, yes := false, true
	user := int64(65532)
	operation, uid, _, _ := podspec.ParseName(name)
	pods := server.Client(dispatcherToken(t)).CoreV1().Pods(contract.ProvisionersNamespace)
	pod, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{contract.PodFinalizer},
			Labels: map[string]string{contract.LabelClaimUID: uid, contract.LabelOperation: string(operation)}},
		Spec: corev1.PodSpec{
			ServiceAccountName:           account,
			AutomountServiceAccountToken: &no,
			RestartPolicy:                corev1.RestartPolicyNever,
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Volumes: []corev1.Volume{{ // a node gets tokens only for pods that ask for one
				Name: "identity",
				VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}}},
			}},
			Containers: []corev1.Container{{
				Name: "provisioner", Image: "example.com/provisioner",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no,
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create pod %s as the dispatcher: %v", name, err)
	}
	t.Cleanup(func() { removePod(t, name) })
	// A dispatcher that runs in a test would find that the pod's claim does not exist, and remove it.
	_, err = server.Client(apiserver.Admin.Token()).CoreV1().Pods(contract.ProvisionersNamespace).Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"metadata":{"labels":null}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("take the labels off pod %s: %v", name, err)
	}
	return pod
}

func removePod(t *testing.T, name string) {
	t.Helper()
	now := int64(0)
	pods := server.Client(apiserver.Admin.Token()).CoreV1().Pods(contract.ProvisionersNamespace)
	_, err := pods.Patch(context.Background(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Error(fmt.Errorf("take finalizers off pod %s: %w", name, err))
	}
	err = pods.Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Error(fmt.Errorf("delete pod %s: %w", name, err))
	}
}
