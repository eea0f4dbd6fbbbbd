//go:build integration

package integration

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// growth is a bound claim and its volume, in a cluster without a kubelet: the test ends pods.
type growth struct {
	t     *testing.T
	admin kubernetes.Interface
	claim *corev1.PersistentVolumeClaim
}

// The dispatcher's own identity may write all that an expansion takes, the API server accepts each mark, a user may ask
// for less after a failure, and kube-controller-manager does no more than say that it waits.
func TestExpansionIsAccepted(t *testing.T) {
	stop, err := server.StartControllers("persistentvolume-binder-controller", "persistentvolume-expander-controller")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	awaitPolicies(t, suite(t))
	runDispatcher(t, server, theFirst)
	g := newGrowth(t)

	g.ask("2Gi")
	g.finish(0, corev1.PodFailed, 1, "no room")
	g.wants("1Gi", "1Gi", "2Gi", corev1.PersistentVolumeClaimControllerResizeInProgress, "no room (pod "+g.pod(0)+")")
	g.ask("1536Mi")
	g.finish(1, corev1.PodFailed, contract.ExitRefused, "never")
	g.wants("1Gi", "1Gi", "1536Mi", corev1.PersistentVolumeClaimControllerResizeInfeasible, "never (pod "+g.pod(1)+")")
	g.ask("1280Mi")
	g.finish(2, corev1.PodSucceeded, 0, "")
	g.wants("1280Mi", "1280Mi", "1280Mi", "", "")
	g.told("ExternalExpanding", "waiting for an external controller to expand this PVC")
	g.told("ExpansionSucceeded", "pod "+podspec.Name(contract.Expand, string(g.claim.UID), 2)+" expanded volume pvc-"+string(g.claim.UID)+" to 1280Mi")
}

func newGrowth(t *testing.T) *growth {
	t.Helper()
	g := &growth{t: t, admin: server.Client(apiserver.Admin.Token())}
	yes, class := true, "growing"
	_, err := g.admin.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: contract.ProvisionerName, AllowVolumeExpansion: &yes}, metav1.CreateOptions{})
	g.ok(err)
	_, err = g.admin.CoreV1().ConfigMaps(contract.ProvisionersNamespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: class, Labels: map[string]string{"type": "provisioner-config", "storage-class": class}},
		Data:       map[string]string{"plugin-name": contract.ProvisionerName, "image": "example.com/x", "service-account-name": "foo", "expandable": "true"},
	}, metav1.CreateOptions{})
	g.ok(err)
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	g.claim, err = g.admin.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "growing-"},
		Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: size}},
	}, metav1.CreateOptions{})
	g.ok(err)
	_, err = g.admin.CoreV1().PersistentVolumes().Create(t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: podspec.VolumeName(string(g.claim.UID)), Annotations: map[string]string{contract.ProvisionedBy: contract.ProvisionerName}},
		Spec: corev1.PersistentVolumeSpec{Capacity: size, AccessModes: modes, StorageClassName: class, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef:               &corev1.ObjectReference{Namespace: "default", Name: g.claim.Name, UID: g.claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "10.99.0.1", Path: "/x"}}},
	}, metav1.CreateOptions{})
	g.ok(err)
	g.wants("1Gi", "1Gi", "", "", "")
	return g
}

func (g *growth) ok(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *growth) ask(size string) {
	g.t.Helper()
	_, err := g.admin.CoreV1().PersistentVolumeClaims("default").Patch(g.t.Context(), g.claim.Name, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"resources":{"requests":{"storage":%q}}}}`, size), metav1.PatchOptions{})
	g.ok(err)
}

func (g *growth) pod(attempt int) string {
	return contract.ProvisionersNamespace + "/" + podspec.Name(contract.Expand, string(g.claim.UID), attempt)
}

// finish waits for the pod of an attempt and ends it as a kubelet would. A failed one ends a minute from now, so that no
// attempt at the same size follows it before the test asks for another size, which is tried at once.
func (g *growth) finish(attempt int, phase corev1.PodPhase, code int32, message string) {
	g.t.Helper()
	pods, name := g.admin.CoreV1().Pods(contract.ProvisionersNamespace), podspec.Name(contract.Expand, string(g.claim.UID), attempt)
	eventually(g.t, func() error {
		_, err := pods.Get(g.t.Context(), name, metav1.GetOptions{})
		return err
	})
	g.ok(pods.Bind(g.t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"}}, metav1.CreateOptions{}))
	pod, err := pods.Get(g.t.Context(), name, metav1.GetOptions{})
	g.ok(err)
	pod.Status.Phase = phase
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: podspec.ContainerName, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message, FinishedAt: metav1.NewTime(time.Now().Add(time.Minute))}}}}
	_, err = pods.UpdateStatus(g.t.Context(), pod, metav1.UpdateOptions{})
	g.ok(err)
}

// wants waits until volume and claim have the sizes and the marks; failure is the message of ControllerResizeError.
func (g *growth) wants(volume, capacity, allocated string, status corev1.ClaimResourceStatus, failure string) {
	g.t.Helper()
	eventually(g.t, func() error {
		v, err := g.admin.CoreV1().PersistentVolumes().Get(g.t.Context(), podspec.VolumeName(string(g.claim.UID)), metav1.GetOptions{})
		if err != nil {
			return err
		}
		claim, err := g.admin.CoreV1().PersistentVolumeClaims("default").Get(g.t.Context(), g.claim.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		said := ""
		for _, c := range claim.Status.Conditions {
			if c.Type == corev1.PersistentVolumeClaimControllerResizeError {
				said = c.Message
			}
		}
		s := claim.Status
		got := fmt.Sprintf("%s %s %s %q %q", text(v.Spec.Capacity), text(s.Capacity), text(s.AllocatedResources), s.AllocatedResourceStatuses[corev1.ResourceStorage], said)
		if want := fmt.Sprintf("%s %s %s %q %q", volume, capacity, allocated, status, failure); got != want {
			return fmt.Errorf("there is %s, want %s", got, want)
		}
		return nil
	})
}

func text(list corev1.ResourceList) string {
	size, ok := list[corev1.ResourceStorage]
	if !ok {
		return ""
	}
	return size.String()
}

func (g *growth) told(reason, message string) {
	g.t.Helper()
	eventually(g.t, func() error {
		events, err := g.admin.CoreV1().Events("default").List(g.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(g.claim.UID) + ",reason=" + reason})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Message == message {
				return nil
			}
		}
		return fmt.Errorf("no event %s %q in %v", reason, message, events.Items)
	})
}
