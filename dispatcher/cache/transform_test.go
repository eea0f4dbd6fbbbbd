package cache

import (
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

func fullVolume(name string) *corev1.PersistentVolume {
	mode := corev1.PersistentVolumeFilesystem

	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + name, UID: "v", ResourceVersion: "7", Finalizers: []string{contract.VolumeFinalizer},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}, Labels: map[string]string{"team": "a"},
			Annotations: map[string]string{contract.ProvisionedBy: "p", contract.AnnClaimUID: name, contract.AnnIdentity: "{}", "pv.kubernetes.io/bound-by-controller": "yes"}},
		Spec: corev1.PersistentVolumeSpec{StorageClassName: "silver", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeMode: &mode,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete, MountOptions: []string{"ro"}, NodeAffinity: &corev1.VolumeNodeAffinity{},
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/" + name}},
			ClaimRef:               &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "team-a", Name: "data", UID: types.UID(name), ResourceVersion: "5"}},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
}

func transformed[T any](t *testing.T, l *transformer, obj T) T {
	t.Helper()
	out, err := l.transform(obj)
	if err != nil {
		t.Fatal(err)
	}

	return out.(T)
}

// A volume keeps what decide and the library read, shares it with others, and has of its source only the kind.
func TestVolume(t *testing.T) {
	var l transformer
	got, other := transformed(t, &l, fullVolume(dispatchertest.UID)), transformed(t, &l, fullVolume("22222222-2222-3333-4444-555555555555"))
	want := fullVolume(dispatchertest.UID)
	want.ManagedFields, want.Labels, want.Spec.MountOptions, want.Spec.NodeAffinity = nil, nil, nil, nil
	want.Annotations = map[string]string{contract.ProvisionedBy: "p", contract.AnnIdentity: "{}"}
	want.Spec.NFS = &corev1.NFSVolumeSource{}
	want.Spec.ClaimRef.Kind, want.Spec.ClaimRef.ResourceVersion = "", ""
	quantity := want.Spec.Capacity[corev1.ResourceStorage]
	if has := got.Spec.Capacity[corev1.ResourceStorage]; has.Cmp(quantity) != 0 {
		t.Errorf("capacity is %s", has.String())
	}

	want.Spec.Capacity = got.Spec.Capacity
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}

	if reflect.ValueOf(got.Annotations).Pointer() != reflect.ValueOf(other.Annotations).Pointer() ||
		reflect.ValueOf(got.Spec.Capacity).Pointer() != reflect.ValueOf(other.Spec.Capacity).Pointer() || got.Spec.VolumeMode != other.Spec.VolumeMode {
		t.Error("two volumes of one class do not share their annotations, sizes and modes")
	}
}

// Of a volume whose claim pods can mount, and of one that no pod made, the source stays as text, however often it is
// transformed.
func TestSourceAsText(t *testing.T) {
	l := transformer{namespace: "ns"}
	made := podspec.VolumeName(dispatchertest.UID)
	for _, c := range []struct{ name, namespace, want string }{
		{made, "ns", "nfs://s/a"}, {made, "team-a", ""}, {"by-hand", "ns", "nfs://s/a"}, {"by-hand", "team-a", "nfs://s/a"},
	} {
		v := fullVolume("a")
		v.Name, v.Spec.ClaimRef.Namespace = c.name, c.namespace
		for range 2 {
			v = transformed(t, &l, v)
			if got := v.Annotations[podspec.SourceText]; got != c.want || v.Spec.NFS.Server != "" {
				t.Errorf("of volume %s of a claim in %s the source is %q, want %q", c.name, c.namespace, got, c.want)
			}
		}
	}
}

// A claim that is bound keeps what an expansion or a clone asks for; one that is not keeps what a volume is made by.
func TestClaim(t *testing.T) {
	make := func(phase corev1.PersistentVolumeClaimPhase, volume string) *corev1.PersistentVolumeClaim {
		class := "silver"

		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "data", UID: dispatchertest.UID, Labels: map[string]string{"app": "x"},
				Annotations: map[string]string{contract.AnnCloneOf: "team-a/a", observed.AnnSelectedNode: "node1", corev1.LastAppliedConfigAnnotation: "{}"}},
			Spec: corev1.PersistentVolumeClaimSpec{VolumeName: volume, StorageClassName: &class,
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}}},
			Status: corev1.PersistentVolumeClaimStatus{Phase: phase},
		}
	}
	var l transformer
	bound := transformed(t, &l, make(corev1.ClaimBound, "pvc-"+dispatchertest.UID))
	if want := map[string]string{contract.AnnCloneOf: "team-a/a"}; !reflect.DeepEqual(bound.Annotations, want) || bound.Labels != nil {
		t.Errorf("bound: annotations %v, labels %v, want %v and none", bound.Annotations, bound.Labels, want)
	}

	if bound.UID != dispatchertest.UID || *bound.Spec.StorageClassName != "silver" || bound.Spec.Resources.Requests.Storage().String() != "2Gi" {
		t.Errorf("bound: %+v", bound)
	}

	waiting := transformed(t, &l, make(corev1.ClaimPending, ""))
	want := map[string]string{contract.AnnCloneOf: "team-a/a", observed.AnnSelectedNode: "node1"}
	if !reflect.DeepEqual(waiting.Annotations, want) || waiting.Labels != nil {
		t.Errorf("waiting: annotations %v, labels %v, want %v and none", waiting.Annotations, waiting.Labels, want)
	}
}

// What keeps a claim from being served stays, as far as it says that. What is too long for a name stays as a text that
// is none.
func TestRefusedClaim(t *testing.T) {
	long := strings.Repeat("x", 1000)
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "data",
			Annotations: map[string]string{corev1.BetaStorageClassAnnotation: long}},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: new("silver"), VolumeAttributesClassName: new("fast"),
			Selector:   &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			DataSource: &corev1.TypedLocalObjectReference{APIGroup: new("g"), Kind: "Kind", Name: long},
			DataSourceRef: &corev1.TypedObjectReference{APIGroup: new(long), Kind: "Kind", Name: "name",
				Namespace: new("other")}},
	}
	short := strings.Repeat("x", longestName-3) + "..."
	want := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "data",
			Annotations: map[string]string{corev1.BetaStorageClassAnnotation: short}},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: new("silver"), VolumeAttributesClassName: new("fast"),
			Selector:   &metav1.LabelSelector{},
			DataSource: &corev1.TypedLocalObjectReference{APIGroup: new("g"), Kind: "Kind", Name: short},
			DataSourceRef: &corev1.TypedObjectReference{APIGroup: new(short), Kind: "Kind", Name: "name",
				Namespace: new("other")}},
	}
	var l transformer
	for range 2 {
		if claim = transformed(t, &l, claim); !reflect.DeepEqual(claim, want) {
			t.Fatalf("got\n%+v\nwant\n%+v", claim, want)
		}
	}
}

// A pod keeps the record of its attempt, and what its outcome is judged by.
func TestPod(t *testing.T) {
	pod := dispatchertest.Pod("prov-0 failed", dispatchertest.Noon, dispatchertest.Noon)
	pod.Annotations[contract.AnnVolume], pod.Annotations[contract.AnnScript] = "kind: PersistentVolume", "true"
	pod.Spec.Containers = []corev1.Container{{Name: "provisioner"}}
	pod.Spec.NodeName = "node1"
	want := observed.NewAttempt(pod.DeepCopy(), "")
	got := observed.NewAttempt(transformed(t, &transformer{}, pod), "")
	if got.Outcome != want.Outcome {
		t.Errorf("the outcome is\n%+v\nwant\n%+v", got.Outcome, want.Outcome)
	}

	delete(want.Pod.Annotations, contract.AnnVolume)
	delete(want.Pod.Annotations, contract.AnnScript)
	if !reflect.DeepEqual(got.Pod.Annotations, want.Pod.Annotations) || !reflect.DeepEqual(got.Pod.Finalizers, want.Pod.Finalizers) {
		t.Errorf("got %v %v", got.Pod.Annotations, got.Pod.Finalizers)
	}

	if got.Pod.Spec.Containers != nil {
		t.Error("containers are kept")
	}
}

// A pod that no node takes keeps which can take it, until one does.
func TestPodWithoutNode(t *testing.T) {
	for _, c := range []struct {
		state, label          string
		affinity, tolerations bool
	}{
		{"unschedulable", corev1.LabelHostname, true, true},
		{"unschedulable", "zone", true, false}, // no event says what single nodes have
		{"running", corev1.LabelHostname, false, false},
	} {
		pod := dispatchertest.Pod("del-0 "+c.state, dispatchertest.Noon, dispatchertest.Noon)
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
		pod.Spec.NodeSelector = map[string]string{c.label: "a"}
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}

		spec := transformed(t, &transformer{}, pod).Spec
		if got := spec.Affinity != nil; got != c.affinity {
			t.Errorf("%s: the affinity is %v, kept should be %t", c.state, spec.Affinity, c.affinity)
		}

		if selector, tolerations := spec.NodeSelector != nil, spec.Tolerations != nil; selector != c.tolerations || tolerations != c.tolerations {
			t.Errorf("%s, %s: %v and %v, kept should be %t", c.state, c.label, spec.NodeSelector, spec.Tolerations, c.tolerations)
		}
	}
}

// An object that comes a second time is not written to where it shares with others, which are being read by then. The race
// detector sees that.
func TestTwice(t *testing.T) {
	waiting := func() *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", Annotations: map[string]string{
			observed.AnnSelectedNode: "node-1", corev1.LastAppliedConfigAnnotation: "{}"}}}
	}
	for name, objects := range map[string][2]metav1.Object{
		"volume":        {fullVolume(dispatchertest.UID), fullVolume("22222222-2222-3333-4444-555555555555")},
		"waiting claim": {waiting(), waiting()},
	} {
		t.Run(name, func(t *testing.T) {
			var l transformer
			cached, again := transformed(t, &l, objects[0]), transformed(t, &l, objects[1])
			before := reflect.ValueOf(again.GetAnnotations()).Pointer()
			if before != reflect.ValueOf(cached.GetAnnotations()).Pointer() {
				t.Fatal("the two do not share their annotations")
			}

			read := make(chan struct{})
			go func() {
				defer close(read)

				_ = cached.GetAnnotations()[contract.ProvisionedBy]
			}()
			transformed(t, &l, again)
			<-read
			if reflect.ValueOf(again.GetAnnotations()).Pointer() != before {
				t.Error("it no longer shares its annotations")
			}
		})
	}
}

// Of events only those stay whole that say why a pod does not start, and of these what is read.
func TestEvent(t *testing.T) {
	full := func(reason string) *corev1.Event {
		return &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "flex-provisioners", Name: "prov-1.17b", UID: "e", ResourceVersion: "7", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "flex-provisioners", Name: "prov-1", UID: "p", FieldPath: "spec"},
			Reason:         reason, Message: "secret not found", Source: corev1.EventSource{Component: "kubelet"}, Type: corev1.EventTypeWarning, Count: 3,
		}
	}
	var l transformer
	meta := metav1.ObjectMeta{Namespace: "flex-provisioners", Name: "prov-1.17b", UID: "e", ResourceVersion: "7"}
	for reason, want := range map[string]*corev1.Event{
		"MissingClusterDNS": {ObjectMeta: meta},
		"FailedMount": {ObjectMeta: meta, Reason: "FailedMount", Message: "secret not found",
			InvolvedObject: corev1.ObjectReference{Name: "prov-1", UID: "p"}},
	} {
		if got := transformed(t, &l, full(reason)); !reflect.DeepEqual(got, want) {
			t.Errorf("of %s stays\n%+v\nwant\n%+v", reason, got, want)
		}
	}
}

// Of what the kubelet says of a pod, the last counts, until the events are gone.
func TestPodProblem(t *testing.T) {
	c, err := New(kubernetes.NewForConfigOrDie(&rest.Config{}), "ns", "p", dispatchertest.Key) // makes no request
	if err != nil {
		t.Fatal(err)
	}

	event := func(name, pod, reason, message string, after time.Duration) *corev1.Event {
		e, err := (&transformer{}).transform(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Reason: reason, Message: message,
			LastTimestamp: metav1.NewTime(dispatchertest.Noon.Add(after)), InvolvedObject: corev1.ObjectReference{Name: "prov-x-0", UID: types.UID(pod)}})
		if err != nil {
			t.Fatal(err)
		}

		return e.(*corev1.Event)
	}
	store := c.PodEvents.GetIndexer()
	for _, step := range []struct {
		name string
		do   func() error
		want string
	}{
		{"no event", func() error { return nil }, ""},
		{"of something else", func() error { return store.Add(event("a", "pod", "MissingClusterDNS", "x", 0)) }, ""},
		{"of a problem", func() error { return store.Add(event("b", "pod", "FailedMount", "secret \"login\"\nnot found", 0)) }, `FailedMount: secret "login" not found`},
		{"of a kubelet that is behind", func() error {
			return store.Add(event("e", "pod", "FailedMount", `MountVolume.SetUp failed for volume "secret-0" : failed to sync secret cache: timed out waiting for the condition`, time.Minute))
		}, `FailedMount: secret "login" not found`},
		{"of an API server that is behind", func() error {
			return store.Add(event("f", "pod", "FailedMount", `MountVolume.SetUp failed for volume "identity" : failed to fetch token: serviceaccounts "silver" is forbidden: `+
				`User "system:node:node3" cannot create resource "serviceaccounts/token" in API group "" in the namespace "ns": node: no relationship found between node 'node3' and this object`, time.Minute))
		}, `FailedMount: secret "login" not found`},
		{"of another pod", func() error { return store.Add(event("c", "other", "FailedMount", "x", time.Minute)) }, `FailedMount: secret "login" not found`},
		{"of a later problem", func() error { return store.Add(event("d", "pod", "FailedMapVolume", "y", time.Second)) }, "FailedMapVolume: y"},
		{"rewritten as another pod's", func() error { return store.Update(event("d", "third", "FailedMapVolume", "y", time.Second)) }, `FailedMount: secret "login" not found`},
		{"the event is gone", func() error { return store.Delete(event("b", "pod", "FailedMount", "", 0)) }, ""},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}

		if got := c.PodProblem("pod"); got != step.want {
			t.Errorf("%s: the problem is %q, want %q", step.name, got, step.want)
		}
	}
}
