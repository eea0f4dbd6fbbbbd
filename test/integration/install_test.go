//go:build integration

package integration

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// Everything that can be installed is accepted, without a warning.
func TestManifestsAreAccepted(t *testing.T) {
	dirs := []string{"deploy/base", "deploy/overlays/ha", "examples"}
	files, err := filepath.Glob("../../examples/*/kustomization.yaml")
	if err != nil || len(files) < 15 {
		t.Fatalf("there are only these examples: %v %v", files, err)
	}
	for _, file := range files {
		dirs = append(dirs, "examples/"+filepath.Base(filepath.Dir(file)))
	}
	if servesStamp(t) {
		dirs = append(dirs, "deploy/overlays/creator-stamp")
	}
	for _, dir := range dirs {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			out, err := server.Kubectl(t.Context(), "apply", "--server-side", "--field-manager="+filepath.Base(dir), "--force-conflicts", "--dry-run=server", "--warnings-as-errors", "-k", dir)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out, "(server dry run)") {
				t.Errorf("kubectl printed %q", out)
			}
		})
	}
}

// The Deployment's pods meet the Pod Security level of their namespace. A Deployment is accepted whatever they are.
func TestDispatcherPodIsAccepted(t *testing.T) {
	client := server.Client(apiserver.Admin.Token())
	deployment, err := client.AppsV1().Deployments(contract.SystemNamespace).Get(t.Context(), "flex-provisioner", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: deployment.Spec.Template.ObjectMeta, Spec: deployment.Spec.Template.Spec}
	pod.GenerateName = "flex-provisioner-"
	made, err := client.CoreV1().Pods(contract.SystemNamespace).Create(t.Context(), pod, dryRun)
	if err != nil {
		t.Fatal(err)
	}
	if got := made.Spec.ServiceAccountName; got != "dispatcher" {
		t.Errorf("serviceAccountName is %s, want dispatcher", got)
	}
	pod.Spec.HostNetwork = true
	if _, err := client.CoreV1().Pods(contract.SystemNamespace).Create(t.Context(), pod, dryRun); !violates(err) {
		t.Errorf("answer to a pod on the node's network: %v, want a refusal by Pod Security", err)
	}
}

// The parts of an example name each other rightly. A wrong name shows only when a claim is made.
func TestExamplesAreConsistent(t *testing.T) {
	admin := server.Client(apiserver.Admin.Token())
	plugin := buildPlugin(t)
	names, err := server.Kubectl(t.Context(), "get", "-k", "examples", "-o", "name")
	if err != nil {
		t.Fatal(err)
	}

	checked := 0
	for line := range strings.Lines(names) {
		kind, name, _ := strings.Cut(strings.TrimSpace(line), "/")
		switch kind {
		case "storageclass.storage.k8s.io":
			checked++
			for _, fault := range validate(t, plugin, name) {
				// What no example can bring along.
				if !strings.HasPrefix(fault.Message, "Secret ") && !strings.Contains(fault.Message, "MountNotBound") {
					t.Errorf("class %s: %s: %s", name, fault.Object, fault.Message)
				}
			}
		case "pod":
			consumer, err := admin.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range consumer.Spec.Volumes {
				if v.PersistentVolumeClaim != nil {
					checkClaim(t, admin, v.PersistentVolumeClaim.ClaimName)
				}
			}
		}
	}
	if checked < 15 {
		t.Errorf("%d classes of examples were found in %s", checked, names)
	}
}

// fault is what kubectl flex validate finds wrong.
type fault struct{ Object, Message string }

func buildPlugin(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "kubectl-flex")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/kubectl-flex")
	build.Dir = apiserver.Repo()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", build, err, out)
	}
	return program
}

// validate lists what is wrong with a class.
func validate(t *testing.T, plugin, class string) (faults []fault) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), plugin, "--kubeconfig", server.Kubeconfig, "validate", class, "-o", "json")
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	if decoded := json.Unmarshal([]byte(out.String()), &faults); decoded != nil || problems.String() != "" {
		t.Fatalf("%s: %v: %s%s", cmd, err, out.String(), problems.String())
	}
	if (err == nil) != (len(faults) == 0) {
		t.Errorf("%s: %v, although it printed %s", cmd, err, out.String())
	}
	return faults
}

// checkClaim fails unless a claim of users is there, and its class.
func checkClaim(t *testing.T, admin kubernetes.Interface, name string) {
	t.Helper()
	claim, err := admin.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), name, metav1.GetOptions{})
	if err == nil {
		_, err = admin.StorageV1().StorageClasses().Get(t.Context(), *claim.Spec.StorageClassName, metav1.GetOptions{})
	}
	if err != nil {
		t.Error(err)
	}
}
