package dispatcher

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// A text of one object that reads like another's is a text, wherever it stands.
func TestLeanTellsTextsApart(t *testing.T) {
	var l lean
	transformed(t, &l, fullVolume(uid))
	class := "silver"
	transformed(t, &l, &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class}})
	for _, hostile := range []string{"class/silver", "mode/Filesystem", "modes/ReadWriteOnce\x00", "sizes/storage=1Gi\x00", "list/" + contract.VolumeFinalizer, "pairs/"} {
		v := fullVolume(uid)
		v.Spec.ClaimRef.Namespace = hostile
		if got := transformed(t, &l, v).Spec.ClaimRef.Namespace; got != hostile {
			t.Errorf("namespace %q became %q", hostile, got)
		}
	}
}

// Annotations of one claim that read like those of another stay its own.
func TestLeanKeepsAnnotationsApart(t *testing.T) {
	var l lean
	for _, annotations := range []map[string]string{
		{annStorageProvisioner: "p", annSelectedNode: "n"},
		{annSelectedNode: "n\x00" + annStorageProvisioner + "=p"},
		{annStorageProvisioner: "p", annBetaStorageProvisioner: "n"},
		{annStorageProvisioner: "", annSelectedNode: "n"},
		{annSelectedNode: "n"},
		{annStorageProvisioner: "p", annSelectedNode: "n", "mine": "x"},
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
func TestLeanManyModes(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{}
	for range 20_000 {
		claim.Spec.AccessModes = append(claim.Spec.AccessModes, corev1.ReadWriteOnce, corev1.ReadOnlyMany)
	}
	var l lean
	began := time.Now()
	got := transformed(t, &l, claim).Spec.AccessModes
	if took := time.Since(began); took > time.Second/4 {
		t.Errorf("it took %s", took)
	}
	if want := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadOnlyMany}; !reflect.DeepEqual(got, want) {
		t.Errorf("access modes are %v, want %v", got, want)
	}
}

// A claim whose access modes nobody knows stays refused, however many it has and wherever among them they are.
func TestLeanRefusesUnknownModes(t *testing.T) {
	known := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOncePod}
	config := &configmaps.Config{StorageClass: "silver", AccessModes: known, VolumeModes: []corev1.PersistentVolumeMode{corev1.PersistentVolumeFilesystem}}
	for _, unknown := range []int{1, 5, 1000} {
		claim := &corev1.PersistentVolumeClaim{}
		claim.Spec.AccessModes = append(claim.Spec.AccessModes, known...)
		for i := range unknown {
			claim.Spec.AccessModes = append(claim.Spec.AccessModes, corev1.PersistentVolumeAccessMode(fmt.Sprint("Odd", i)))
		}
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		faults := refusals(transformed(t, &lean{}, claim), config)
		if want := "spec.accessModes has Odd0: class silver offers ReadWriteOnce, ReadOnlyMany, ReadWriteMany, ReadWriteOncePod"; len(faults) == 0 || faults[0] != want || len(faults) > 8 {
			t.Errorf("%d unknown modes: refused with %q, want %q first and no more than 8", unknown, faults, want)
		}
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
	used := &lean{key: testKey} // it has seen all others before
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
		fresh, got := transformed(t, &lean{key: testKey}, again), transformed(t, used, object)
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
			if _, err := indexOrigin(o); err != nil {
				t.Error(err)
			}
			cloneOf(o)
			unsettled(o)
			refusals(o, hostileFacts("").config)
		case *corev1.PersistentVolume:
			if _, err := indexDoomed("p")(o); err != nil {
				t.Error(err)
			}
			f := hostileFacts("")
			f.volume = o
			f.volumeIdentity()
			if _, written := o.Annotations[podspec.Verified]; podspec.Recorded(o) && !strings.Contains(string(text), podspec.Verified) && written {
				t.Error("a record was forged")
			}
		case *corev1.Pod:
			if _, err := indexClaimUID(o); err != nil {
				t.Error(err)
			}
			newAttempt(o, "")
		case *corev1.Event:
			newTroubles().note(o)
		}
	})
}
