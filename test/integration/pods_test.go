//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// Every golden pod of package podspec is one that the dispatcher may make, with the grants of examples and of
// testdata/allow-list.yaml. One of a class without a grant meets the level restricted as well.
func TestGoldenPodsAreAccepted(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(apiserver.Repo(), "podspec", "testdata", "build", "*", "pod.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("golden pods: %v, %v", files, err)
	}
	for _, level := range []string{"privileged", "restricted"} {
		enforce(t, level)
		for _, file := range files {
			t.Run(level+"/"+filepath.Base(filepath.Dir(file)), func(t *testing.T) { checkGoldenPod(t, file, level) })
		}
	}
}

// privilegedAccounts are the ServiceAccounts of golden pods that ask for privileges; other golden pods have an account without.
var privilegedAccounts = []string{"granted", "hostpath"}

func checkGoldenPod(t *testing.T, file, level string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(text, &pod); err != nil {
		t.Fatal(err)
	}
	ensureAccount(t, pod.Spec.ServiceAccountName)
	_, err = server.Client(dispatcherToken(t)).CoreV1().Pods(pod.Namespace).Create(t.Context(), &pod, dryRun)
	if level == "restricted" && slices.Contains(privilegedAccounts, pod.Spec.ServiceAccountName) && !*pod.Spec.SecurityContext.RunAsNonRoot {
		if !violates(err) {
			t.Errorf("answer: %v, want a refusal by Pod Security", err)
		}
		return
	}
	if err != nil {
		t.Error(err)
	}
}

func violates(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), `violates PodSecurity "restricted:latest"`)
}

func ensureAccount(t *testing.T, name string) {
	t.Helper()
	accounts := server.Client(apiserver.Admin.Token()).CoreV1().ServiceAccounts(contract.ProvisionersNamespace)
	_, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// enforce sets the namespace's Pod Security level until the test ends, and waits until it is in force.
func enforce(t *testing.T, level string) {
	t.Helper()
	namespaces := server.Client(apiserver.Admin.Token()).CoreV1().Namespaces()
	set := func(ctx context.Context, level string) {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":%q}}}`, level)
		if _, err := namespaces.Patch(ctx, contract.ProvisionersNamespace, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	set(t.Context(), level)
	t.Cleanup(func() { set(context.Background(), "privileged") }) // as deploy/base does
	ensureAccount(t, "only-root")
	// It is what the policy on pods lets through, and Pod Security refuses.
	no, all := false, corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
	probe := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-", Namespace: contract.ProvisionersNamespace},
		Spec: corev1.PodSpec{ServiceAccountName: "only-root",
			SecurityContext: &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{Name: "probe", Image: "example.com/probe", SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: &no, Capabilities: &all}}}},
	}
	eventually(t, func() error {
		_, err := server.Client(apiserver.Admin.Token()).CoreV1().Pods(probe.Namespace).Create(t.Context(), probe.DeepCopy(), dryRun)
		if violates(err) != (level == "restricted") {
			return fmt.Errorf("answer at level %s: %v", level, err)
		}
		return nil
	})
}
