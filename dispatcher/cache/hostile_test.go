package cache

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/resize"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// A text of one object that reads like another's is a text, wherever it stands.
func TestTellsTextsApart(t *testing.T) {
	var l transformer
	transformed(t, &l, fullVolume(dispatchertest.UID))
	class := "silver"
	transformed(t, &l, &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class}})
	for _, hostile := range []string{"class/silver", "mode/Filesystem", "modes/ReadWriteOnce\x00", "sizes/storage=1Gi\x00", "list/" + contract.VolumeFinalizer, "pairs/"} {
		v := fullVolume(dispatchertest.UID)
		v.Spec.ClaimRef.Namespace = hostile
		if got := transformed(t, &l, v).Spec.ClaimRef.Namespace; got != hostile {
			t.Errorf("namespace %q became %q", hostile, got)
		}
	}
}

// Annotations of one claim that read like those of another stay its own.
func TestKeepsAnnotationsApart(t *testing.T) {
	var l transformer
	const a, b, c = contract.AnnCloneOf, contract.AnnCloneRequest, observed.AnnSelectedNode
	for _, annotations := range []map[string]string{
		{a: "p", b: "n"},
		{a: "p1 " + b + "n"},
		{a: "p 1", b: "n"},
		{a: "p1", b: "n"},
		{a: "", b: "n"},
		{b: "n"},
		{a: "p", b: "n", c: ""},
	} {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
		want := map[string]string{}
		for key, value := range annotations {
			want[key] = value
		}

		if got := transformed(t, &l, claim).Annotations; !reflect.DeepEqual(got, want) {
			t.Errorf("annotations %q became %q", want, got)
		}
	}
}

// A claim may have as many access modes as fit into a request. They are as many as there are kinds of them afterwards.
func TestManyModes(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{}
	for range 20_000 {
		claim.Spec.AccessModes = append(claim.Spec.AccessModes, corev1.ReadWriteOnce, corev1.ReadOnlyMany)
	}

	var l transformer
	began := time.Now()
	got := transformed(t, &l, claim).Spec.AccessModes
	if took := time.Since(began); took > time.Second/4 {
		t.Errorf("it took %s", took)
	}

	if want := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadOnlyMany}; !reflect.DeepEqual(got, want) {
		t.Errorf("access modes are %v, want %v", got, want)
	}
}

// fuzzed reads an object of a kind from JSON, nil where it is none.
func fuzzed(kind byte, text []byte) any {
	objects := []any{&corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, &corev1.Event{}, &storagev1.StorageClass{}, &corev1.ConfigMap{},
		&admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}}
	object := objects[int(kind)%len(objects)]
	if json.Unmarshal(text, object) != nil {
		return nil
	}

	return object
}

// FuzzTransform gives informers arbitrary objects. Nothing of one shows in another, twice is the same as once, and what the
// indexes and the dispatcher's decisions read can be read.
func FuzzTransform(f *testing.F) {
	for kind, text := range []string{
		`{"metadata":{"name":"prov-x-0","annotations":{"flex-provisioner.io/request":"{"}},"status":{"phase":"Failed","containerStatuses":[{"name":"x"}]}}`,
		`{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":"a\u0000b=c"}},"spec":{"accessModes":["ReadWriteOnce","x","x"],"resources":{"requests":{"storage":"1e3"}}}}`,
		`{"metadata":{"name":"pvc-1","annotations":{"flex-provisioner.io/record":"00","record verified":"true"}},"spec":{"claimRef":{"namespace":"class/silver","uid":"1"},"capacity":{"storage":"1Gi","x":"2"}}}`,
		`{"reason":"FailedMount","message":"x","involvedObject":{"name":"prov-x-0"}}`,
		`{"parameters":{"":""}}`, `{"data":{"reason":"x"}}`, `{"spec":{"matchConstraints":null}}`, `{"spec":{"validationActions":[""]}}`,
	} {
		f.Add(byte(kind), []byte(text), []byte(`{"spec":{"capacity":{"storage":"1000k"},"resources":{"requests":{"storage":"1000"}}}}`))
		f.Add(byte(kind), []byte(text), []byte(`{"metadata":{"name":"pvc-2"},"spec":{"claimRef":{"namespace":"silver"},"accessModes":["ReadWriteMany"]}}`))
	}

	used := &transformer{key: dispatchertest.Key} // it has seen all others before
	f.Fuzz(func(t *testing.T, kind byte, text, others []byte) {
		object, again := fuzzed(kind, text), fuzzed(kind, text)
		if object == nil {
			return
		}

		for i := range byte(8) {
			if other := fuzzed(i, others); other != nil {
				transformed(t, used, other)
			}
		}

		fresh, got := transformed(t, &transformer{key: dispatchertest.Key}, again), transformed(t, used, object)
		// Of two spellings of one size the first may stay, so that only their JSON is the same.
		alone, err := json.Marshal(fresh)
		if err != nil {
			return // a quantity that JSON cannot carry
		}

		if was, err := json.Marshal(got); err != nil || string(was) != string(alone) {
			t.Fatalf("beside others it is\n%s\nand alone\n%s (%v)", was, alone, err)
		}

		if twice, err := json.Marshal(transformed(t, used, got)); err != nil || string(twice) != string(alone) {
			t.Fatalf("a second time it becomes\n%s\nof\n%s (%v)", twice, alone, err)
		}

		switch o := got.(type) {
		case *corev1.PersistentVolumeClaim:
			sourceOf(o)
			resize.Needed(o)
		case *corev1.PersistentVolume:
			(&Cache{provisioner: "p"}).dueClass(o)
			s := &observed.Claim{Volume: o, Config: &configmaps.Config{}}
			s.VolumeIdentity()
			if _, written := o.Annotations[podspec.Verified]; podspec.Recorded(o) && !strings.Contains(string(text), podspec.Verified) && written {
				t.Error("a record was forged")
			}
		case *corev1.Pod:
			observed.NewAttempt(o, "")
		}
	})
}
