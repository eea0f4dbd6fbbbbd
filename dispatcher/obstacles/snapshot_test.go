package obstacles

import (
	"fmt"
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
	"github.com/flex-provisioner/flex-provisioner/test/observedtest"
)

const (
	madeVolume  = "pvc-" + dispatchertest.UID
	madeContent = "snapcontent-" + dispatchertest.UID
)

// snapshotOf is what is known of VolumeSnapshot daily, which is of claim data and its volume, in words of
// dispatchertest.Volume. Also is as in observedtest.Scene.
func snapshotOf(volume, also string) *observed.Claim {
	name := "data"
	s := observedtest.Scene{Claim: "none", Also: also}.Observed()
	if s.Config != nil {
		s.Config.Snapshots = true
	}

	s.SetSnapshot(&observed.Snapshot{
		Driver: contract.SnapshotDriver("p"),
		Class:  &snapshotv1.VolumeSnapshotClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}},
		Request: &snapshotv1.VolumeSnapshot{Spec: snapshotv1.VolumeSnapshotSpec{
			Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &name}}},
		Claim: &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name, UID: dispatchertest.UID},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: madeVolume},
			Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}},
		Source: dispatchertest.Volume(volume),
	})

	return s
}

// contentOf is snapshotOf with a content that has been made for it an hour ago, and is released. Its record is valid.
func contentOf(t *testing.T, volume, also string) *observed.Claim {
	t.Helper()

	s := snapshotOf(volume, also)
	handle := madeVolume
	content := &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: madeContent, UID: "content",
			CreationTimestamp: metav1.NewTime(dispatchertest.Noon.Add(-time.Hour)),
			Annotations:       map[string]string{contract.AnnBeingDeleted: "yes"}},
		Spec: snapshotv1.VolumeSnapshotContentSpec{Driver: contract.SnapshotDriver("p"),
			DeletionPolicy:    snapshotv1.VolumeSnapshotContentDelete,
			VolumeSnapshotRef: corev1.ObjectReference{Namespace: "team-a", Name: "daily", UID: dispatchertest.UID},
			Source:            snapshotv1.VolumeSnapshotContentSource{VolumeHandle: &handle}},
		Status: &snapshotv1.VolumeSnapshotContentStatus{},
	}
	if err := dispatchertest.Key.RecordContent(content, dispatchertest.Volume("fits bound")); err != nil {
		t.Fatal(err)
	}

	dispatchertest.Key.MarkContent(content)
	s.Snapshot.Content = content
	s.SetSnapshot(s.Snapshot)

	return s
}

// unrecorded takes the record off the content.
func unrecorded(s *observed.Claim) {
	delete(s.Snapshot.Content.Annotations, podspec.Verified)
	s.SetSnapshot(s.Snapshot)
}

// byHand makes the content one of an administrator, for the snapshot of a handle.
func byHand(s *observed.Claim, handle string) {
	unrecorded(s)
	content := s.Snapshot.Content
	content.Name, content.Spec.Source = "imported", snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: &handle}
}

// said is a reason with its message, empty for none.
func said(reason podspec.Reason, why string) string {
	if reason == podspec.ReasonNone && why == "" {
		return ""
	}

	return fmt.Sprintf("%s: %s", reason, why)
}

// elsewhere is what is said of a volume whose claim exports is another one by now.
const elsewhere = " was made with claim exports (nfs://a/e1) at /export, and that claim is nfs://a/e2 now: bring back the claim with that " +
	"storage"

func TestToSnapshot(t *testing.T) {
	const unbound = "SnapshotWaits: claim data is not bound; the snapshot waits for it"
	const deleted = "SnapshotRefused: claim data, or its volume " + madeVolume + ", is being deleted: delete the VolumeSnapshot"
	for _, c := range []struct {
		name, volume, also string
		change             func(s *observed.Claim)
		want               string
	}{
		{name: "nothing"},
		{name: "the volume is to be retained", volume: "fits bound retain"},
		{name: "the class has parameters",
			change: func(s *observed.Claim) { s.Snapshot.Class.Parameters = map[string]string{"pool": "a"} },
			want: "SnapshotRefused: VolumeSnapshotClass fast has parameters, and provisioner pods know none: create it again " +
				"without them"},
		{name: "no claim", change: func(s *observed.Claim) { s.Snapshot.Claim = nil },
			want: "SnapshotWaits: claim data does not exist; the snapshot waits for it"},
		{name: "no claim, whose volume was retained", volume: "fits released retain",
			change: func(s *observed.Claim) { s.Snapshot.Claim, s.Snapshot.Source = nil, nil },
			want:   "SnapshotWaits: claim data does not exist; the snapshot waits for it"},
		{name: "the claim waits", change: func(s *observed.Claim) { s.Snapshot.Claim.Status.Phase = corev1.ClaimPending }, want: unbound},
		{name: "no volume", change: func(s *observed.Claim) { s.Snapshot.Source = nil }, want: unbound},
		{name: "the claim names another's volume", volume: "stray bound", want: unbound},
		{name: "the claim is being deleted",
			change: func(s *observed.Claim) {
				s.Snapshot.Claim.DeletionTimestamp = &metav1.Time{Time: dispatchertest.Noon}
			}, want: deleted},
		{name: "the volume is being deleted", volume: "fits bound deleting", want: deleted},
		{name: "the volume of another provisioner", volume: "fits bound foreign",
			want: "SnapshotRefused: volume " + madeVolume + ` of claim data is of provisioner "csi.example.com", and ` +
				"VolumeSnapshotClass fast is for those of p"},
		{name: "a volume that no pod made",
			change: func(s *observed.Claim) { s.Snapshot.Source.Name, s.Snapshot.Claim.Spec.VolumeName = "nfs-1", "nfs-1" },
			want: "SnapshotRefused: no provisioner pod made volume nfs-1 of claim data under this name, and only volumes that pods made " +
				"have snapshots: delete the VolumeSnapshot"},
		{name: "no policies", also: "uncontained", want: "AdmissionPoliciesMissing: a policy is missing"},
		{name: "no ConfigMap", also: "no-config", want: "ProvisionerConfigMissing: no ConfigMap"},
		{name: "a class without snapshots", change: func(s *observed.Claim) { s.Config.Snapshots = false },
			want: `SnapshotRefused: class silver has no snapshots: its ConfigMap cm has neither the scripts "snapshot" and ` +
				`"delete-snapshot" nor snapshots: "true"`},
		{name: "a pod wrote where the storage is", volume: "forged bound",
			want: "VolumeRecordInvalid: annotation flex-provisioner.io/identity of volume " + madeVolume + " is not signed by this " +
				"dispatcher, and differs from class silver; if it is right: kubectl annotate pv " + madeVolume + " --overwrite " +
				"flex-provisioner.io/record=trusted; to use the properties and parameters of the class: kubectl annotate pv " +
				madeVolume + " flex-provisioner.io/identity-"},
		{name: "the storage is elsewhere by now", volume: "fits bound placed", also: "moved",
			want: "StorageMoved: volume " + madeVolume + elsewhere + "; or if its storage is what class silver mounts now: kubectl " +
				"annotate pv " + madeVolume + " --overwrite flex-provisioner.io/record=trusted flex-provisioner.io/mounts-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			volume := c.volume
			if volume == "" {
				volume = "fits bound"
			}

			s := snapshotOf(volume, c.also)
			if c.change != nil {
				c.change(s)
			}

			s.SetSnapshot(s.Snapshot)
			if got := said(ToSnapshot(s)); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// A content outlives its claim, and its volume.
func TestToTakeSnapshot(t *testing.T) {
	const gone = "SnapshotRefused: volume " + madeVolume + " does not exist any more, and no snapshot of it was taken: delete the " +
		"VolumeSnapshot"
	const unbound = "SnapshotRefused: volume " + madeVolume + " is not bound any more, so that its storage may be removed at any " +
		"time: delete the VolumeSnapshot"
	const unasked = "VolumeSnapshot team-a/daily does not exist any more, so that its snapshot is not taken: "
	for _, c := range []struct {
		name, volume, also string
		change             func(s *observed.Claim)
		want               string
	}{
		{name: "nothing", volume: "fits bound"},
		{name: "to be retained", volume: "fits bound retain"},
		{name: "gone", volume: "fits bound", change: func(s *observed.Claim) { s.Snapshot.Source = nil }, want: gone},
		{name: "another one", volume: "fits bound", change: func(s *observed.Claim) { s.Snapshot.Source.Name = "other" }, want: gone},
		{name: "being deleted", volume: "fits bound deleting", want: unbound},
		{name: "released", volume: "fits released", want: unbound},
		{name: "released, and retained", volume: "fits released retain", want: unbound},
		{name: "given away", volume: "unclaimed available retain", want: unbound},
		{name: "another claim has it", volume: "stray bound retain",
			want: "SnapshotRefused: volume " + madeVolume + " is bound to another claim than when the snapshot was asked for: " +
				"delete the VolumeSnapshot"},
		{name: "no ConfigMap", volume: "fits bound", also: "no-config", want: "ProvisionerConfigMissing: no ConfigMap"},
		{name: "nobody asks for it any more", volume: "fits bound", change: func(s *observed.Claim) { s.Snapshot.Request = nil },
			want: "SnapshotRefused: " + unasked + "kubectl delete volumesnapshotcontent " + madeContent},
		{name: "nobody asks for it any more, nor is there a volume", volume: "fits bound",
			change: func(s *observed.Claim) { s.Snapshot.Request, s.Snapshot.Source = nil, nil },
			want:   "SnapshotRefused: " + unasked + "kubectl delete volumesnapshotcontent " + madeContent},
		{name: "nobody asks for one any more that may exist, to be retained", volume: "fits bound", change: func(s *observed.Claim) {
			s.Snapshot.Request, s.Snapshot.Content.Spec.DeletionPolicy = nil, snapshotv1.VolumeSnapshotContentRetain
		}, want: "SnapshotRefused: " + unasked + "kubectl delete volumesnapshotcontent " + madeContent},
		{name: "nobody asks for it any more, to be retained", volume: "fits bound", change: func(s *observed.Claim) {
			s.Snapshot.Request, s.Snapshot.Content.Spec.DeletionPolicy = nil, snapshotv1.VolumeSnapshotContentRetain
			s.Snapshot.Content.Annotations[contract.AnnBeingCreated] = "yes"
		}, want: "SnapshotRefused: " + unasked + "kubectl patch volumesnapshotcontent " + madeContent +
			` --type=merge -p '{"spec":{"deletionPolicy":"Delete"}}' && kubectl delete volumesnapshotcontent ` + madeContent},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := contentOf(t, c.volume, c.also)
			if c.change != nil {
				c.change(s)
			}

			if got := said(ToTakeSnapshot(s)); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// vouchedFor lets an administrator vouch for a record whose volume has the annotation.
func vouchedFor(key, text string) func(s *observed.Claim) {
	return func(s *observed.Claim) {
		s.Snapshot.Content.Annotations[contract.AnnRecord] = contract.RecordTrusted
		unrecorded(s)
		s.Volume.Annotations[key] = text
	}
}

// edit is the remedy for what the record of a content says.
func edit(key string) string {
	return "kubectl edit volumesnapshotcontent " + madeContent + ", and take flex-provisioner.io/" + key + " out of its annotation " +
		"flex-provisioner.io/volume"
}

// A snapshot is removed after its volume, and after its claim.
func TestToRemoveSnapshot(t *testing.T) {
	for _, c := range []struct {
		name, also string
		change     func(s *observed.Claim)
		want       string
	}{
		{name: "nothing"},
		{name: "no policies", also: "uncontained", want: "AdmissionPoliciesMissing: a policy is missing"},
		{name: "no ConfigMap", also: "no-config", want: "ProvisionerConfigMissing: no ConfigMap"},
		{name: "the class has no snapshots any more", change: func(s *observed.Claim) { s.Config.Snapshots = false },
			want: `SnapshotRefused: class silver has no snapshots: its ConfigMap cm has neither the scripts "snapshot" and ` +
				`"delete-snapshot" nor snapshots: "true"`},
		{name: "nothing is known of the volume", change: func(s *observed.Claim) { byHand(s, "daily-1") }},
		{name: "the storage is elsewhere by now", also: "moved",
			change: func(s *observed.Claim) { s.Volume.Annotations[contract.AnnMounts] = dispatchertest.Mounts },
			want:   "StorageMoved: volume " + madeVolume + elsewhere},
		{name: "an administrator vouches for properties that are none", change: vouchedFor(contract.AnnIdentity, "x"),
			want: "VolumeRecordInvalid: annotation flex-provisioner.io/identity of volume " + madeVolume + " is not JSON of properties and " +
				"parameters; to use those of class silver: " + edit("identity")},
		{name: "an administrator vouches for properties that the dispatcher sets",
			change: vouchedFor(contract.AnnIdentity, `{"properties":{"flex-pv-name":"pvc-1"}}`),
			want: "VolumeRecordInvalid: annotation flex-provisioner.io/identity of volume " + madeVolume + " cannot be used: " +
				"data[flex-pv-name]: Forbidden: would set the environment variable FLEX_PV_NAME, which is refused: the request's own " +
				"names; choose another name, for example \"backend-flex-pv-name\"; to use the properties and parameters of class silver: " +
				edit("identity")},
		{name: "an administrator vouches for mounts that are none", change: vouchedFor(contract.AnnMounts, "x"),
			want: "VolumeRecordInvalid: annotation flex-provisioner.io/mounts of volume " + madeVolume + " is not JSON of mounts; to use " +
				"what class silver mounts now: " + edit("mounts")},
		{name: "an administrator vouches for mounts of another class", change: vouchedFor(contract.AnnMounts, dispatchertest.Mounts),
			want: "VolumeRecordInvalid: annotation flex-provisioner.io/mounts of volume " + madeVolume + " is not signed by this " +
				"dispatcher, and differs from what class silver mounts: /export; to use it, let the class mount the same; to use what class " +
				"silver mounts now: " + edit("mounts")},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := contentOf(t, "fits released", c.also)
			s.Snapshot.Source = nil
			if c.change != nil {
				c.change(s)
			}

			if got := said(ToRemoveSnapshot(s)); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

const badHandle = ": a handle has letters, digits, \".\", \"_\" and \"-\", at most 253, and begins with a letter or digit; create the " +
	"content again with another"

const noRecord = "VolumeSnapshotContent " + madeContent + " has no valid record of its volume, signed by this dispatcher; if annotation " +
	"flex-provisioner.io/volume is right: kubectl annotate volumesnapshotcontent " + madeContent +
	" --overwrite flex-provisioner.io/record=trusted"

func TestInvalidContent(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(s *observed.Claim)
		want   string
	}{
		{name: "recorded", change: func(*observed.Claim) {}},
		{name: "record lost", change: unrecorded, want: noRecord},
		{name: "an administrator vouches for it", change: func(s *observed.Claim) {
			s.Snapshot.Content.Annotations[contract.AnnRecord] = contract.RecordTrusted
			unrecorded(s)
		}},
		{name: "an administrator vouches for nothing", change: func(s *observed.Claim) {
			s.Snapshot.Content.Annotations[contract.AnnRecord] = contract.RecordTrusted
			delete(s.Snapshot.Content.Annotations, contract.AnnVolume)
			unrecorded(s)
		}, want: noRecord},
		{name: "somebody asks for a snapshot", change: func(s *observed.Claim) { s.Snapshot.Content.Name = "wild" },
			want: "VolumeSnapshotContent wild asks for a snapshot, and the dispatcher makes such objects itself, for " +
				"VolumeSnapshots: delete it, and create a VolumeSnapshot"},
		{name: "by hand", change: func(s *observed.Claim) { byHand(s, "daily-1") }},
		{name: "by hand, a path", change: func(s *observed.Claim) { byHand(s, "../pvc-1") },
			want: `spec.source.snapshotHandle of VolumeSnapshotContent imported is "../pvc-1"` + badHandle},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := contentOf(t, "fits bound", "")
			if c.change(s); InvalidContent(s) != c.want {
				t.Errorf("got  %q\nwant %q", InvalidContent(s), c.want)
			}
		})
	}
}

// The order of the rows is that of the questions: what comes first is not allowed by what comes later.
func TestSnapshotRemoval(t *testing.T) {
	const allow = "; if it is to be removed: kubectl annotate volumesnapshotcontent "
	twin := func(uid string, deleting bool) *snapshotv1.VolumeSnapshotContent {
		o := &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: "copy"}}
		o.UID = types.UID(uid)
		if deleting {
			o.DeletionTimestamp = &metav1.Time{Time: dispatchertest.Noon}
		}

		return o
	}
	allowed := func(s *observed.Claim) { s.Snapshot.Content.Annotations[contract.AnnAllowDelete] = "true" }
	lost := func(s *observed.Claim) {
		delete(s.Snapshot.Content.Annotations, contract.AnnBeingDeleted)
		s.Snapshot.Request = nil
	}
	old := func(s *observed.Claim) {
		s.Snapshot.Content.CreationTimestamp.Time = dispatchertest.Noon.Add(-24*time.Hour - time.Second)
	}
	for _, c := range []struct {
		name, also string
		change     []func(s *observed.Claim)
		proof      Proof
		want       string
	}{
		{name: "released", proof: ClaimDeleted},
		{name: "released, and of nobody before", proof: ClaimDeleted, change: []func(*observed.Claim){func(s *observed.Claim) {
			delete(s.Snapshot.Content.Annotations, contract.AnnBeingDeleted)
			s.Snapshot.Content.Spec.VolumeSnapshotRef.UID = ""
		}}},
		{name: "deletions stopped", also: "stopped", change: []func(*observed.Claim){allowed},
			want: "DeletionStopped: ConfigMap ns/stop-deletes stops all deletions"},
		{name: "its VolumeSnapshot has it", change: []func(*observed.Claim){allowed, func(s *observed.Claim) {
			delete(s.Snapshot.Content.Annotations, contract.AnnBeingDeleted)
		}}, want: "DeletionHeld: VolumeSnapshot team-a/daily has the snapshot: delete that; if it is being deleted, the " +
			"snapshot-controller has to say so, see that it runs"},
		{name: "a pod restores it", change: []func(*observed.Claim){allowed, func(s *observed.Claim) {
			s.Snapshot.RestoredBy = "pod ns/prov-1-0 for claim team-a/copy"
		}}, want: "CloneRunning: pod ns/prov-1-0 for claim team-a/copy restores the snapshot; it is removed after that"},
		{name: "a handle that is none", change: []func(*observed.Claim){allowed, func(s *observed.Claim) { byHand(s, "a b") }},
			want: `VolumeRecordInvalid: spec.source.snapshotHandle of VolumeSnapshotContent imported is "a b"` + badHandle},
		{name: "record lost", change: []func(*observed.Claim){allowed, unrecorded}, want: "VolumeRecordInvalid: " + noRecord},
		{name: "by hand, of no class", change: []func(*observed.Claim){allowed, func(s *observed.Claim) {
			byHand(s, "daily-1")
			s.ClassName = ""
		}}, want: "VolumeRecordInvalid: nothing says of which class the snapshot of VolumeSnapshotContent imported is: kubectl annotate " +
			"volumesnapshotcontent imported flex-provisioner.io/storage-class=NAME of the StorageClass"},
		{name: "by hand, of a class on single nodes", change: []func(*observed.Claim){allowed, func(s *observed.Claim) {
			byHand(s, "daily-1")
			s.Config.NodeLocal = true
		}}, want: "VolumeRecordInvalid: class silver has its storage on single nodes, and nothing says which node has the snapshot " +
			"daily-1: remove it by hand, then: kubectl patch volumesnapshotcontent imported --type=merge " +
			`-p '{"spec":{"deletionPolicy":"Retain"}}'`},
		{name: "by hand, of a class", change: []func(*observed.Claim){func(s *observed.Claim) { byHand(s, "daily-1") }},
			proof: ClaimDeleted},
		{name: "by hand, and the class has no ConfigMap", also: "no-config",
			change: []func(*observed.Claim){func(s *observed.Claim) { byHand(s, "daily-1") }}, proof: ClaimDeleted},
		{name: "another content goes first", change: []func(*observed.Claim){allowed, func(s *observed.Claim) {
			s.Snapshot.Twin = twin("a", true)
		}}, want: "DeletionHeld: VolumeSnapshotContent copy has the same snapshot snap-" + dispatchertest.UID + ", and is being deleted: it " +
			"goes first"},
		{name: "another content goes later", change: []func(*observed.Claim){allowed, func(s *observed.Claim) {
			s.Snapshot.Twin = twin("d", true)
		}}, proof: Allowed},
		{name: "another content has it", change: []func(*observed.Claim){func(s *observed.Claim) { s.Snapshot.Twin = twin("a", false) }},
			want: "DeletionHeld: VolumeSnapshotContent copy has the same snapshot snap-" + dispatchertest.UID + allow + madeContent +
				" flex-provisioner.io/allow-delete=true"},
		{name: "another content that is not deleted, and it is allowed", change: []func(*observed.Claim){allowed, func(s *observed.Claim) {
			s.Snapshot.Twin = twin("a", false)
		}}, proof: Allowed},
		{name: "allowed by another word", change: []func(*observed.Claim){func(s *observed.Claim) {
			s.Snapshot.Content.Annotations[contract.AnnAllowDelete] = "yes"
			s.Snapshot.Twin = twin("a", false)
		}}, want: "DeletionHeld: VolumeSnapshotContent copy has the same snapshot snap-" + dispatchertest.UID + allow + madeContent +
			" flex-provisioner.io/allow-delete=true"},
		{name: "its VolumeSnapshot is gone, and nobody deleted it", change: []func(*observed.Claim){lost},
			want: "DeletionHeld: VolumeSnapshot team-a/daily, which has the snapshot, does not exist, and the snapshot-controller has " +
				"not seen it deleted" + allow + madeContent + " flex-provisioner.io/allow-delete=true"},
		{name: "its VolumeSnapshot is gone, and it is allowed", change: []func(*observed.Claim){lost, allowed}, proof: Allowed},
		{name: "its VolumeSnapshot is gone, and another content has it", change: []func(*observed.Claim){lost, func(s *observed.Claim) {
			s.Snapshot.Twin = twin("a", false)
		}}, want: "DeletionHeld: VolumeSnapshotContent copy has the same snapshot snap-" + dispatchertest.UID + allow + madeContent +
			" flex-provisioner.io/allow-delete=true"},
		{name: "the limit, of a young one", also: "limited", proof: ClaimDeleted},
		{name: "the limit", also: "limited", change: []func(*observed.Claim){old},
			want: "DeletionLimit: more than 2 volumes or snapshots of class silver that are older than a day would be removed within an " +
				"hour; if that is meant, raise the ConfigMap's delete-limit, or kubectl annotate volumesnapshotcontent NAME... " +
				"flex-provisioner.io/allow-delete=true"},
		{name: "the limit, and it is allowed", also: "limited", change: []func(*observed.Claim){old, allowed}, proof: Allowed},
		{name: "below the limit", also: "limited", change: []func(*observed.Claim){old, func(s *observed.Claim) { s.RecentDeletions = 2 }},
			proof: ClaimDeleted},
		{name: "no limit", also: "limited", change: []func(*observed.Claim){old, func(s *observed.Claim) { s.DeleteLimit = 0 }},
			proof: ClaimDeleted},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := contentOf(t, "fits bound", c.also)
			for _, change := range c.change {
				change(s)
			}

			proof, reason, why := SnapshotRemoval(s)
			if got := said(reason, why); got != c.want || proof != c.proof {
				t.Errorf("got  %q, %q\nwant %q, %q", proof, got, c.proof, c.want)
			}
		})
	}
}

// restored makes the claim ask for VolumeSnapshot daily, which is ready, and of a volume of 1Gi of ConfigMap cm.
func restored(t *testing.T) *observed.Claim {
	t.Helper()

	s := observedtest.Scene{}.Observed()
	group, yes, size, mode := snapshotv1.GroupName, true, int64(1<<30), corev1.PersistentVolumeFilesystem
	s.Claim.Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: &group, Kind: "VolumeSnapshot", Name: "daily"}
	s.Config.Snapshots = true
	content := contentOf(t, "fits bound", "").Snapshot.Content
	handle := podspec.HandleOf(content)
	content.Status = &snapshotv1.VolumeSnapshotContentStatus{ReadyToUse: &yes, SnapshotHandle: &handle, RestoreSize: &size}
	content.Spec.SourceVolumeMode = &mode
	s.Source = observed.CloneSource{Content: content, Config: s.Config.Name,
		Snapshot: &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "daily", UID: dispatchertest.UID}}}

	return s
}

// A claim that asks for a snapshot must not get an empty volume, nor another's data.
func TestToRestore(t *testing.T) {
	const waits = "SnapshotNotReady: the claim asks to be restored from VolumeSnapshot daily, which is not ready; it waits for it"
	no, block := false, corev1.PersistentVolumeBlock
	for _, c := range []struct {
		name   string
		change func(s *observed.Claim)
		want   string
	}{
		{name: "nothing", change: func(*observed.Claim) {}},
		{name: "two wishes", change: func(s *observed.Claim) {
			s.Claim.Annotations[contract.AnnCloneRequest] = "original"
			s.Class.Parameters = map[string]string{contract.ParameterSmartClone: "true"}
		},
			want: "ClaimRefused: annotation k8s.io/CloneRequest asks for a clone, and spec.dataSource for VolumeSnapshot daily; remove " +
				"one of them"},
		{name: "a snapshot of another namespace", change: func(s *observed.Claim) {
			other := "team-b"
			s.Claim.Spec.DataSourceRef.Namespace = &other
		}, want: "ClaimRefused: spec.dataSourceRef is of namespace team-b: only snapshots of namespace team-a can be restored into it"},
		{name: "a name without end", change: func(s *observed.Claim) { s.Claim.Spec.DataSourceRef.Name = strings.Repeat("x", 254) },
			want: "ClaimRefused: spec.dataSource is a VolumeSnapshot whose name has 254 characters; names have at most 253"},
		{name: "a class without snapshots", change: func(s *observed.Claim) { s.Config.Snapshots = false },
			want: "ClaimRefused: the claim asks to be restored from VolumeSnapshot daily: class silver has no snapshots"},
		{name: "no VolumeSnapshot", change: func(s *observed.Claim) { s.Source = observed.CloneSource{} },
			want: "SnapshotNotReady: the claim asks to be restored from VolumeSnapshot daily, which does not exist; it waits for it"},
		{name: "no content", change: func(s *observed.Claim) { s.Source.Content = nil }, want: waits},
		{name: "not ready", change: func(s *observed.Claim) { s.Source.Content.Status.ReadyToUse = &no }, want: waits},
		{name: "the VolumeSnapshot names the content of another one",
			change: func(s *observed.Claim) { s.Source.Content.Spec.VolumeSnapshotRef.UID = "another" }, want: waits},
		{name: "the content goes",
			change: func(s *observed.Claim) { s.Source.Content.DeletionTimestamp = &metav1.Time{Time: dispatchertest.Noon} }, want: waits},
		{name: "another driver", change: func(s *observed.Claim) { s.Source.Content.Spec.Driver = "csi.example.com\n" + strings.Repeat("x", 99) },
			want: "ClaimRefused: the claim asks to be restored from VolumeSnapshot daily, which is of driver " +
				`"csi.example.com\n` + strings.Repeat("x", 48) + `": class silver restores those of ` + contract.SnapshotDriver("p")},
		{name: "a handle that is none", change: func(s *observed.Claim) { s.Source.Content.Spec.Source.SnapshotHandle = new("a/b") },
			want: `ClaimRefused: spec.source.snapshotHandle of VolumeSnapshotContent ` + madeContent + ` is "a/b"` + badHandle},
		{name: "another ConfigMap", change: func(s *observed.Claim) { s.Source.Config = "gold" },
			want: "ClaimRefused: the claim asks to be restored from VolumeSnapshot daily, which ConfigMap gold has made: class silver has " +
				"ConfigMap cm; use a class of that one"},
		{name: "of a class without a ConfigMap", change: func(s *observed.Claim) {
			s.Source.Config = ""
			delete(s.Source.Content.Annotations, podspec.Verified)
			s.Source.Content.Annotations[contract.AnnClass] = "gone"
		}, want: "SnapshotNotReady: no valid ConfigMap serves StorageClass \"gone\", of which the snapshot of VolumeSnapshotContent " +
			madeContent + " is; the claim waits for one"},
		{name: "of no class", change: func(s *observed.Claim) {
			s.Source.Config = ""
			delete(s.Source.Content.Annotations, podspec.Verified)
		}, want: "SnapshotNotReady: nothing says of which class the snapshot of VolumeSnapshotContent " + madeContent + " is: kubectl " +
			"annotate volumesnapshotcontent " + madeContent + " flex-provisioner.io/storage-class=NAME of the StorageClass"},
		{name: "smaller", change: func(s *observed.Claim) {
			s.Claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1073741823")}
		}, want: "ClaimRefused: spec.resources.requests.storage is 1073741823: VolumeSnapshot daily needs 1073741824 bytes"},
		{name: "larger", change: func(s *observed.Claim) {
			s.Claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
		}},
		{name: "of a size that nobody knows", change: func(s *observed.Claim) { s.Source.Content.Status.RestoreSize = nil }},
		{name: "another mode", change: func(s *observed.Claim) { s.Source.Content.Spec.SourceVolumeMode = &block },
			want: "ClaimRefused: spec.volumeMode is Filesystem: VolumeSnapshot daily is of a volume of mode Block; an administrator can " +
				"allow that: kubectl annotate volumesnapshotcontent " + madeContent +
				" snapshot.storage.kubernetes.io/allow-volume-mode-change=true"},
		{name: "another mode, and it is allowed", change: func(s *observed.Claim) {
			s.Source.Content.Spec.SourceVolumeMode = &block
			s.Source.Content.Annotations[contract.AnnModeChange] = "true"
		}},
		{name: "of a mode that nobody knows", change: func(s *observed.Claim) { s.Source.Content.Spec.SourceVolumeMode = nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := restored(t)
			c.change(s)
			reason, why, blocked := ToProvision(s)
			if got := said(reason, why); got != c.want || blocked != (c.want != "") {
				t.Errorf("got  %q, blocked %v\nwant %q", got, blocked, c.want)
			}
		})
	}
}
