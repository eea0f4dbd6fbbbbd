//go:build integration

package monitoring

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
	"github.com/flex-provisioner/flex-provisioner/test/kubelet"
)

// length is how long the run with faults takes at least. The run is counted in steps: a slow machine stretches it, and
// nothing of it is left out.
const length, step = 45 * time.Second, 250 * time.Millisecond

// deletes are how many delete pods have ended before an administrator stops deletions: two ends show a rate.
const deletes = 5

// class is a StorageClass, and what a run does with it.
type class struct {
	name   string
	data   map[string]string // of its ConfigMap, beside what each has
	claims int               // in the run, one after the other
	// end is how a pod ends that was created after this part of the run, and after how long.
	end func(part float64) (end, time.Duration)
}

// end is how a pod ends.
type end int

const (
	succeeds end = iota
	fails
	hangs   // until its deadline
	noImage // it never starts
)

func always(e end, after time.Duration) func(float64) (end, time.Duration) {
	return func(float64) (end, time.Duration) { return e, after }
}

var classes = []class{
	{name: "silver", claims: 40, end: always(succeeds, time.Second)},
	{name: "nfs", claims: 20, end: func(part float64) (end, time.Duration) {
		if part > 0.25 && part < 0.5 {
			return fails, time.Second // the server is away
		}
		return succeeds, 2 * time.Second
	}},
	{name: "archive", claims: 30, data: map[string]string{"max-concurrent": "1"}, end: func(float64) (end, time.Duration) {
		return succeeds, length / 15 // so that half of the claims have no turn
	}},
	{name: "cinder", claims: 3, data: map[string]string{"timeout": "20s"}, end: always(hangs, 0)},
	{name: "gold", claims: 2, data: map[string]string{"start-timeout": "1h"}, end: always(noImage, 0)},
}

// run plays kubelets and users.
type run struct {
	t      *testing.T
	server *apiserver.Server
	admin  kubernetes.Interface
	steps  int
	ends   map[types.UID]end           // of pods that were started
	due    map[types.UID]time.Duration // when their end is
	made   map[string]int              // claims of each class
	acts   int                         // of administrators, that were done
	gone   int                         // delete pods that have succeeded
}

// startRun starts the dispatcher at an API server, and Prometheus. Both run until the test ends.
func startRun(t *testing.T) (*run, prometheus) {
	t.Helper()
	dispatcher := apiserver.User{Name: "system:serviceaccount:" + contract.SystemNamespace + ":dispatcher",
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + contract.SystemNamespace}}
	server, err := apiserver.Start(t.Context(), []apiserver.User{dispatcher})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	r := &run{t: t, server: server, admin: server.Client(apiserver.Admin.Token()), ends: map[types.UID]end{}, due: map[types.UID]time.Duration{},
		made: map[string]int{}}
	if _, err := server.StartControllers("persistentvolume-binder-controller", "persistentvolumeclaim-protection-controller", "persistentvolume-protection-controller"); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Kubectl(t.Context(), "apply", "-k", "deploy/base"); err != nil {
		t.Fatal(err)
	}
	for _, c := range classes {
		r.makeClass(c)
	}
	return r, startPrometheus(t, r.startDispatcher(dispatcher))
}

// playFor plays for that long.
func (r *run) playFor(duration time.Duration) {
	r.t.Helper()
	tick := time.NewTicker(step)
	defer tick.Stop()

	for until := r.now() + duration; r.now() < until; <-tick.C {
		r.playUsers()
		r.playAdministrators()
		r.playPods()

		r.steps++
	}
}

// now is the time since the run's begin.
func (r *run) now() time.Duration { return time.Duration(r.steps) * step }

// part is how much of the run is over. It is more than 1 where the run goes on.
func (r *run) part() float64 { return r.now().Seconds() / length.Seconds() }

func (r *run) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// startDispatcher builds and starts the program that is shipped, and returns its address.
func (r *run) startDispatcher(as apiserver.User) string {
	r.t.Helper()
	binary, address := filepath.Join(r.t.TempDir(), "flex-provisioner"), freeAddress(r.t)
	build := exec.CommandContext(r.t.Context(), "go", "build", "-o", binary, "./cmd/flex-provisioner")
	build.Dir = apiserver.Repo()
	if out, err := build.CombinedOutput(); err != nil {
		r.t.Fatalf("build the dispatcher: %v\n%s", err, out)
	}
	kubeconfig, err := r.server.KubeconfigOf(as)
	r.ok(err)
	start(r.t, binary, "--kubeconfig", kubeconfig, "--http-address", address, "--pod-kube-api", "https://10.96.0.1:443")
	awaitReady(r.t, "http://"+address+"/readyz")
	return address
}

func (r *run) makeClass(c class) {
	r.t.Helper()
	ctx := r.t.Context()
	_, err := r.admin.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: c.name}, Provisioner: contract.ProvisionerName}, metav1.CreateOptions{})
	r.ok(err)
	_, err = r.admin.CoreV1().ServiceAccounts(contract.ProvisionersNamespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: c.name}}, metav1.CreateOptions{})
	r.ok(err)
	r.patchMap(contract.SystemNamespace, "flex-pv-policy", map[string]string{c.name + ".storageClasses": c.name, c.name + ".volumeTypes": "nfs"})
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: c.name, Labels: map[string]string{"type": "provisioner-config", "storage-class": c.name}},
		Data:       map[string]string{"plugin-name": contract.ProvisionerName, "image": "registry.invalid/" + c.name, "service-account-name": c.name, "server": "10.99.0.1"},
	}
	for key, value := range c.data {
		cm.Data[key] = value
	}
	_, err = r.admin.CoreV1().ConfigMaps(contract.ProvisionersNamespace).Create(ctx, cm, metav1.CreateOptions{})
	r.ok(err)
}

func (r *run) patchMap(namespace, name string, data map[string]string) {
	r.t.Helper()
	patch, err := json.Marshal(map[string]any{"data": data})
	r.ok(err)
	_, err = r.admin.CoreV1().ConfigMaps(namespace).Patch(r.t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	r.ok(err)
}

// playUsers makes the claims of each class, and deletes those of silver that are bound, the oldest first.
func (r *run) playUsers() {
	r.t.Helper()
	claims := r.admin.CoreV1().PersistentVolumeClaims("default")
	for _, c := range classes {
		for ; float64(r.made[c.name]) < r.part()*float64(c.claims); r.made[c.name]++ {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", c.name, r.made[c.name])}, Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &c.name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}}
			if c.name == "silver" && r.made[c.name]%10 == 9 {
				claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "fast"}} // which its user has to take off
			}
			_, err := claims.Create(r.t.Context(), claim, metav1.CreateOptions{})
			r.ok(err)
		}
	}
	if bound := r.bound("silver"); len(bound) > 6 {
		r.ok(claims.Delete(r.t.Context(), bound[0].Spec.ClaimRef.Name, metav1.DeleteOptions{}))
	}
}

// bound are the volumes of a class whose claims are not being deleted, the oldest first.
func (r *run) bound(class string) []corev1.PersistentVolume {
	r.t.Helper()
	claims, err := r.admin.CoreV1().PersistentVolumeClaims("default").List(r.t.Context(), metav1.ListOptions{})
	r.ok(err)
	lives := map[string]bool{}
	for _, claim := range claims.Items {
		lives[claim.Spec.VolumeName] = claim.Status.Phase == corev1.ClaimBound && claim.DeletionTimestamp == nil
	}
	volumes, err := r.admin.CoreV1().PersistentVolumes().List(r.t.Context(), metav1.ListOptions{})
	r.ok(err)
	bound := slices.DeleteFunc(volumes.Items, func(v corev1.PersistentVolume) bool { return v.Spec.StorageClassName != class || !lives[v.Name] })
	slices.SortStableFunc(bound, func(a, b corev1.PersistentVolume) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return bound
}

// playAdministrators does what administrators do, by mistake or in need.
func (r *run) playAdministrators() {
	r.t.Helper()
	ctx := r.t.Context()
	bindings, maps := r.admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings(), r.admin.CoreV1().ConfigMaps(contract.ProvisionersNamespace)
	for _, act := range []struct {
		part float64
		do   func() bool
	}{
		{0.4, func() bool { // a slip in a ConfigMap
			r.patchMap(contract.ProvisionersNamespace, "silver", map[string]string{"timeout": "soon"})
			return true
		}},
		{0.5, func() bool {
			r.ok(bindings.Delete(ctx, "flex-pv-by-provisioner-pod", metav1.DeleteOptions{}))
			return true
		}},
		{0.6, func() bool {
			_, err := r.server.Kubectl(ctx, "apply", "-k", "deploy/policies")
			r.ok(err)
			return true
		}},
		{0.65, r.editVolume},
		{0.65, r.editVolume},
		{0.85, func() bool {
			if r.gone < deletes {
				return false
			}

			_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: contract.StopDeletes}, Data: map[string]string{"reason": "a backup is restored"}}, metav1.CreateOptions{})
			r.ok(err)
			return true
		}},
	}[r.acts:] {
		if r.part() < act.part || !act.do() {
			return
		}
		r.acts++
	}
}

// editVolume changes a volume's record, and deletes its claim. While the pods that made a volume are there, the dispatcher mends it.
func (r *run) editVolume() bool {
	r.t.Helper()
	pods, err := r.admin.CoreV1().Pods(contract.ProvisionersNamespace).List(r.t.Context(), metav1.ListOptions{})
	r.ok(err)
	for _, v := range r.bound("nfs") {
		made := func(pod corev1.Pod) bool {
			return pod.Labels[contract.LabelClaimUID] == v.Annotations[contract.AnnClaimUID]
		}
		if slices.ContainsFunc(pods.Items, made) {
			continue
		}
		v.Annotations[contract.AnnIdentity] = strings.ReplaceAll(v.Annotations[contract.AnnIdentity], "10.99.0.1", "10.99.0.2")
		_, err := r.admin.CoreV1().PersistentVolumes().Update(r.t.Context(), &v, metav1.UpdateOptions{})
		r.ok(err)
		r.ok(r.admin.CoreV1().PersistentVolumeClaims(v.Spec.ClaimRef.Namespace).Delete(r.t.Context(), v.Spec.ClaimRef.Name, metav1.DeleteOptions{}))
		return true
	}
	return false
}

// playPods does to pods what their nodes would.
func (r *run) playPods() {
	r.t.Helper()
	list, err := r.admin.CoreV1().Pods(contract.ProvisionersNamespace).List(r.t.Context(), metav1.ListOptions{})
	r.ok(err)
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		if _, known := r.ends[pod.UID]; !known {
			r.startPod(pod)
		} else if due, known := r.due[pod.UID]; known && r.now() > due {
			r.endPod(pod)
		}
	}
}

func (r *run) startPod(pod *corev1.Pod) {
	r.t.Helper()
	pods := r.admin.CoreV1().Pods(pod.Namespace)
	err := pods.Bind(r.t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"}}, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return // the dispatcher took it back
	}
	r.ok(err)
	for _, c := range classes {
		if c.name != pod.Annotations[contract.AnnClass] {
			continue
		}
		end, after := c.end(r.part())
		if r.ends[pod.UID] = end; end == noImage {
			r.setStatus(pod, corev1.PodStatus{Phase: corev1.PodPending}, corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image"}})
			return
		}
		if end == hangs {
			after = time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second
		}
		r.due[pod.UID] = r.now() + after
		r.setStatus(pod, corev1.PodStatus{Phase: corev1.PodRunning}, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}})
	}
}

func (r *run) endPod(pod *corev1.Pod) {
	r.t.Helper()
	ended := &corev1.ContainerStateTerminated{FinishedAt: metav1.Now()}
	status := corev1.PodStatus{Phase: corev1.PodFailed}
	switch r.ends[pod.UID] {
	case succeeds:
		status.Phase = corev1.PodSucceeded
		if pod.Labels[contract.LabelOperation] == string(contract.Provision) {
			r.makeVolume(pod)
		} else {
			r.gone++
		}
	case fails:
		ended.ExitCode, ended.Message = 1, "the server 10.99.0.1 does not answer"
	case hangs:
		status.Reason, ended.ExitCode = "DeadlineExceeded", 137
	}
	r.setStatus(pod, status, corev1.ContainerState{Terminated: ended})
}

func (r *run) setStatus(pod *corev1.Pod, status corev1.PodStatus, state corev1.ContainerState) {
	r.t.Helper()
	err := kubelet.SetStatus(r.t.Context(), r.admin, pod, status, state)
	if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		r.ok(err)
	}
}

// makeVolume creates the pod's volume as the pod would, so that the admission policies see what they would see of its token.
func (r *run) makeVolume(pod *corev1.Pod) {
	r.t.Helper()
	config := r.server.Config(apiserver.Admin.Token())
	config.Impersonate = kubelet.Identity(pod)
	volume, err := kubelet.Volume(pod, "10.99.0.1", "/"+pod.Name)
	r.ok(err)
	_, err = kubernetes.NewForConfigOrDie(config).CoreV1().PersistentVolumes().Create(r.t.Context(), volume, metav1.CreateOptions{})
	r.ok(err)
}
