package podspec

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// MaxAttempt is the highest attempt number, since the admission policy for volumes reads four digits. The number after
// it is 0 again.
const MaxAttempt = 9999

// uuid is how the API server writes the UID of a claim.
const uuid = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`

// attachmentKey is contract.AttachmentKey.
const attachmentKey = uuid + `-[0-9a-f]{8}`

var (
	namePattern       = regexp.MustCompile(`^(prov|del|exp|snap|sdl)-(` + uuid + `)-([0-9]{1,4})$`)
	attachPattern     = regexp.MustCompile(`^(att|det)-(` + attachmentKey + `)-([0-9]{1,4})$`)
	volumeNamePattern = regexp.MustCompile(`^pvc-(` + uuid + `)$`)
	contentPattern    = regexp.MustCompile(`^snapcontent-(` + uuid + `)$`)
)

var prefixes = map[contract.Operation]string{
	contract.Provision: "prov", contract.Delete: "del", contract.Expand: "exp",
	contract.Snapshot: "snap", contract.DeleteSnapshot: "sdl",
	contract.Attach: "att", contract.Detach: "det",
}

// Name is the name of an attempt's pod: prov-<claim UID>-<n>, del-<claim UID>-<n> or exp-<claim UID>-<n>, and for
// snapshots snap-<UID>-<n> or sdl-<UID>-<n>. Those of attachments are att-<key>-<n> and det-<key>-<n>, with
// contract.AttachmentKey. It depends on the attempt alone. So of two dispatchers only one can create
// the pod, and the other goes on with it. The pod's token has this name too, by which the API server knows which volume
// the pod may create. It has at most 54 bytes.
func Name(operation contract.Operation, uid string, attempt int) string {
	return fmt.Sprintf("%s-%s-%d", prefixes[operation], uid, attempt)
}

// ParseName is the inverse of Name; ok is false for names that Name never makes.
func ParseName(name string) (operation contract.Operation, uid string, attempt int, ok bool) {
	parts := namePattern.FindStringSubmatch(name)
	if parts == nil {
		parts = attachPattern.FindStringSubmatch(name)
	}

	if parts == nil {
		return "", "", 0, false
	}

	for known, prefix := range prefixes {
		if prefix == parts[1] {
			operation = known
		}
	}

	attempt, _ = strconv.Atoi(parts[3]) // cannot fail: the pattern allows four digits at most

	return operation, parts[2], attempt, true
}

// VolumeName is the name of the PersistentVolume of a claim, the same that sig-storage-lib gives it.
func VolumeName(claimUID string) string { return "pvc-" + claimUID }

// ClaimUIDOf is the inverse of VolumeName; ok is false for volumes with other names. It is the UID of the claim that
// the volume was made for. The volume may be bound to another claim by now.
func ClaimUIDOf(volumeName string) (claimUID string, ok bool) {
	parts := volumeNamePattern.FindStringSubmatch(volumeName)
	if parts == nil {
		return "", false
	}

	return parts[1], true
}

// OfSnapshot reports whether the operation is one on a snapshot.
func OfSnapshot(operation contract.Operation) bool {
	return operation == contract.Snapshot || operation == contract.DeleteSnapshot
}

// OfAttachment reports whether the operation is one on a VolumeAttachment.
func OfAttachment(operation contract.Operation) bool {
	return operation == contract.Attach || operation == contract.Detach
}

// SnapshotName is the name that a snapshot has to have on the backend, by the UID of its VolumeSnapshot.
func SnapshotName(uid string) string { return "snap-" + uid }

// ContentName is the name of a snapshot's VolumeSnapshotContent. The snapshot-controller looks for it by this name.
func ContentName(uid string) string { return "snapcontent-" + uid }

// SnapshotUIDOf is the inverse of ContentName; ok is false for contents with other names.
func SnapshotUIDOf(contentName string) (uid string, ok bool) {
	parts := contentPattern.FindStringSubmatch(contentName)
	if parts == nil {
		return "", false
	}

	return parts[1], true
}

// ClassHash is the value of contract.LabelClassHash for a storage class.
func ClassHash(class string) string {
	sum := sha256.Sum256([]byte(class))
	return hex.EncodeToString(sum[:8])
}
