package podspec

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// RecordKey signs the annotations of a volume that the dispatcher relies on later: where its storage is, and when it
// was made. The provisioner pod writes the volume, so the dispatcher trusts no annotation without the signature.
type RecordKey []byte

// MinRecordKey is the minimum length of a RecordKey in bytes.
const MinRecordKey = 32

// Sign returns the value of the annotation contract.AnnRecord for the volume. The signature covers the volume's name,
// so it is not valid on another volume.
func (k RecordKey) Sign(v *corev1.PersistentVolume) string {
	return hex.EncodeToString(k.sum(v))
}

// Verified is an annotation that replaces the record on a volume in memory once the record has been verified. Its name
// is not valid in the API, so no volume from the API server has it.
const Verified = "record verified"

// Mark verifies the record of a volume that was read from the API server, and replaces it by Verified. It removes a
// record that is not valid. An administrator's contract.RecordTrusted stays. To mark a volume twice changes nothing.
func (k RecordKey) Mark(v *corev1.PersistentVolume) {
	record, found := v.Annotations[contract.AnnRecord]
	if !found || record == contract.RecordTrusted {
		return
	}

	got, err := hex.DecodeString(record)
	verified := err == nil && len(k) >= MinRecordKey && hmac.Equal(got, k.sum(v))
	delete(v.Annotations, contract.AnnRecord)
	if verified {
		v.Annotations[Verified] = "true"
	}
}

// Recorded reports whether Mark has verified the volume's record.
func Recorded(v *corev1.PersistentVolume) bool { return v.Annotations[Verified] != "" }

// Trusted reports whether an administrator vouches for the volume's record.
func Trusted(v *corev1.PersistentVolume) bool {
	return v.Annotations[contract.AnnRecord] == contract.RecordTrusted
}

func (k RecordKey) sum(v *corev1.PersistentVolume) []byte {
	texts := []string{
		"flex-provisioner record 1", v.Name, ClassOf(v), v.Annotations[contract.ProvisionedBy],
		v.Annotations[contract.AnnIdentity], v.Annotations[contract.AnnConfig], v.Annotations[contract.AnnMadeBefore],
	}

	if mounts, found := v.Annotations[contract.AnnMounts]; found { // older volumes have none
		texts[0] = "flex-provisioner record 2"
		texts = append(texts, mounts)
	}

	return k.mac(texts...)
}

func (k RecordKey) mac(texts ...string) []byte {
	mac := hmac.New(sha256.New, k)
	for _, text := range texts {
		// The length separates a text from the next one.
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
		mac.Write([]byte(text))
	}

	return mac.Sum(nil)
}
