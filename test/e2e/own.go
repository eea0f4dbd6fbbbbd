//go:build e2e

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A dispatcher of a test's own is a process of this machine beside the installed one. It has a namespace of provisioners and a
// provisioner name of its own, so that a test may stop it, or take its policies away.

const ownObjects = `apiVersion: v1
kind: Namespace
metadata: {name: NAME}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: NAME}
provisioner: e2e.example.com/NAME
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config, namespace: NAME, labels: {storage-class: NAME, type: provisioner-config}}
data:
  plugin-name: e2e.example.com/NAME
  image: ` + shellImage + `
  service-account-name: default
  provision: |
    PROVISION
  delete: exit 0
---
# What kubectl flex reads of a dispatcher. The process itself is not the cluster's.
apiVersion: apps/v1
kind: Deployment
metadata: {name: flex-provisioner, namespace: NAME}
spec:
  replicas: 0
  selector: {matchLabels: {app: flex-provisioner}}
  template:
    metadata: {labels: {app: flex-provisioner}}
    spec:
      containers: [{name: dispatcher, image: none, args: [--namespace=NAME, --provisioner-name=e2e.example.com/NAMEFLAGS]}]
`

// ownProvisioner is the provisioner name of the dispatcher that has the namespace.
func ownProvisioner(namespace string) string { return "e2e.example.com/" + namespace }

// installOwn makes what a dispatcher with these flags consists of, but for the process. Its class is named like its namespace.
func (s *scope) installOwn(provision string, flags ...string) (namespace string) {
	s.Helper()
	namespace = s.name + "-p"
	more := ""
	for _, flag := range flags {
		more += ", " + flag
	}
	objects := strings.NewReplacer("NAME", namespace, "PROVISION", provision, "FLAGS", more).Replace(ownObjects)
	file := filepath.Join(s.TempDir(), "objects.yaml")
	s.ok(os.WriteFile(file, []byte(objects), 0o600))
	s.later(func(ctx context.Context) error {
		_, err := kubectl(ctx, "delete", "--ignore-not-found", "--wait=false", "storageclass/"+namespace, "namespace/"+namespace)
		return err
	})
	_, err := kubectl(s.Context(), "apply", "-f", file)
	s.ok(err)
	// When the test ends the dispatcher is gone, so that nobody else lets its records go.
	s.later(func(ctx context.Context) error { return letGo(ctx, namespace) })
	return namespace
}

// letGo takes the finalizers off the pods of the namespace.
func letGo(ctx context.Context, namespace string) error {
	bare, core := []byte(`{"metadata":{"finalizers":null}}`), shared.admin.CoreV1()
	for _, p := range all(shared.pods, func(p *corev1.Pod) bool { return p.Namespace == namespace && len(p.Finalizers) > 0 }) {
		if _, err := core.Pods(namespace).Patch(ctx, p.Name, types.MergePatchType, bare, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// startOwn starts the dispatcher that has the namespace. It is killed when the test ends.
func (s *scope) startOwn(namespace string, flags ...string) {
	s.Helper()
	s.Cleanup(s.startProcess(exec.CommandContext(s.Context(), programs+"/flex-provisioner", append(flags, "--kubeconfig", kubeconfig(), "--namespace", namespace,
		"--provisioner-name", ownProvisioner(namespace), "--leader-elect=false", "--http-address=127.0.0.1:0", "--pod-kube-api=https://10.96.0.1:443")...)))
}

// startProcess starts a program of this machine, and returns what kills it. What it said is shown if the test has failed by then.
func (s *scope) startProcess(cmd *exec.Cmd) (kill func()) {
	s.Helper()
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	s.ok(cmd.Start())
	return sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if s.Failed() {
			s.Logf("%s:\n%s", cmd.Path, log.String())
		}
	})
}
