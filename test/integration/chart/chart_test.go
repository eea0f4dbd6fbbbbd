//go:build integration

// Package chart installs, upgrades and uninstalls the Helm chart on a real API server, with its policies in force. What the
// chart renders is compared with deploy/base elsewhere; here it is what becomes of objects that outlive a release or that
// others write to.
package chart

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

const values = `
images: {dispatcher: "registry.example/flex-provisioner:1", flexctl: "registry.example/flexctl:1"}
classes:
  silver:
    storageClass: {reclaimPolicy: Delete}
    config: {image: "registry.example/silver:1", use-nfs-server: 10.0.0.1}
    grants: {volumeTypes: nfs, nfsExports: "10.0.0.1:/srv/nfs"}
`

const gold = `
  gold:
    config: {image: "registry.example/gold:1"}
    grants: {volumeTypes: nfs}
`

// cluster is an API server, and how to use it by kubectl and helm.
type cluster struct {
	*testing.T
	server *apiserver.Server
}

// TestChart: a release's life, from nothing to nothing, with lines in flex-pv-policy that are not the chart's.
func TestChart(t *testing.T) {
	server, err := apiserver.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	c := cluster{t, server}
	c.helm("install", values)
	c.mustHave("configmap/silver", "flex-provisioners")
	c.mustHave("serviceaccount/silver", "flex-provisioners")
	c.mustHave("storageclass/silver", "")
	c.lines("silver.nfsExports:10.0.0.1:/srv/nfs silver.storageClasses:silver silver.volumeTypes:nfs")
	c.kubectl("patch", "-n", "flex-system", "secret", "flex-provisioner-record-key", "--type=merge", "-p", `{"data": {"key": "c2VjcmV0"}}`) // as the dispatcher does
	other := filepath.Join(t.TempDir(), "other.yaml")
	c.write(other, `{apiVersion: v1, kind: ConfigMap, metadata: {name: flex-pv-policy, namespace: flex-system}, data: {other.storageClasses: other}}`)
	c.kubectl("apply", "--server-side", "--field-manager=other", "-f", other)

	c.helm("upgrade", values+gold)
	c.lines("gold.storageClasses:gold gold.volumeTypes:nfs other.storageClasses:other silver.nfsExports:10.0.0.1:/srv/nfs silver.storageClasses:silver silver.volumeTypes:nfs")
	c.helm("upgrade", values)
	c.lines("other.storageClasses:other silver.nfsExports:10.0.0.1:/srv/nfs silver.storageClasses:silver silver.volumeTypes:nfs")
	c.mustNotHave("configmap/gold", "flex-provisioners")

	c.helm("install", "images: {dispatcher: 'registry.example/a:1', flexctl: 'registry.example/b:1'}\nname: fast\nprovisionerName: example.com/fast", "fast")
	c.mustHave("deployment/flex-provisioner", "fast-system")

	c.helm("uninstall", "")
	c.mustNotHave("deployment/flex-provisioner", "flex-system")
	c.mustNotHave("clusterrolebinding/flex-dispatcher", "")
	for _, kept := range []string{"clusterrole/flex-dispatcher", "clusterrole/flex-provisioner-pod", "validatingadmissionpolicy/flex-allow-list", "validatingadmissionpolicybinding/flex-allow-list"} {
		c.mustHave(kept, "")
	}
	c.mustRefusePrivilegedPod()
	for _, kept := range []string{"configmap/flex-pv-policy", "secret/flex-provisioner-record-key"} {
		c.mustHave(kept, "flex-system")
	}
	c.mustHave("namespace/flex-provisioners", "")
	c.helm("install", values)
	c.lines("other.storageClasses:other silver.nfsExports:10.0.0.1:/srv/nfs silver.storageClasses:silver silver.volumeTypes:nfs")
	if key := c.kubectl("get", "-n", "flex-system", "secret", "flex-provisioner-record-key", "-o", "jsonpath={.data.key}"); key != "c2VjcmV0" {
		t.Errorf("the dispatcher's key is %q after a new installation", key)
	}

	c.changeStorageClass()
	c.helm("uninstall", "")
	c.removePolicies()
	c.mustNotHave("validatingadmissionpolicy/flex-allow-list", "")
	c.mustNotHave("validatingadmissionpolicybinding/flex-allow-list", "")
	c.mustHave("validatingadmissionpolicy/fast-allow-list", "")
	c.mustHave("validatingadmissionpolicybinding/fast-allow-list", "")
}

// mustRefusePrivilegedPod fails unless the namespace that outlives a release, which Pod Security lets everything into, is
// closed to somebody who may create pods everywhere.
func (c cluster) mustRefusePrivilegedPod() {
	c.Helper()
	c.kubectl("create", "clusterrole", "pods", "--verb=create", "--resource=pods")
	c.kubectl("create", "clusterrolebinding", "pods", "--clusterrole=pods", "--user=eve")
	c.kubectl("create", "-n", "flex-provisioners", "serviceaccount", "eve")
	pod := filepath.Join(c.TempDir(), "pod.yaml")
	c.write(pod, `{apiVersion: v1, kind: Pod, metadata: {name: eve, namespace: flex-provisioners}, spec: {serviceAccountName: eve, hostPID: true,
  containers: [{name: eve, image: "registry.example/eve:1", securityContext: {privileged: true}}]}}`)
	const want = "ValidatingAdmissionPolicy 'flex-provisioner-" // namespace or pods: the API server names one of those that refuse
	if _, err := c.server.Kubectl(c.Context(), "create", "--as=eve", "-f", pod); err == nil || !strings.Contains(err.Error(), want) {
		c.Errorf("a privileged pod after an uninstallation: got %v, want %s", err, want)
	}
}

// changeStorageClass does what docs/install-on.md says where Kubernetes refuses to change a class.
func (c cluster) changeStorageClass() {
	c.Helper()
	retain := strings.Replace(values, "reclaimPolicy: Delete", "reclaimPolicy: Retain", 1)
	const want = "reclaimPolicy: Invalid value: null: field is immutable"
	if err := c.runHelm("upgrade", retain); err == nil || !strings.Contains(err.Error(), want) {
		c.Errorf("an upgrade with another reclaimPolicy: got %v, want %q", err, want)
	}

	c.kubectl("delete", "storageclass", "silver")
	c.helm("upgrade", retain)
	policy := c.kubectl("get", "storageclass", "silver", "-o", "jsonpath={.reclaimPolicy}")
	if policy != "Retain" {
		c.Errorf("after the upgrade the class has the reclaimPolicy %q", policy)
	}
}

// removePolicies does what docs/install-on.md says, after the namespaces are gone.
func (c cluster) removePolicies() {
	c.Helper()
	args := []string{"delete"}
	for name := range strings.FieldsSeq(c.kubectl("get", "validatingadmissionpolicybindings,validatingadmissionpolicies", "-o", "name", "--selector=app.kubernetes.io/part-of=flex-provisioner")) {
		if strings.Contains(name, "/flex-") {
			args = append(args, name)
		}
	}
	c.kubectl(args...)
}

// helm runs a command on the release, which lies in kube-system, or on another.
func (c cluster) helm(command, values string, release ...string) {
	c.Helper()
	if err := c.runHelm(command, values, release...); err != nil {
		c.Fatal(err)
	}
}

func (c cluster) runHelm(command, values string, release ...string) error {
	c.Helper()
	name := "flex-provisioner"
	if len(release) > 0 {
		name = release[0]
	}
	args := []string{"tool", "helm", command, name, "--namespace=kube-system", "--kubeconfig=" + c.server.Kubeconfig}
	if values != "" {
		file := filepath.Join(c.TempDir(), "values.yaml")
		c.write(file, values)
		args = append(args, filepath.Join(apiserver.Repo(), "deploy", "helm"), "--values="+file)
	}
	cmd := exec.CommandContext(c.Context(), "go", args...)
	cmd.Dir = filepath.Join(apiserver.Repo(), "tools", "release")
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+c.server.Dir+"/helm-cache", "HELM_CONFIG_HOME="+c.server.Dir+"/helm")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("helm %s: %w: %s", command, err, out)
	}
	return nil
}

func (c cluster) kubectl(args ...string) string {
	c.Helper()
	out, err := c.server.Kubectl(c.Context(), args...)
	if err != nil {
		c.Fatal(err)
	}
	return out
}

// lines fails unless flex-pv-policy has these lines, as KEY:VALUE in order.
func (c cluster) lines(want string) {
	c.Helper()
	got := c.kubectl("get", "-n", "flex-system", "configmap", "flex-pv-policy", "-o", `go-template={{range $k, $v := .data}}{{$k}}:{{$v}} {{end}}`)
	if strings.TrimSpace(got) != want {
		c.Errorf("flex-pv-policy has\n%s\nwant\n%s", got, want)
	}
}

func (c cluster) mustHave(object, namespace string) {
	c.Helper()
	if err := c.get(object, namespace); err != nil {
		c.Error(err)
	}
}

func (c cluster) mustNotHave(object, namespace string) {
	c.Helper()
	if err := c.get(object, namespace); err == nil || !strings.Contains(err.Error(), "NotFound") {
		c.Errorf("%s: got %v, want NotFound", object, err)
	}
}

func (c cluster) get(object, namespace string) error {
	_, err := c.server.Kubectl(context.WithoutCancel(c.Context()), "get", object, "--namespace="+namespace)
	if err != nil {
		return fmt.Errorf("get %s: %w", object, err)
	}
	return nil
}

func (c cluster) write(name, text string) {
	c.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		c.Fatal(err)
	}
}
