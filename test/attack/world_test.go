//go:build e2e

package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/test/cluster"
)

const (
	// exportDir is the directory of the node that stands in for a storage; setup.yaml has the script.
	exportDir = "/srv/nfs/attack"
	className = "attack"
)

// world is what the cases share.
type world struct {
	config  *rest.Config
	admin   kubernetes.Interface
	clients map[string]kubernetes.Interface
	// names are what stands in braces in the tables.
	names map[string]string
	// tenant and victim are namespaces. target is a claim of tenant's whose pod runs and waits, data one of victim's that is
	// bound.
	tenant, victim string
	target, data   *corev1.PersistentVolumeClaim
}

func setUp(ctx context.Context) (*world, error) {
	run := strconv.FormatInt(time.Now().Unix(), 36)
	w := &world{clients: map[string]kubernetes.Interface{}, tenant: "attack-tenant-" + run, victim: "attack-victim-" + run}
	w.names = map[string]string{"tenant": w.tenant, "victim": w.victim, "export": exportDir}
	var err error
	if w.config, err = cluster.Config(cluster.Kubeconfig()); err != nil {
		return nil, err
	}
	if w.admin, err = kubernetes.NewForConfig(w.config); err != nil {
		return nil, err
	}
	if os.Getenv("FLEX_E2E_SKIP_INSTALL") != "1" {
		for _, image := range []string{"flex-provisioner", "shell"} {
			if err := cluster.LoadImages(ctx, cluster.Repository, image); err != nil {
				return nil, err
			}
		}
		if err := cluster.Install(ctx, cluster.Repository); err != nil {
			return nil, err
		}
	}
	return w, w.prepare(ctx)
}

// prepare makes what the tables need, and waits until it can be used.
func (w *world) prepare(ctx context.Context) error {
	for _, dir := range []string{"/srv/nfs", exportDir, exportDir + "/volumes", exportDir + "/gates", exportDir + "/seen"} {
		if err := cluster.OpenDir(dir); err != nil {
			return err
		}
	}
	if _, err := cluster.KubectlWith(ctx, w.setup(), "apply", "-f", "-"); err != nil {
		return err
	}
	if err := w.allow(ctx, "attack-granted", map[string]any{"privileges": "root, host-network"}); err != nil {
		return err
	}
	if err := w.allow(ctx, "attack-image", map[string]any{
		"storageClasses": className + ",attack-turns", "volumeTypes": "nfs,iscsi,fc,csi,local,hostPath,rbd",
		"nfsExports": "10.99.0.1:" + exportDir, "pathPrefixes": "/mnt/attack", "csiDrivers": "csi.example.com",
		"mountOptions": "nfsvers=4.1", "secretNamespaces": contract.ProvisionersNamespace,
	}); err != nil {
		return err
	}
	var err error
	if w.data, err = w.claim(ctx, w.victim, "data", nil); err != nil {
		return err
	}
	if w.target, err = w.claim(ctx, w.tenant, "target", nil); err != nil {
		return err
	}
	if err := w.open(w.data); err != nil {
		return err
	}
	if err := w.wait(ctx, patient, func() string { return w.notBound(ctx, w.data) }); err != nil {
		return fmt.Errorf("the victim's claim is not bound: %w", err)
	}
	var pod *corev1.Pod
	if err := w.wait(ctx, patient, func() (lack string) { pod, lack = w.running(ctx, w.target); return lack }); err != nil {
		return fmt.Errorf("the target's pod does not run: %w", err)
	}
	uid, other := string(w.target.UID), string(w.data.UID)
	for name, value := range map[string]string{"pod": pod.Name, "pod uid": string(pod.UID), "uid": uid, "volume": podspec.VolumeName(other), "victim uid": other} {
		w.names[name] = value
	}
	return w.identify(ctx)
}

// identify makes clients for all identities, and the pods that tokens are bound to.
func (w *world) identify(ctx context.Context) error {
	text, err := os.ReadFile(filepath.Join("testdata", "identities.yaml"))
	if err != nil {
		return err
	}
	var identities map[string]identity
	if err := yaml.UnmarshalStrict(text, &identities); err != nil {
		return fmt.Errorf("read testdata/identities.yaml: %w", err)
	}
	for name, id := range identities {
		if id.Pod != "" && id.Pod != "{pod}" {
			if err := w.makePod(ctx, id.Pod, id.Account); err != nil {
				return err
			}
		}
		if w.clients[name], err = w.client(ctx, id); err != nil {
			return fmt.Errorf("identity %s: %w", name, err)
		}
	}
	return nil
}

// makePod makes a pod that no scheduler takes: a token can be bound to it.
func (w *world) makePod(ctx context.Context, name, account string) error {
	no, yes, user := false, true, int64(65532)
	_, err := w.admin.CoreV1().Pods(contract.ProvisionersNamespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "attack"}},
		Spec: corev1.PodSpec{
			ServiceAccountName: account, SchedulerName: "attack-nobody", RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no,
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{Name: "provisioner", Image: "example.com/none", SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// setup is testdata/setup.yaml with its names.
func (w *world) setup() string {
	text, err := os.ReadFile(filepath.Join("testdata", "setup.yaml"))
	if err != nil {
		return err.Error()
	}
	return filled(string(text), w.names)
}

// allow writes the allow-list's lines of a ServiceAccount.
func (w *world) allow(ctx context.Context, account string, lines map[string]any) error {
	data := map[string]any{}
	for setting, value := range lines {
		data[account+"."+setting] = value
	}
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return err
	}
	_, err = w.admin.CoreV1().ConfigMaps(contract.SystemNamespace).Patch(ctx, "flex-pv-policy", types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// takeDown removes what prepare made. What a case left of claims is removed with them.
func (w *world) takeDown() {
	ctx := context.Background()
	for _, namespace := range []string{w.tenant, w.victim} {
		_ = w.admin.CoreV1().PersistentVolumeClaims(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	}
	if w.target != nil {
		_ = w.open(w.target)
	}
	if err := w.wait(ctx, patient, func() string { return w.left(ctx) }); err != nil {
		fmt.Fprintln(os.Stderr, "attack: left behind:", err)
		w.force(ctx)
	}
	now := int64(0)
	_ = w.admin.CoreV1().Pods(contract.ProvisionersNamespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{LabelSelector: "app=attack"})
	gone := map[string]any{}
	for _, setting := range []string{"storageClasses", "volumeTypes", "nfsExports", "pathPrefixes", "csiDrivers", "mountOptions", "secretNamespaces"} {
		gone[setting] = nil
	}
	_, err := cluster.KubectlWith(ctx, w.setup(), "delete", "--ignore-not-found", "--wait=false", "-f", "-")
	if err := errors.Join(err, w.allow(ctx, "attack-image", gone), w.allow(ctx, "attack-granted", map[string]any{"privileges": nil}), os.RemoveAll(exportDir)); err != nil {
		fmt.Fprintln(os.Stderr, "attack: clean up:", err)
	}
}
