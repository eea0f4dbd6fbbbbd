package podspec

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

func TestRecord(t *testing.T) {
	key := RecordKey(bytes.Repeat([]byte{1}, MinRecordKey))
	for _, c := range []struct {
		name     string
		change   func(*corev1.PersistentVolume)
		key      RecordKey
		recorded bool
	}{
		{name: "as signed", change: func(*corev1.PersistentVolume) {}, recorded: true},
		{name: "with a label", change: func(v *corev1.PersistentVolume) { v.Labels = map[string]string{"a": "b"} }, recorded: true},
		{name: "another name", change: func(v *corev1.PersistentVolume) { v.Name = "pvc-2" }},
		{name: "another class", change: func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "gold" }},
		{name: "another class by annotation", change: func(v *corev1.PersistentVolume) { v.Annotations[corev1.BetaStorageClassAnnotation] = "gold" }},
		{name: "another provisioner", change: func(v *corev1.PersistentVolume) { v.Annotations[contract.ProvisionedBy] = "q" }},
		{name: "another identity", change: func(v *corev1.PersistentVolume) { v.Annotations[contract.AnnIdentity] = `{"properties":{"a":"c"}}` }},
		{name: "another config", change: func(v *corev1.PersistentVolume) { v.Annotations[contract.AnnConfig] = "cm/2@e" }},
		{name: "another time", change: func(v *corev1.PersistentVolume) { delete(v.Annotations, contract.AnnMadeBefore) }},
		{name: "another place", change: func(v *corev1.PersistentVolume) { v.Annotations[contract.AnnMounts] = `[{"path":"/srv/b"}]` }},
		{name: "no place", change: func(v *corev1.PersistentVolume) { delete(v.Annotations, contract.AnnMounts) }},
		{name: "a place in the place of a time", change: func(v *corev1.PersistentVolume) {
			v.Annotations[contract.AnnMadeBefore] += v.Annotations[contract.AnnMounts]
			delete(v.Annotations, contract.AnnMounts)
		}},
		{name: "a location, which only the provisioner compares", change: func(v *corev1.PersistentVolume) { v.Annotations[contract.AnnLocation] = "west" }, recorded: true},
		{name: "text moved to its neighbor", change: func(v *corev1.PersistentVolume) {
			v.Annotations[contract.AnnConfig], v.Annotations[contract.AnnMadeBefore] = "cm/1@d2026", "-01-01T00:00:00Z"
		}},
		{name: "no record", change: func(v *corev1.PersistentVolume) { delete(v.Annotations, contract.AnnRecord) }},
		{name: "half a record", change: func(v *corev1.PersistentVolume) {
			v.Annotations[contract.AnnRecord] = v.Annotations[contract.AnnRecord][:32]
		}},
		{name: "no digits", change: func(v *corev1.PersistentVolume) { v.Annotations[contract.AnnRecord] = "true" }},
		{name: "an administrator's word is no record", change: func(v *corev1.PersistentVolume) { v.Annotations[contract.AnnRecord] = contract.RecordTrusted }},
		{name: "another key", key: bytes.Repeat([]byte{2}, MinRecordKey), change: func(*corev1.PersistentVolume) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", Annotations: map[string]string{contract.ProvisionedBy: "p",
				contract.AnnIdentity: `{"properties":{"a":"b"}}`, contract.AnnConfig: "cm/1@d", contract.AnnMadeBefore: "2026-01-01T00:00:00Z",
				contract.AnnMounts: `[{"path":"/srv/a"}]`}},
				Spec: corev1.PersistentVolumeSpec{StorageClassName: "silver"}}
			v.Annotations[contract.AnnRecord] = key.Sign(v)
			c.change(v)
			verifier := key
			if c.key != nil {
				verifier = c.key
			}

			for range 2 { // a second time changes nothing
				verifier.Mark(v)
				if Recorded(v) != c.recorded {
					t.Errorf("recorded: %v, want %v", Recorded(v), c.recorded)
				}
			}

			if trusted := c.name == "an administrator's word is no record"; Trusted(v) != trusted {
				t.Errorf("trusted: %v, want %v", Trusted(v), trusted)
			}
		})
	}
}

// No key verifies nothing: not even what was signed with no key.
func TestRecordWithoutKey(t *testing.T) {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", Annotations: map[string]string{}}}
	v.Annotations[contract.AnnRecord] = RecordKey(nil).Sign(v)
	if RecordKey(nil).Mark(v); Recorded(v) {
		t.Error("an empty key verifies")
	}
}

// TestRecordOfBefore: a record of the first version, signed when no volume said what its pod had mounted, is still valid, and not for a
// volume that says so.
func TestRecordOfBefore(t *testing.T) {
	key := RecordKey(bytes.Repeat([]byte{1}, MinRecordKey))
	of := func() *corev1.PersistentVolume {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", Annotations: map[string]string{contract.ProvisionedBy: "p",
			contract.AnnIdentity: `{"properties":{"a":"b"}}`, contract.AnnConfig: "cm/1@d", contract.AnnMadeBefore: "2026-01-01T00:00:00Z",
			contract.AnnRecord: "1738a0c9bd213139c9d6abcf5f0fb1c2f3aa1f680afb5f78f0325e4b054c3eff"}},
			Spec: corev1.PersistentVolumeSpec{StorageClassName: "silver"}}
	}
	v := of()
	if key.Mark(v); !Recorded(v) {
		t.Error("it is not valid")
	}

	v = of()
	v.Annotations[contract.AnnMounts] = "[]"
	if key.Mark(v); Recorded(v) {
		t.Error("it is valid for another place")
	}
}
