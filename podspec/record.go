package podspec

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// RecordKey signs what the dispatcher has to know of a volume later: where its storage is, and when it was made. The
// provisioner pod writes the volume, so that nothing on the volume can be believed without the signature.
type RecordKey []byte

// MinRecordKey is the least number of bytes of a RecordKey.
const MinRecordKey = 32

// Sign returns the value of the annotation contract.AnnRecord for the volume. It covers the name, so that the record of one
// volume is worth nothing on another.
func (k RecordKey) Sign(v *corev1.PersistentVolume) string {
	return hex.EncodeToString(k.sum(v))
}

// Verified is in memory alone on volumes whose record has been verified, in place of the record. It is no valid name of an
// annotation, so that no volume comes from the API server with it.
const Verified = "record verified"

// Mark verifies the record of a volume that was read from the API server and puts Verified in its place, or nothing where it
// does not verify. An administrator's contract.RecordTrusted stays. Marking a volume again changes nothing.
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
	mac := hmac.New(sha256.New, k)
	for _, text := range []string{
		"flex-provisioner record 1", v.Name, ClassOf(v), v.Annotations[contract.ProvisionedBy],
		v.Annotations[contract.AnnIdentity], v.Annotations[contract.AnnConfig], v.Annotations[contract.AnnMadeBefore],
	} {
		// The length keeps two neighboring texts apart.
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
		mac.Write([]byte(text))
	}
	return mac.Sum(nil)
}
