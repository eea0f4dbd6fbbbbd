//go:build integration

package likeness

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// stage is one API server with its dispatcher, and everybody else of a cluster: user, binder, scheduler, kubelet, author.
type stage struct {
	client kubernetes.Interface
	record *record
	// compact forgets the history of the API server.
	compact func() error
}

const class, tenants = "class-0", "team"

// play is one schedule's view of a stage.
type play struct {
	*stage
	t     *testing.T
	name  string // of the claim
	claim *corev1.PersistentVolumeClaim
}

// patience is for the dispatcher's own delays between attempts, and for a slow machine.
const patience = 3 * time.Minute

// until asks until there is no error.
func (p *play) until(what string, ask func(ctx context.Context) error) {
	p.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := ask(p.t.Context())
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s: %v; so far:\n%s", what, err, p.did())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// did is what the dispatcher did about the claim.
func (p *play) did() string { return p.record.of(p.claim.Name, string(p.claim.UID)) }

func (p *play) must(what string, err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
}

func (s *stage) setUp(ctx context.Context) error {
	if err := s.makeNamespaces(ctx, contract.ProvisionersNamespace, tenants); err != nil {
		return err
	}

	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "provisioner", Namespace: contract.ProvisionersNamespace}}
	if _, err := s.client.CoreV1().ServiceAccounts(account.Namespace).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return err
	}
	return s.setUpClass(ctx)
}

func (s *stage) makeNamespaces(ctx context.Context, names ...string) error {
	for _, name := range names {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := s.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return err
		}
	}

	return nil
}

func (s *stage) setUpClass(ctx context.Context) error {
	policy, mode := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingImmediate
	if _, err := s.client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class},
		Provisioner: contract.ProvisionerName, ReclaimPolicy: &policy, VolumeBindingMode: &mode, AllowVolumeExpansion: new(true)}, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := s.client.CoreV1().ConfigMaps(contract.ProvisionersNamespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: class, Labels: map[string]string{"storage-class": class, "type": "provisioner-config"}},
		Data:       map[string]string{"plugin-name": contract.ProvisionerName, "image": "example.com/image", "service-account-name": "provisioner", "zone": "a", "expandable": "true"},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	// A claim that the dispatcher sees before is told that there is no ConfigMap.
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		return s.keeps(ctx, `"zone":"a"`) == nil, nil
	})
}

// keeps is an error unless the dispatcher has kept a version of the ConfigMap with such data, which it does once it is in force.
func (s *stage) keeps(ctx context.Context, data string) error {
	kept, err := s.client.AppsV1().ControllerRevisions(contract.ProvisionersNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}

	for i := range kept.Items {
		if strings.Contains(string(kept.Items[i].Data.Raw), data) {
			return nil
		}
	}

	return fmt.Errorf("no version of the ConfigMap has %s", data)
}

// asks creates the claim, as a user, and hands it over, as the volume controller.
func (p *play) asks() {
	p.t.Helper()
	class := class
	claims := p.client.CoreV1().PersistentVolumeClaims(tenants)
	made, err := claims.Create(p.t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: p.name, Annotations: map[string]string{"volume.kubernetes.io/storage-provisioner": contract.ProvisionerName}},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			VolumeMode: new(corev1.PersistentVolumeFilesystem),
			Resources:  corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
	}, metav1.CreateOptions{})
	p.must("create claim", err)
	p.claim = made
}

// gives up the claim: the user deletes it, and the controller that protects it lets it go.
func (p *play) givesUp() {
	p.t.Helper()
	claims := p.client.CoreV1().PersistentVolumeClaims(tenants)
	p.must("delete claim", claims.Delete(p.t.Context(), p.claim.Name, metav1.DeleteOptions{}))
	_, err := claims.Patch(p.t.Context(), p.claim.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	p.must("let go of claim", err)
}

func (p *play) podName(op contract.Operation, n int) string {
	prefix := map[contract.Operation]string{contract.Provision: "prov", contract.Delete: "del", contract.Expand: "exp"}[op]
	return fmt.Sprintf("%s-%s-%d", prefix, p.claim.UID, n)
}

// awaits waits for a pod of the dispatcher's.
func (p *play) awaits(op contract.Operation, n int) *corev1.Pod {
	p.t.Helper()
	var pod *corev1.Pod
	p.until("wait for pod "+p.podName(op, n), func(ctx context.Context) (err error) {
		pod, err = p.client.CoreV1().Pods(contract.ProvisionersNamespace).Get(ctx, p.podName(op, n), metav1.GetOptions{})
		return err
	})
	return pod
}

// runs is the scheduler, and the kubelet that started the container.
func (p *play) runs(pod *corev1.Pod) {
	p.t.Helper()
	pods := p.client.CoreV1().Pods(pod.Namespace)
	p.must("bind pod", pods.Bind(p.t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
		Target: corev1.ObjectReference{Kind: "Node", Name: "node-0"}}, metav1.CreateOptions{}))
	p.status(pod, corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}})
}

// ends is the kubelet when the container has ended. It lets go of a pod that is being deleted.
func (p *play) ends(pod *corev1.Pod, code int32) {
	p.t.Helper()
	phase := corev1.PodSucceeded
	if code != 0 {
		phase = corev1.PodFailed
	}
	p.status(pod, phase, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error",
		StartedAt: metav1.Now(), FinishedAt: metav1.Now(), ContainerID: "containerd://1"}})
	pods := p.client.CoreV1().Pods(pod.Namespace)
	if now, err := pods.Get(p.t.Context(), pod.Name, metav1.GetOptions{}); err == nil && now.DeletionTimestamp != nil {
		none := int64(0)
		if err := pods.Delete(p.t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &none}); !apierrors.IsNotFound(err) {
			p.must("let go of pod", err)
		}
	}
}

func (p *play) status(pod *corev1.Pod, phase corev1.PodPhase, state corev1.ContainerState) {
	p.t.Helper()
	pods := p.client.CoreV1().Pods(pod.Namespace)
	p.until("write the status of pod "+pod.Name, func(ctx context.Context) error {
		now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		started := metav1.Now()
		now.Status.Phase, now.Status.StartTime = phase, &started
		now.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: podspec.ContainerName, Image: "example.com/image", ContainerID: "containerd://1", State: state}}
		_, err = pods.UpdateStatus(ctx, now, metav1.UpdateOptions{})
		return err
	})
}

// makes is the author who creates the volume, of a size.
func (p *play) makes(pod *corev1.Pod, size string) {
	p.t.Helper()
	skeleton := &corev1.PersistentVolume{}
	p.must("read the skeleton", yaml.Unmarshal([]byte(pod.Annotations[contract.AnnVolume]), skeleton))
	volume, err := sdk.NewVolume(skeleton, sdk.Volume{Source: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "10.0.0.1", Path: "/a"}}})
	p.must("make the volume", err)
	volume.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse(size)
	_, err = p.client.CoreV1().PersistentVolumes().Create(p.t.Context(), volume, metav1.CreateOptions{})
	p.must("create the volume", err)
}

func (p *play) volume() string { return "pvc-" + string(p.claim.UID) }

// binds is the volume controller.
func (p *play) binds() {
	p.t.Helper()
	p.phase(corev1.VolumeBound)
	_, err := p.client.CoreV1().PersistentVolumeClaims(tenants).Patch(p.t.Context(), p.claim.Name, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{"pv.kubernetes.io/bind-completed":"yes"}},"spec":{"volumeName":%q}}`, p.volume()), metav1.PatchOptions{})
	p.must("bind the claim", err)
	v, err := p.client.CoreV1().PersistentVolumes().Get(p.t.Context(), p.volume(), metav1.GetOptions{})
	p.must("read the volume's size", err)
	size := v.Spec.Capacity[corev1.ResourceStorage]
	// Without the capacity the claim would look like one that is to be expanded.
	_, err = p.client.CoreV1().PersistentVolumeClaims(tenants).Patch(p.t.Context(), p.claim.Name, types.MergePatchType,
		fmt.Appendf(nil, `{"status":{"phase":"Bound","capacity":{"storage":%q}}}`, size.String()), metav1.PatchOptions{}, "status")
	p.must("write the claim's phase", err)
}

func (p *play) phase(phase corev1.PersistentVolumePhase) {
	p.t.Helper()
	p.until("write the volume's phase", func(ctx context.Context) error {
		v, err := p.client.CoreV1().PersistentVolumes().Get(ctx, p.volume(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		v.Status.Phase = phase
		_, err = p.client.CoreV1().PersistentVolumes().UpdateStatus(ctx, v, metav1.UpdateOptions{})
		return err
	})
}

// volumeGoes waits until the volume was deleted, and lets it go as the controller that protects it.
func (p *play) volumeGoes() {
	p.t.Helper()
	volumes := p.client.CoreV1().PersistentVolumes()
	p.until("wait for the end of the volume", func(ctx context.Context) error {
		v, err := volumes.Get(ctx, p.volume(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil && v.DeletionTimestamp != nil {
			_, err = volumes.Patch(ctx, v.Name, types.StrategicMergePatchType, []byte(`{"metadata":{"$deleteFromPrimitiveList/finalizers":["kubernetes.io/pv-protection"]}}`), metav1.PatchOptions{})
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %v", err)
	})
}

// podsGo waits until no pod of the claim is left.
func (p *play) podsGo() {
	p.t.Helper()
	p.until("wait for the end of the pods", func(ctx context.Context) error {
		list, err := p.client.CoreV1().Pods(contract.ProvisionersNamespace).List(ctx, metav1.ListOptions{LabelSelector: contract.LabelClaimUID + "=" + string(p.claim.UID)})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d are left, %s of phase %s with finalizers %v", len(list.Items), list.Items[0].Name, list.Items[0].Status.Phase, list.Items[0].Finalizers)
		}
		return err
	})
}

// fails lets the next calls of a kind fail.
func (p *play) fails(what string, faults ...fault) {
	p.record.mu.Lock()
	defer p.record.mu.Unlock()
	p.record.faults[what] = faults
}

// grows is the user who asks for more.
func (p *play) grows(size string) {
	p.t.Helper()
	_, err := p.client.CoreV1().PersistentVolumeClaims(tenants).Patch(p.t.Context(), p.claim.Name, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"resources":{"requests":{"storage":%q}}}}`, size), metav1.PatchOptions{})
	p.must("ask for more", err)
}

// has waits until the claim has so much.
func (p *play) has(size string) {
	p.t.Helper()
	p.until("wait for "+size, func(ctx context.Context) error {
		c, err := p.client.CoreV1().PersistentVolumeClaims(tenants).Get(ctx, p.claim.Name, metav1.GetOptions{})
		if err == nil && c.Status.Capacity.Storage().String() != size {
			err = fmt.Errorf("it has %s", c.Status.Capacity.Storage())
		}
		return err
	})
}

// waits waits until the claim's status says that it waits, or does not say so any longer.
func (p *play) waits(want bool) {
	p.t.Helper()
	p.until(fmt.Sprintf("wait until condition %s is %t", contract.ConditionWaiting, want), func(ctx context.Context) error {
		c, err := p.client.CoreV1().PersistentVolumeClaims(tenants).Get(ctx, p.claim.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}

		_, waits := observed.WaitingCondition(c)
		if waits != want {
			return fmt.Errorf("the claim has the conditions %v", c.Status.Conditions)
		}

		return nil
	})
}

// configures is the administrator who gives the ConfigMap's property another value.
func (p *play) configures(zone string) {
	p.t.Helper()
	_, err := p.client.CoreV1().ConfigMaps(contract.ProvisionersNamespace).Patch(p.t.Context(), class, types.MergePatchType,
		fmt.Appendf(nil, `{"data":{"zone":%q}}`, zone), metav1.PatchOptions{})
	p.must("change ConfigMap", err)
}

// forgets compacts the API server's history while all watches are cut and a ConfigMap changes, so that the dispatcher cannot go on from
// where it was. A list of then, and a watch from then, is answered with what is gone. It ends once the dispatcher has the change.
func (p *play) forgets() {
	p.t.Helper()
	maps := p.client.CoreV1().ConfigMaps(contract.ProvisionersNamespace)
	before, err := maps.Get(p.t.Context(), class, metav1.GetOptions{})
	p.must("get ConfigMap", err)
	p.configures("b")
	p.must("compact", p.compact())
	p.record.cutWatches()
	_, err = maps.List(p.t.Context(), metav1.ListOptions{ResourceVersion: before.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	if !apierrors.IsResourceExpired(err) {
		p.t.Errorf("a list of what is gone: %v", err)
	}
	watch, err := maps.Watch(p.t.Context(), metav1.ListOptions{ResourceVersion: before.ResourceVersion})
	if err == nil { // it says so in its first event
		defer watch.Stop()
		e := <-watch.ResultChan()
		err = apierrors.FromObject(e.Object)
	}
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		p.t.Errorf("a watch from what is gone: %v", err)
	}

	// What comes next is about pods, and two caches have no common order: the dispatcher could be told of the ConfigMap after it.
	p.until("wait until the ConfigMap's change is in force", func(ctx context.Context) error {
		return p.keeps(ctx, `"zone":"b"`)
	})
}
