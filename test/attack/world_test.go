//go:build e2e || integration

package attack

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
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

func newWorld(config *rest.Config) (*world, error) {
	run := strconv.FormatInt(time.Now().Unix(), 36)
	w := &world{config: config, clients: map[string]kubernetes.Interface{}, tenant: "attack-tenant-" + run, victim: "attack-victim-" + run}
	w.names = map[string]string{"tenant": w.tenant, "victim": w.victim, "export": exportDir}
	var err error
	w.admin, err = kubernetes.NewForConfig(config)
	return w, err
}

// grant writes what the tables take for granted into the allow-list.
func (w *world) grant(ctx context.Context) error {
	if err := w.allow(ctx, "attack-granted", map[string]any{"privileges": "root, host-network"}); err != nil {
		return err
	}
	return w.allow(ctx, "attack-image", map[string]any{
		"storageClasses": className + ",attack-turns", "volumeTypes": "nfs,iscsi,fc,csi,local,hostPath,rbd",
		"nfsExports": "10.99.0.1:" + exportDir, "pathPrefixes": "/mnt/attack", "csiDrivers": "csi.example.com",
		"mountOptions": "nfsvers=4.1", "secretNamespaces": contract.ProvisionersNamespace,
	})
}

// claim makes a claim of 64Mi of the class attack.
func (w *world) claim(ctx context.Context, namespace, name string, change func(*corev1.PersistentVolumeClaim)) (*corev1.PersistentVolumeClaim, error) {
	class := className
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}},
		},
	}
	if change != nil {
		change(claim)
	}
	return w.admin.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, claim, metav1.CreateOptions{})
}

func directory(claim *corev1.PersistentVolumeClaim) string {
	return exportDir + "/volumes/" + podspec.VolumeName(string(claim.UID))
}

// know fills in the names of the victim's volume, of the target and of its pod, and makes the clients.
func (w *world) know(ctx context.Context, pod *corev1.Pod) error {
	w.names["pod"], w.names["pod uid"] = pod.Name, string(pod.UID)
	w.names["uid"] = string(w.target.UID)
	w.names["victim uid"], w.names["volume"] = string(w.data.UID), podspec.VolumeName(string(w.data.UID))
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
			if _, err := w.makePod(ctx, metav1.ObjectMeta{Name: id.Pod}, id.Account); err != nil {
				return err
			}
		}
		if w.clients[name], err = w.client(ctx, id); err != nil {
			return fmt.Errorf("identity %s: %w", name, err)
		}
	}
	return nil
}

// makePod makes a pod that no scheduler takes, where it is not there: a token can be bound to it.
func (w *world) makePod(ctx context.Context, meta metav1.ObjectMeta, account string) (*corev1.Pod, error) {
	no, yes, user := false, true, int64(65532)
	meta.Labels = labels.Merge(meta.Labels, labels.Set{"app": "attack"})
	pods := w.admin.CoreV1().Pods(contract.ProvisionersNamespace)
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: meta,
		Spec: corev1.PodSpec{
			ServiceAccountName: account, SchedulerName: "attack-nobody",
			RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no,
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{Name: "provisioner", Image: "example.com/none",
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no,
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return pods.Get(ctx, meta.Name, metav1.GetOptions{})
	}
	return pod, err
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
