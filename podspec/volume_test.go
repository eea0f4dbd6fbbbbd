package podspec

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// pair is a claim and a volume that serves it.
func pair() (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "1"}}
	claim.Spec = corev1.PersistentVolumeClaimSpec{StorageClassName: new("silver"), VolumeName: "pvc-1",
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}}}
	claim.Status.Phase = corev1.ClaimPending
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", UID: "v", ResourceVersion: "7",
		Annotations: map[string]string{contract.ProvisionedBy: "p"}, Finalizers: []string{contract.VolumeFinalizer}}}
	v.Spec = corev1.PersistentVolumeSpec{StorageClassName: "silver", AccessModes: claim.Spec.AccessModes,
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")},
		ClaimRef:                      &corev1.ObjectReference{Namespace: "ns", Name: "data", UID: "1"}}
	v.Status.Phase = corev1.VolumeAvailable

	return claim, v
}

// sized has the claim ask for a size, and the volume have one.
func sized(asked, has string) func(*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	return func(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
		claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(asked)
		v.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse(has)
	}
}

func TestMisfits(t *testing.T) {
	gold := map[string]string{corev1.BetaStorageClassAnnotation: "gold"}
	for name, c := range map[string]struct {
		change func(*corev1.PersistentVolumeClaim, *corev1.PersistentVolume)
		want   string
	}{
		"nothing": {func(*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {}, ""},
		"larger": {func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
			v.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("3Gi")
		}, ""},
		"more modes": {func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
			v.Spec.AccessModes = append(v.Spec.AccessModes, corev1.ReadOnlyMany)
		}, ""},
		"no claim": {func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil }, "spec.claimRef is missing"},
		"another namespace": {func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) { v.Spec.ClaimRef.Namespace = "x" },
			`spec.claimRef is x/data with UID "1", not ns/data with UID "1"`},
		"another name": {func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) { v.Spec.ClaimRef.Name = "x" },
			`spec.claimRef is ns/x with UID "1", not ns/data with UID "1"`},
		"another UID": {func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "2" },
			`spec.claimRef is ns/data with UID "2", not ns/data with UID "1"`},
		"another class": {func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) { v.Spec.StorageClassName = "gold" },
			`spec.storageClassName is "gold", not "silver"`},
		"given to another class by an administrator": {func(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
			claim.Status.Phase, v.Spec.StorageClassName, v.Annotations = corev1.ClaimBound, "gold", map[string]string{contract.AnnAdoptedFrom: "{}"}
		}, ""},
		"given to another class and not bound": {func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
			v.Spec.StorageClassName, v.Annotations = "gold", map[string]string{contract.AnnAdoptedFrom: "{}"}
		}, `spec.storageClassName is "gold", not "silver"`},
		"another class by annotation": {func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) { v.Annotations = gold },
			`spec.storageClassName is "gold", not "silver"`},
		"a claim of another class by annotation": {func(claim *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) { claim.Annotations = gold },
			`spec.storageClassName is "silver", not "gold"`},
		"a claim of no class": {func(claim *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
			claim.Spec.StorageClassName = nil
		},
			`spec.storageClassName is "silver", not ""`},
		"smaller": {sized("2Gi", "1Gi"), "spec.capacity.storage is 1Gi, less than the 2Gi that the claim asks for"},
		"smaller and bound: an expansion": {func(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
			claim.Status.Phase, v.Spec.Capacity[corev1.ResourceStorage] = corev1.ClaimBound, resource.MustParse("1Gi")
		}, ""},
		"smaller, and the claim is bound to another": {func(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
			claim.Status.Phase, claim.Spec.VolumeName, v.Spec.Capacity[corev1.ResourceStorage] = corev1.ClaimBound, "pvc-2", resource.MustParse("1Gi")
		}, "spec.capacity.storage is 1Gi, less than the 2Gi that the claim asks for"},
		"a whole disk":       {sized("2Gi", "64Ti"), ""},
		"larger than a disk": {sized("2Gi", "4Ei"), "spec.capacity.storage is 4Ei, more than 64Ti, the most for the 2Gi that the claim asks for"},
		"larger than a disk and bound": {func(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
			claim.Status.Phase, v.Spec.Capacity[corev1.ResourceStorage] = corev1.ClaimBound, resource.MustParse("8Ei")
		}, ""},
		"16 times what is asked":                 {sized("1Pi", "16Pi"), ""},
		"17 times what is asked":                 {sized("1Pi", "17Pi"), "spec.capacity.storage is 17Pi, more than 16Pi, the most for the 1Pi that the claim asks for"},
		"16 times what is asked, beyond 64 bits": {sized("2Ei", "32Ei"), ""},
		"a mode is missing": {func(claim *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
			claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteMany}
		}, "spec.accessModes lacks ReadWriteMany"},
		"a block device": {func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
			v.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
		}, "spec.volumeMode is Block, not Filesystem"},
		"deleted": {func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
			v.DeletionTimestamp = &metav1.Time{}
		},
			"somebody deleted it before it was bound"},
		"deleted for its fault": {func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
			v.DeletionTimestamp, v.Spec.ClaimRef = &metav1.Time{}, nil
		}, "spec.claimRef is missing"},
		"deleted when bound": {func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
			v.DeletionTimestamp, v.Status.Phase = &metav1.Time{}, corev1.VolumeBound
		}, ""},
	} {
		claim, v := pair()
		c.change(claim, v)
		if got := strings.Join(Misfits(v, claim), "; "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestBound(t *testing.T) {
	for name, change := range map[string]func(*corev1.PersistentVolumeClaim, *corev1.PersistentVolume){
		"the claim is not bound": func(claim *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
			claim.Status.Phase = corev1.ClaimPending
		},
		"the claim is another's":       func(claim *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) { claim.Spec.VolumeName = "pvc-2" },
		"the volume has no claim":      func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil },
		"the volume has another claim": func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "2" },
	} {
		claim, v := pair()
		claim.Status.Phase = corev1.ClaimBound
		if !Bound(claim, v) {
			t.Fatal("a bound pair is not bound")
		}

		if change(claim, v); Bound(claim, v) {
			t.Errorf("%s: bound", name)
		}
	}
}

func TestRepairOf(t *testing.T) {
	record := map[string]string{contract.AnnRecord: "r"}
	retain, remove := corev1.PersistentVolumeReclaimRetain, corev1.PersistentVolumeReclaimDelete
	for name, c := range map[string]struct {
		change  func(*corev1.PersistentVolume)
		reclaim *corev1.PersistentVolumeReclaimPolicy
		record  map[string]string
		want    string
	}{
		"nothing":              {func(*corev1.PersistentVolume) {}, &remove, nil, ""},
		"the class is unknown": {func(*corev1.PersistentVolume) {}, nil, nil, ""},
		"another provisioner": {func(v *corev1.PersistentVolume) { v.Annotations[contract.ProvisionedBy] = "q" }, &remove, nil,
			`{"metadata":{"annotations":{"pv.kubernetes.io/provisioned-by":"p"},"uid":"v"}}`},
		"no record": {func(*corev1.PersistentVolume) {}, &remove, record,
			`{"metadata":{"annotations":{"flex-provisioner.io/record":"r"},"uid":"v"}}`},
		"no finalizer": {func(v *corev1.PersistentVolume) { v.Finalizers = []string{"theirs"} }, &remove, nil,
			`{"metadata":{"finalizers":["theirs","` + contract.VolumeFinalizer + `"],"resourceVersion":"7","uid":"v"}}`},
		"no finalizer, and it is being deleted": {func(v *corev1.PersistentVolume) {
			v.Finalizers, v.DeletionTimestamp = nil, &metav1.Time{}
		}, &remove, nil, ""},
		"retained by an administrator, no finalizer": {func(v *corev1.PersistentVolume) {
			v.Finalizers, v.Spec.PersistentVolumeReclaimPolicy = nil, retain
		}, &remove, nil, `{"metadata":{"finalizers":["` + contract.VolumeFinalizer + `"],"resourceVersion":"7","uid":"v"}}`},
		"another policy": {func(*corev1.PersistentVolume) {}, &retain, nil,
			`{"metadata":{"uid":"v"},"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`},
		"another policy, and released": {func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeReleased }, &retain, nil, ""},
	} {
		_, v := pair()
		c.change(v)
		got := ""
		if repair := RepairOf(v, c.reclaim, "p", c.record, ""); repair != nil {
			data, err := json.Marshal(repair.Patch)
			if err != nil {
				t.Fatal(err)
			}

			if got = string(data); len(repair.Faults) != 1 {
				t.Errorf("%s: faults %q", name, repair.Faults)
			}
		}

		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestRetainedIsKept: an administrator may have set the policy. It is told and not changed, until the volume is
// released.
func TestRetainedIsKept(t *testing.T) {
	remove := corev1.PersistentVolumeReclaimDelete
	_, v := pair()
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	repair := RepairOf(v, &remove, "p", nil, "")
	const kept = "spec.persistentVolumeReclaimPolicy is Retain, the class says Delete"
	if repair == nil || repair.Patch != nil || len(repair.Faults) > 0 || repair.Kept != kept {
		t.Errorf("the repair is %+v", repair)
	}

	v.Status.Phase = corev1.VolumeReleased
	if repair := RepairOf(v, &remove, "p", nil, ""); repair != nil {
		t.Errorf("released, the repair is %+v", repair)
	}
}

// TestRepairOfLocation: a volume of an image that does not know the annotation gets it, and nobody is blamed.
func TestRepairOfLocation(t *testing.T) {
	for written, faults := range map[string]int{"": 0, "east": 1} {
		_, v := pair()
		if written != "" {
			v.Annotations[contract.AnnLocation] = written
		}

		repair := RepairOf(v, nil, "p", nil, "west")
		if repair == nil || len(repair.Faults) != faults {
			t.Fatalf("of location %q the repair is %+v", written, repair)
		}

		if got, want := fmt.Sprint(repair.Patch), "map[metadata:map[annotations:map[flex-provisioner.io/location:west] uid:v]]"; got != want {
			t.Errorf("patch %s, want %s", got, want)
		}
	}
}

// TestRestored: only what was certainly made later than its pod ran comes from a backup.
func TestRestored(t *testing.T) {
	latest := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		before  string
		created time.Time
		want    bool
	}{
		{latest.Format(time.RFC3339), latest, false},
		{latest.Format(time.RFC3339), latest.Add(time.Second), true},
		{"", latest, false},
		{"yesterday", latest, false},
	} {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(c.created),
			Annotations: map[string]string{contract.AnnMadeBefore: c.before}}}
		if got := Restored(v); got != c.want {
			t.Errorf("made before %q, created %s: restored %t", c.before, c.created, got)
		}
	}
}

func TestIdentityOf(t *testing.T) {
	for frozen, want := range map[string]string{
		"":                            "map[]",
		`{"properties":{"pool":"a"}}`: "map[pool:a]",
		"{":                           "read annotation flex-provisioner.io/identity of volume pvc-1: unexpected end of JSON input",
	} {
		_, v := pair()
		v.Annotations[contract.AnnIdentity] = frozen
		identity, err := IdentityOf(v)
		got := fmt.Sprint(identity.Properties)
		if err != nil {
			got = err.Error()
		}

		if got != want {
			t.Errorf("%s: %s, want %s", frozen, got, want)
		}
	}
}

func TestClaimUIDOf(t *testing.T) {
	const uid = "11111111-2222-3333-4444-555555555555"
	for name, want := range map[string]string{"pvc-" + uid: uid, "pvc-" + uid + "0": "none", "pv-" + uid: "none", "xpvc-" + uid: "none", "pvc-backup": "none", "pvc-": "none"} {
		uid, ok := ClaimUIDOf(name)
		if !ok {
			uid = "none"
		}

		if uid != want {
			t.Errorf("%s: %q, want %q", name, uid, want)
		}
	}
}

// TestTooLarge: what the API server would refuse is refused before, with what makes it so large.
func TestTooLarge(t *testing.T) {
	config := &configmaps.Config{Name: "silver", PodAnnotations: map[string]string{}}
	size := func() int {
		annotations, err := annotationsOf(Attempt{Config: config})
		if err != nil {
			t.Fatal(err)
		}

		n := 0
		for key, value := range annotations {
			n += len(key) + len(value)
		}

		return n
	}
	config.PodAnnotations["a"] = strings.Repeat("x", maxAnnotations-size()-1)
	if n := size(); n != maxAnnotations {
		t.Fatalf("%d bytes, want the API server's limit of %d", n, maxAnnotations)
	}

	config.PodAnnotations["a"] += "x"
	if _, err := annotationsOf(Attempt{Config: config}); err == nil || !strings.HasPrefix(err.Error(), "request, volume, script and pod-annotations are 262145 bytes as annotations") {
		t.Errorf("one byte too many: %v", err)
	}
}

// The beta annotation of a claim is any text, and a class's name is the key of queues and log lines.
func TestLongClass(t *testing.T) {
	for length, want := range map[int]int{253: 253, contract.MaxClass: contract.MaxClass, 200 << 10: contract.MaxClass} {
		claim, _ := pair()
		claim.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: strings.Repeat("x", length)}
		if got := ClassOfClaim(claim); len(got) != want {
			t.Errorf("of a name of %d bytes %d stay, want %d", length, len(got), want)
		}
	}
}
