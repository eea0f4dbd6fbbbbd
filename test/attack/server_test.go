//go:build integration

package attack

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/cluster"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
	"github.com/flex-provisioner/flex-provisioner/test/request"
)

// TestRequests sends the requests of all tables to an API server with the policies: no node has a say in them.
func TestRequests(t *testing.T) {
	w := onServer(t)
	for _, view := range views {
		data := read(t, view)
		w.awaitForce(t, data)
		t.Run(view, func(t *testing.T) {
			for _, a := range data.Cases {
				if a.Verb == "" {
					continue
				}
				t.Run(a.Name, func(t *testing.T) {
					if err := a.judge(w.send(t.Context(), data, a)); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}

// awaitForce waits until policies, rights and the allow-list have reached the API server: one request of each identity is
// answered as it should be for each that refuses it. What is wrong for longer the requests themselves show.
func (w *world) awaitForce(t *testing.T, data table) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen := map[string]bool{}
	for _, a := range data.Cases {
		who, _ := a.refuser()
		if key := a.As + ": " + who; a.Verb != "" && !seen[key] {
			seen[key] = true
			_ = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
				return a.judge(w.send(ctx, data, a)) == nil, nil
			})
		}
	}
}

// send makes the case's request as a dry run.
func (w *world) send(ctx context.Context, data table, a attempt) (answer map[string]any, err error) {
	client, known := w.clients[a.As]
	if !known {
		return nil, fmt.Errorf("identity %q is unknown", a.As)
	}
	path := filled(a.Path, w.names)
	if !strings.HasPrefix(path, "/") {
		path = "/api/v1/namespaces/" + contract.ProvisionersNamespace + "/" + path
	}
	body := data.object(a)
	if body != nil {
		if body, err = filledObject(body, w.names); err != nil {
			return nil, err
		}
	}
	text, err := request.Request{Verb: a.Verb, Path: path, Body: body}.Send(ctx, client.CoreV1().RESTClient())
	if err != nil || a.Answers == nil {
		return nil, err
	}
	return answer, json.Unmarshal(text, &answer)
}

// onServer is the world of an API server alone. What the dispatcher, the scheduler and Kubernetes' controllers have done on a cluster before
// anybody attacks is done here by hand.
func onServer(t *testing.T) *world {
	t.Helper()
	server, err := apiserver.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	if _, err := server.StartControllers("clusterrole-aggregation-controller"); err != nil { // fills in the role admin
		t.Fatal(err)
	}
	w, err := newWorld(server.Config(apiserver.Admin.Token()))
	if err != nil {
		t.Fatal(err)
	}
	// The administrators of clusters have certificates, and so no UID that the stamp would write on claims.
	w.admin, err = w.client(t.Context(), identity{User: "attack-admin", Groups: []string{"system:masters"}})
	if err != nil {
		t.Fatal(err)
	}

	setup := filepath.Join(t.TempDir(), "setup.yaml")
	if err := os.WriteFile(setup, []byte(w.setup()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := server.InstallSnapshots(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"apply", "--server-side", "-k", cluster.Installation}, {"apply", "-f", setup},
		{"apply", "-f", "test/attack/testdata/setup-snapshots.yaml"}} {
		if _, err := server.Kubectl(t.Context(), args...); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []func(context.Context) error{w.grant, w.serveVictim, w.serveTarget, w.servePods} {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// handedOver is what Kubernetes writes on a claim for the dispatcher.
func handedOver(claim *corev1.PersistentVolumeClaim) {
	claim.Annotations = map[string]string{"volume.kubernetes.io/storage-provisioner": contract.ProvisionerName}
}

// serveVictim makes the victim's claim, and binds it to a volume.
func (w *world) serveVictim(ctx context.Context) (err error) {
	claims, volumes := w.admin.CoreV1().PersistentVolumeClaims(w.victim), w.admin.CoreV1().PersistentVolumes()
	if w.data, err = w.claim(ctx, w.victim, "data", handedOver); err != nil {
		return err
	}

	v, err := volumes.Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        podspec.VolumeName(string(w.data.UID)),
			Annotations: map[string]string{contract.ProvisionedBy: contract.ProvisionerName, contract.AnnIdentity: "{}"},
			Finalizers:  []string{contract.VolumeFinalizer},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: w.data.Spec.Resources.Requests, AccessModes: w.data.Spec.AccessModes, StorageClassName: className,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: w.victim, Name: w.data.Name, UID: w.data.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				NFS: &corev1.NFSVolumeSource{Server: "10.99.0.1", Path: directory(w.data)}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	v.Status.Phase = corev1.VolumeBound
	if _, err := volumes.UpdateStatus(ctx, v, metav1.UpdateOptions{}); err != nil {
		return err
	}

	w.data.Spec.VolumeName = v.Name
	if w.data, err = claims.Update(ctx, w.data, metav1.UpdateOptions{}); err != nil {
		return err
	}
	w.data.Status.Phase = corev1.ClaimBound
	w.data, err = claims.UpdateStatus(ctx, w.data, metav1.UpdateOptions{})
	return err
}

// serveTarget makes the tenant's claim and its provisioner pod, puts the pod on a node, and makes the clients.
func (w *world) serveTarget(ctx context.Context) (err error) {
	if w.target, err = w.claim(ctx, w.tenant, "target", handedOver); err != nil {
		return err
	}

	uid := string(w.target.UID)
	pod, err := w.makePod(ctx, metav1.ObjectMeta{
		Name:        podspec.Name(contract.Provision, uid, 0),
		Labels:      map[string]string{contract.LabelClaimUID: uid, contract.LabelOperation: string(contract.Provision)},
		Annotations: map[string]string{contract.AnnClass: className, contract.AnnRequest: `{"properties":{}}`},
		Finalizers:  []string{contract.PodFinalizer},
	}, "attack-image")
	if err != nil {
		return err
	}
	err = w.admin.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "node1"},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return w.know(ctx, pod)
}

// servePods writes what pods trust, and the key with which the dispatcher signs.
func (w *world) servePods(ctx context.Context) error {
	_, err := w.admin.CoreV1().ConfigMaps(contract.ProvisionersNamespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt"}, Data: map[string]string{"ca.crt": "x"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	key := []byte(`{"stringData":{"key":"` + strings.Repeat("k", 32) + `"}}`)
	_, err = w.admin.CoreV1().Secrets(contract.SystemNamespace).Patch(ctx, "flex-provisioner-record-key",
		types.MergePatchType, key, metav1.PatchOptions{})
	return err
}
