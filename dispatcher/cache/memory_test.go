package cache

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// wire is a Kubernetes object in the encoding in which caches get it.
type wire interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// decoded is the object as it comes from the API server: it shares nothing with others.
func decoded[T wire](t testing.TB, object, into T) T {
	t.Helper()
	data, err := object.Marshal()
	if err == nil {
		err = into.Unmarshal(data)
	}

	if err != nil {
		t.Fatal(err)
	}

	return into
}

// boundPair is a volume and its claim as a cluster has thousands of them.
func boundPair(t testing.TB, i int) (*corev1.PersistentVolume, *corev1.PersistentVolumeClaim) {
	uid, class, mode := fmt.Sprintf("00000000-0000-4000-8000-%012d", i), "silver", corev1.PersistentVolumeFilesystem
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: fmt.Sprintf("data-%d", i), UID: types.UID(uid), ResourceVersion: fmt.Sprint(1000 + i), CreationTimestamp: metav1.Now(),
			Finalizers: []string{"kubernetes.io/pvc-protection"}, Labels: map[string]string{"app": "x"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:accessModes":{}}}`)}},
			Annotations: map[string]string{"volume.kubernetes.io/storage-provisioner": "p", "volume.beta.kubernetes.io/storage-provisioner": "p",
				"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes", corev1.LastAppliedConfigAnnotation: "{}"}},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: podspec.VolumeName(uid), StorageClassName: &class, VolumeMode: &mode,
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}
	volume := fullVolume(uid)
	volume.UID, volume.ResourceVersion, volume.Spec.ClaimRef.Name = types.UID("volume-"+uid), fmt.Sprint(2000+i), claim.Name
	volume.Finalizers = append(volume.Finalizers, "kubernetes.io/pv-protection")
	volume.Annotations[contract.AnnIdentity] = `{"properties":{"use-nfs-server":"10.10.2.4","zone":"west"},"parameters":{"pool":"silver"}}`
	volume.Annotations[contract.AnnConfig] = "silver/123@0123456789abcdef"

	return decoded(t, volume, &corev1.PersistentVolume{}), decoded(t, claim, &corev1.PersistentVolumeClaim{})
}

// waitingPair is a claim that waits, and the pod that works on it.
func waitingPair(t testing.TB, i int) (*corev1.Pod, *corev1.PersistentVolumeClaim) {
	uid, class := fmt.Sprintf("00000000-0000-4000-8000-%012d", i), "silver"
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: fmt.Sprintf("data-%d", i), UID: types.UID(uid), ResourceVersion: fmt.Sprint(1000 + i), CreationTimestamp: metav1.Now(),
			Finalizers:  []string{"kubernetes.io/pvc-protection"},
			Annotations: map[string]string{"volume.kubernetes.io/storage-provisioner": "p", "volume.beta.kubernetes.io/storage-provisioner": "p"}},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
	pod, err := podspec.Build(podspec.Attempt{
		Request: contract.Request{Operation: contract.Provision, VolumeName: podspec.VolumeName(uid), Claim: contract.Claim{Namespace: "team-a", Name: claim.Name, UID: uid},
			StorageClass: class, SizeBytes: 1 << 30, AccessModes: []string{"ReadWriteOnce"}, VolumeMode: "Filesystem", Identity: contract.Identity{Properties: map[string]string{"zone": "west"}}},
		Config: &configmaps.Config{Name: "cm", StorageClass: class, Image: "example.com/one", Timeout: time.Minute},
	}, podspec.Cluster{Namespace: "flex-provisioners"})
	if err != nil {
		t.Fatal(err)
	}

	pod.UID, pod.ResourceVersion, pod.Status.Phase = types.UID("pod-"+uid), fmt.Sprint(2000+i), corev1.PodRunning

	return decoded(t, pod, &corev1.Pod{}), decoded(t, claim, &corev1.PersistentVolumeClaim{})
}

// The caches hold all claims and volumes of the cluster. 50,000 bound pairs have to fit into 200 MB, and 10,000 that wait into 120 MB,
// with all else. What they share they share beyond collections of garbage, of which there are many while the objects come.
func TestPairsAreSmall(t *testing.T) {
	for name, c := range map[string]struct {
		pair   func(i int) (metav1.Object, metav1.Object)
		atMost int64
	}{
		"bound":   {func(i int) (metav1.Object, metav1.Object) { return boundPair(t, i) }, 1700},
		"waiting": {func(i int) (metav1.Object, metav1.Object) { return waitingPair(t, i) }, 3000},
	} {
		t.Run(name, func(t *testing.T) {
			const many = 5000
			var l transformer
			kept := make([]metav1.Object, 0, 2*many)
			before := liveHeap()
			for i := range many {
				of, claim := c.pair(i)
				kept = append(kept, transformed(t, &l, of), transformed(t, &l, claim))
				if i%250 == 0 {
					runtime.GC()
				}
			}

			each := (liveHeap() - before) / many
			t.Logf("a pair takes %d bytes", each)
			if each > c.atMost {
				t.Errorf("a pair takes %d bytes, want %d at most", each, c.atMost)
			}

			runtime.KeepAlive(kept)
			runtime.KeepAlive(&l)
		})
	}
}

// oddClaim is different from all others in everything that is shared with others where it is the same.
func oddClaim(i int) *corev1.PersistentVolumeClaim {
	text := func(size int) string { return fmt.Sprintf("%d-%s", i, strings.Repeat("x", size)) }
	class, mode := text(3000), corev1.PersistentVolumeMode(text(200))
	sizes := corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(int64(i), resource.BinarySI), corev1.ResourceName(text(100)): resource.MustParse("1e30")}

	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: text(60), Name: text(200), Finalizers: []string{text(100), text(5000)},
			Annotations: map[string]string{"volume.kubernetes.io/storage-provisioner": text(1500), observed.AnnSelectedNode: text(250)}},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, VolumeMode: &mode, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.PersistentVolumeAccessMode(text(3000))},
			Resources: corev1.VolumeResourceRequirements{Requests: sizes}},
		Status: corev1.PersistentVolumeClaimStatus{Capacity: corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(int64(i), resource.BinarySI)}},
	}
}

// oddVolume is the same as a volume.
func oddVolume(i int) *corev1.PersistentVolume {
	claim := oddClaim(i)

	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: claim.Name, Finalizers: claim.Finalizers,
			Annotations: map[string]string{contract.ProvisionedBy: claim.Name, contract.AnnIdentity: claim.Namespace + strings.Repeat("y", 1000), contract.AnnConfig: claim.Name}},
		Spec: corev1.PersistentVolumeSpec{StorageClassName: *claim.Spec.StorageClassName, Capacity: claim.Status.Capacity, AccessModes: claim.Spec.AccessModes,
			VolumeMode: claim.Spec.VolumeMode, ClaimRef: &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name}},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.PersistentVolumePhase(claim.Namespace)},
	}
}

// liveHeap is what is left after a collection. Weak references and what hangs on cleanups take more than one.
func liveHeap() int64 {
	for range 4 {
		runtime.GC()
	}

	var m runtime.MemStats
	runtime.ReadMemStats(&m)

	return int64(m.HeapAlloc)
}

// large is a claim of somebody else's class, with so many bytes in each field that a tenant writes: those that nobody
// reads here, and those that somebody does.
func large(i, unread, read int) *corev1.PersistentVolumeClaim {
	text, name, class := strings.Repeat("x", unread), strings.Repeat("y", read), "others"
	many := make([]string, unread/64)
	for i := range many {
		many[i] = "text"
	}

	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: fmt.Sprintf("data-%d", i),
			UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)), ResourceVersion: "1",
			GenerateName: text, Labels: map[string]string{"label": text}, Finalizers: many,
			OwnerReferences: make([]metav1.OwnerReference, unread/256),
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: text}},
			Annotations: map[string]string{"text": text, corev1.LastAppliedConfigAnnotation: text,
				contract.AnnAllowDelete: text, contract.AnnCreatedByGroups: text,
				contract.AnnCloneRequest: name, observed.AnnSelectedNode: name,
				"volume.kubernetes.io/storage-provisioner": name}},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class,
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: resource.MustParse("1Gi"), corev1.ResourceName(text): resource.MustParse("1")}},
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"label": text},
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: text, Values: many}}},
			DataSource:    &corev1.TypedLocalObjectReference{Kind: name, Name: name},
			DataSourceRef: &corev1.TypedObjectReference{Kind: name, Name: name}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
	claim.Spec.VolumeName = name
	if i%2 == 0 {
		claim.Status.Phase = corev1.ClaimBound
	}

	return claim
}

// Claims of any class come to the caches. 2,000 of them with a megabyte in each field that nobody reads take as much
// as those with short texts. Where somebody reads the fields, what they take is bounded.
func TestLargeClaims(t *testing.T) {
	const many, megabyte, atMost = 2000, 1 << 20, 4 << 10
	taken := func(unread, read int) int64 {
		var l transformer
		kept := make([]metav1.Object, 0, many)
		before := liveHeap()
		for i := range many {
			kept = append(kept, transformed(t, &l, large(i, unread, read)))
		}

		grown := liveHeap() - before
		runtime.KeepAlive(kept)
		runtime.KeepAlive(&l)

		return grown
	}
	short, long, all := taken(10, 10), taken(megabyte, 10), taken(megabyte, megabyte)
	t.Logf("%d claims take %d bytes, %d with megabytes that nobody reads, and %d with megabytes in all fields", many,
		short, long, all)
	if long > short+short/5 {
		t.Errorf("%d claims take %d bytes, and %d with megabytes that nobody reads, want a fifth more at most", many,
			short, long)
	}

	if all > many*atMost {
		t.Errorf("a claim with megabytes in all fields takes %d bytes, want %d at most", all/many, atMost)
	}
}

// What thousands of odd objects brought goes with them. What stays shared is bounded, however many there have been.
func TestOddTextIsGivenUp(t *testing.T) {
	const many, atMost = 5000, 3 << 20 // of 130 MB
	var l transformer
	transformed(t, &l, fullVolume(dispatchertest.UID))
	before := liveHeap()
	for i := range many {
		transformed(t, &l, oddClaim(i))
		transformed(t, &l, oddVolume(i))
	}

	if grown := liveHeap() - before; grown > atMost {
		t.Errorf("%d bytes stay of %d odd claims and volumes, want %d at most", grown, many, atMost)
	}

	runtime.KeepAlive(&l)
}
