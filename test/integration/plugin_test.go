//go:build integration

package integration

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/inspect"
	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/archive"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// plugin is what a command of kubectl flex prints for an administrator, and its exit code.
func plugin(t *testing.T, program string, args ...string) (output string, code int) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, append([]string{"--kubeconfig", server.Kubeconfig}, args...)...).Output()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	if failed != nil {
		t.Logf("%v: %s", args, failed.Stderr)
		code = failed.ExitCode()
	}
	return string(out), code
}

// TestPluginChecks: check tells what works on an API server without a dispatcher from what does not.
func TestPluginChecks(t *testing.T) {
	program := buildPlugin(t)
	output, code := plugin(t, program, "check", "-o", "json")
	var findings []inspect.Finding
	if err := json.Unmarshal([]byte(output), &findings); err != nil || code != 4 {
		t.Fatalf("exit code %d, %v: %s", code, err, output)
	}

	results := map[string]inspect.Result{}
	for _, f := range findings {
		results[f.Object] = f.Result
	}
	for object, want := range map[string]inspect.Result{
		"Deployment flex-system/flex-provisioner": inspect.ResultFailed,
		"Lease flex-system/flex-provisioner":      inspect.ResultFailed,
		"admission policies":                      inspect.ResultOk,
		"class hostpath":                          inspect.ResultOk,
		"API snapshot.storage.k8s.io/v1":          inspect.ResultOk,
	} {
		if results[object] != want {
			t.Errorf("%s: %q, want %q", object, results[object], want)
		}
	}

	names, _ := plugin(t, program, "__complete", "render", "hostp")
	if !strings.HasPrefix(names, "hostpath\n") {
		t.Errorf("a class is completed with %q", names)
	}
	out, code := plugin(t, program, "version", "-o", "jsonpath={.dispatcher.image} {.snapshots}")
	if code != 0 || out != "registry.invalid/flex-provisioner/flex-provisioner:dev snapshot.storage.k8s.io/v1" {
		t.Errorf("version: exit code %d, %s", code, out)
	}
}

// TestPluginBundles: the archive has the installation, and no value of a property or a script of its ConfigMaps.
func TestPluginBundles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	if output, code := plugin(t, buildPlugin(t), "bundle", file); code != 0 {
		t.Fatalf("exit code %d: %s", code, output)
	}
	files := archive.Files(t, file)
	if !strings.Contains(files["flex-bundle/dispatcher.yaml"], "kind: Deployment\n") || !strings.Contains(files["flex-bundle/storageclasses.yaml"], "name: hostpath\n") {
		t.Errorf("the archive lacks the installation: %.2000s", files)
	}

	list, err := server.Client(apiserver.Admin.Token()).CoreV1().ConfigMaps(contract.ProvisionersNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var written corev1.ConfigMapList
	if err := yaml.Unmarshal([]byte(files["flex-bundle/configmaps.yaml"]), &written); err != nil {
		t.Fatal(err)
	}
	shown := map[string]map[string]string{}
	for _, cm := range written.Items {
		shown[cm.Name] = cm.Data
	}
	hidden := 0
	for _, cm := range list.Items {
		for key, value := range shown[cm.Name] {
			want := cm.Data[key]
			if script := key == "provision" || key == "delete" || key == "expand"; script || !configmaps.IsReserved(key) {
				hidden++
				want = "(redacted)"
			}
			if value != want {
				t.Errorf("%s of ConfigMap %s is %q, want %q", key, cm.Name, value, want)
			}
		}
	}
	if hidden < 10 || len(shown) < 15 {
		t.Errorf("of %d ConfigMaps, %d values are hidden only", len(shown), hidden)
	}
}
