//go:build integration

package integration

import (
	"context"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// The dispatcher fills in the key that signs records, once. Neither it nor who stole its token replaces a key. After
// the command of docs/operations.md, it fills in another one.
func TestKeyIsRotated(t *testing.T) {
	awaitPolicies(t, suite(t))
	const name = "flex-provisioner-record-key"
	secrets := server.Client(apiserver.Admin.Token()).CoreV1().Secrets(contract.SystemNamespace)
	const empty = `{"data": null}`
	t.Cleanup(func() {
		_, _ = secrets.Patch(context.Background(), name, types.MergePatchType, []byte(empty), metav1.PatchOptions{})
	})
	dispatchers := server.Client(dispatcherToken(t)).CoreV1().Secrets(contract.SystemNamespace)
	fill := func(key string) error {
		secret, err := dispatchers.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		secret.Data = map[string][]byte{"key": []byte(strings.Repeat(key, 32))}
		_, err = dispatchers.Update(t.Context(), secret, metav1.UpdateOptions{})
		return err
	}

	if err := fill("a"); err != nil {
		t.Fatal(err)
	}
	const refused = "the dispatcher may write its key into a Secret that has none, and nothing else"
	if err := judge(fill("b"), refused); err != nil {
		t.Error(err)
	}
	secret, err := dispatchers.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secret.Data = nil
	_, err = dispatchers.Update(t.Context(), secret, metav1.UpdateOptions{})
	if err := judge(err, refused); err != nil {
		t.Error(err)
	}

	for _, command := range rotation(t) {
		if _, err := server.Kubectl(t.Context(), command...); err != nil {
			t.Fatal(err)
		}
	}
	if err := fill("b"); err != nil {
		t.Fatal(err)
	}
	now, err := secrets.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil || keyOf(now) != strings.Repeat("b", 32) {
		t.Errorf("the key is %q: %v", keyOf(now), err)
	}
	deployments := server.Client(apiserver.Admin.Token()).AppsV1().Deployments(contract.SystemNamespace)
	deployment, err := deployments.Get(t.Context(), "flex-provisioner", metav1.GetOptions{})
	if err != nil || deployment.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] == "" {
		t.Errorf("the dispatcher was not restarted: %v", err)
	}
}

func keyOf(secret *corev1.Secret) string { return string(secret.Data["key"]) }

// rotation are the commands of docs/operations.md that replace the key, without the name of the program.
func rotation(t *testing.T) (commands [][]string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(strings.TrimSuffix(strings.TrimSpace(line), " &&"))
		if len(words) > 3 && words[0] == "kubectl" && words[1] == "-n" && words[2] == contract.SystemNamespace &&
			(strings.Contains(line, "secret flex-provisioner-record-key") || strings.Contains(line, "rollout restart")) {
			for i := range words {
				words[i] = strings.Trim(words[i], "'")
			}
			commands = append(commands, words[1:])
		}
	}
	if len(commands) != 2 {
		t.Fatalf("docs/operations.md has %q, want two commands", commands)
	}
	return commands
}
