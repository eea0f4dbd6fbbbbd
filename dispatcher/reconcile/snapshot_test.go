package reconcile

import (
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// shot is a snapshot in a few words.
type shot struct {
	name string
	// request is words of a VolumeSnapshot, empty for none: new (just created, without a finalizer), stale (an hour ago,
	// without a finalizer), asks, bound, deleting, classless.
	request string
	// content is words of its content, empty for none: made; ready; finished (ready, and nothing may exist in part);
	// deleting; released (by its VolumeSnapshot); retain; unkept (without the finalizer); byhand; recordless;
	// of-class (silver, an administrator says); alien (another driver's); allowed; old; unmarked (without the mark that
	// its snapshot may exist in part).
	content string
	// source is words of dispatchertest.Volume for the volume as it is now. Default "fits bound", "none" for none.
	source string
	pods   []string
	// also: unserved, taken, twin, restored, stopped, limited, no-config, new-config, unable, no-claim, foreign.
	also string
	// said is what the content's status says of the last failure.
	said string
	want string
}

const shotDriver = "p"

func (c shot) observed(t *testing.T) *observed.Claim {
	t.Helper()

	s := scene{claim: "none", pods: c.pods}.observed()
	s.Claim, s.Volume = nil, nil
	has := func(words, word string) bool { return strings.Contains(" "+words+" ", " "+word+" ") }
	s.Config.Snapshots = !has(c.also, "unable")
	of := &observed.Snapshot{Driver: shotDriver, Unserved: has(c.also, "unserved")}
	if has(c.also, "no-config") {
		s.Config, s.ConfigProblem = nil, "no ConfigMap"
	}

	if has(c.also, "new-config") {
		s.Config.Digest = "d2"
	}

	if has(c.also, "stopped") {
		s.DeletionsStopped = "ConfigMap ns/stop-deletes stops all deletions"
	}

	if has(c.also, "limited") {
		s.DeleteLimit, s.RecentDeletions = 2, 3
	}

	if c.source != "none" {
		words := c.source
		if words == "" {
			words = "fits bound"
		}

		of.Source = dispatchertest.Volume(words)
		of.Source.Annotations[contract.AnnIdentity] = `{"properties":{"zone":"west"}}`
	}

	if c.request != "" {
		claim := "data"
		of.Class = &snapshotv1.VolumeSnapshotClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Driver: shotDriver}
		of.Request = &snapshotv1.VolumeSnapshot{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "daily", UID: dispatchertest.UID,
				CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)), Finalizers: []string{contract.SnapshotFinalizer}},
			Spec: snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &claim}},
		}
		switch c.request {
		case "new":
			of.Request.Finalizers, of.Request.CreationTimestamp = nil, metav1.NewTime(noon)
		case "stale":
			of.Request.Finalizers = nil
		case "bound":
			bound := podspec.ContentName(dispatchertest.UID)
			of.Request.Status = &snapshotv1.VolumeSnapshotStatus{BoundVolumeSnapshotContentName: &bound}
		case "deleting":
			of.Request.DeletionTimestamp = &metav1.Time{Time: noon}
		case "classless":
			of.Class = nil
		}

		if !has(c.also, "no-claim") && of.Source != nil {
			of.Claim = &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "data", UID: dispatchertest.UID},
				Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: of.Source.Name, StorageClassName: &of.Source.Spec.StorageClassName},
				Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
			}
		}
	}

	if has(c.also, "taken") {
		of.Taken = &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: podspec.ContentName(dispatchertest.UID)}}
	}

	if has(c.also, "twin") {
		of.Twin = &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: "copy"}}
	}

	if has(c.also, "restored") {
		of.RestoredBy = "pod ns/prov-1-0 for claim team-a/restored"
	}

	if c.content != "" {
		of.Content = c.contentOf(t, has)
	}

	s.SetSnapshot(of)

	return s
}

func (c shot) contentOf(t *testing.T, has func(words, word string) bool) *snapshotv1.VolumeSnapshotContent {
	t.Helper()

	handle, yes := "pvc-"+dispatchertest.UID, true
	content := &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: podspec.ContentName(dispatchertest.UID), UID: "content",
			CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)), Finalizers: []string{contract.ContentFinalizer},
			Annotations: map[string]string{contract.AnnBeingCreated: "yes"}},
		Spec: snapshotv1.VolumeSnapshotContentSpec{Driver: shotDriver, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
			VolumeSnapshotRef: corev1.ObjectReference{Namespace: "team-a", Name: "daily", UID: dispatchertest.UID},
			Source:            snapshotv1.VolumeSnapshotContentSource{VolumeHandle: &handle}},
		Status: &snapshotv1.VolumeSnapshotContentStatus{},
	}
	if c.said != "" {
		content.Status.Error = &snapshotv1.VolumeSnapshotError{Message: &c.said}
	}

	if has(c.content, "byhand") {
		by := "backup-1"
		content.Name, content.UID, content.Annotations = "imported", dispatchertest.UID, map[string]string{}
		content.Spec.Source = snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: &by}
	}

	if !has(c.content, "recordless") && !has(c.content, "of-class") {
		v := dispatchertest.Volume("fits bound")
		v.Annotations[contract.AnnIdentity] = `{"properties":{"zone":"west"}}`
		if err := dispatchertest.Key.RecordContent(content, v); err != nil {
			t.Fatal(err)
		}

		dispatchertest.Key.MarkContent(content)
	}

	taken := podspec.HandleOf(content)
	for word, change := range map[string]func(){
		"ready": func() { content.Status.ReadyToUse, content.Status.SnapshotHandle = &yes, &taken },
		"finished": func() {
			content.Status.ReadyToUse, content.Status.SnapshotHandle = &yes, &taken
			delete(content.Annotations, contract.AnnBeingCreated)
		},
		"deleting": func() { content.DeletionTimestamp = &metav1.Time{Time: noon} },
		"released": func() { content.Annotations[contract.AnnBeingDeleted] = "yes" },
		"retain":   func() { content.Spec.DeletionPolicy = snapshotv1.VolumeSnapshotContentRetain },
		"unkept":   func() { content.Finalizers = nil },
		"of-class": func() { content.Annotations[contract.AnnClass] = "silver" },
		"alien":    func() { content.Spec.Driver = "csi.example.com" },
		"allowed":  func() { content.Annotations[contract.AnnAllowDelete] = "true" },
		"old":      func() { content.CreationTimestamp.Time = noon.Add(-25 * time.Hour) },
		"unmarked": func() { delete(content.Annotations, contract.AnnBeingCreated) },
		"wild":     func() { content.Name = "wild" },
	} {
		if has(c.content, word) {
			change()
		}
	}

	return content
}

const volumeGone = "volume pvc-" + dispatchertest.UID + " does not exist any more, and no snapshot of it was taken: " +
	"delete the VolumeSnapshot"

// A snapshot that its author has to ask for in another way counts for no alert, and one that others have to serve does.
func TestBlockedSnapshots(t *testing.T) {
	for _, c := range []struct {
		shot
		blocked bool
	}{
		{shot{name: "claim does not exist", request: "asks", also: "no-claim"}, true},
		{shot{name: "claim is not bound", request: "asks", source: "none"}, true},
		{shot{name: "class without snapshots", request: "asks", also: "unable"}, true},
		{shot{name: "volume is gone", request: "bound", content: "made", source: "none"}, true},
		{shot{name: "VolumeSnapshot is gone", content: "made"}, true},
		{shot{name: "nobody looks after it", request: "stale"}, false},
		{shot{name: "no ConfigMap", request: "asks", also: "no-config"}, false},
		{shot{name: "record lost", request: "bound", content: "made recordless"}, false},
		{shot{name: "class without snapshots, and it is to be removed", content: "made finished deleting released", also: "unable"}, false},
	} {
		if got := Decide(c.observed(t)).Blocked; got != c.blocked {
			t.Errorf("%s: blocked %t, want %t", c.name, got, c.blocked)
		}
	}
}

// The rows are the crash points of snapshots, and the plain course of things.
func TestSnapshots(t *testing.T) {
	for _, c := range []shot{
		{name: "asked", request: "asks",
			want: "create content, (confirm)"},
		{name: "asked a moment ago", request: "new",
			want: "requeue in 5s"},
		{name: "nobody looks after it", request: "stale",
			want: "tell snapshot SnapshotWaits"},
		{name: "of no class", request: "classless",
			want: "forget"},
		{name: "deleted before it had a content", request: "deleting",
			want: "forget"},
		{name: "name is taken", request: "asks", also: "taken",
			want: "tell snapshot VolumeRecordInvalid"},
		{name: "claim does not exist", request: "asks", also: "no-claim",
			want: "tell snapshot SnapshotWaits"},
		{name: "claim is not bound", request: "asks", source: "none",
			want: "tell snapshot SnapshotWaits"},
		{name: "volume of another provisioner", request: "asks", source: "fits bound foreign",
			want: "tell snapshot SnapshotRefused"},
		{name: "class without snapshots", request: "asks", also: "unable",
			want: "tell snapshot SnapshotRefused"},
		{name: "no ConfigMap", request: "asks", also: "no-config",
			want: "tell snapshot ProvisionerConfigMissing"},
		{name: "bound, and its content not seen yet", request: "bound",
			want: "forget"},
		{name: "content made", request: "bound", content: "made",
			want: "create snapshot 0, (confirm)"},
		{name: "pod runs", request: "bound", content: "made", pods: []string{"snap-0 running"}},
		{name: "pod starts", request: "bound", content: "made", pods: []string{"snap-0 pending"},
			want: "requeue in 4m0s"},
		{name: "taken", request: "bound", content: "made", pods: []string{"snap-0 done"},
			want: "tell snapshot SnapshotTaken, finish content, ready since 1m0s, 1073741824 bytes, (confirm)"},
		{name: "taken, and the mark is off", request: "bound", content: "made unmarked", pods: []string{"snap-0 done"},
			want: "tell snapshot SnapshotTaken, ready since 1m0s, 1073741824 bytes, (confirm)"},
		{name: "ready", request: "bound", content: "made ready", pods: []string{"snap-0 done"},
			want: "finish content, acknowledge snap-0, (confirm)"},
		{name: "finished", request: "bound", content: "made finished",
			want: "forget"},
		{name: "failed", request: "bound", content: "made", pods: []string{"snap-0 failed"},
			want: `tell snapshot ProvisionerFailed, error "the container exited with code 1 and lef", requeue in 500ms`},
		{name: "failed, and the ConfigMap was edited", request: "bound", content: "made", pods: []string{"snap-0 failed"}, also: "new-config",
			want: `tell snapshot ProvisionerFailed, error "the container exited with code 1 and lef", create snapshot 1 suspect, keep the name of snap-0, (confirm)`},
		{name: "refused, and the ConfigMap was edited", request: "bound", content: "made", pods: []string{"snap-0 refused"}, also: "new-config",
			want: `tell snapshot ProvisionerRefused, error "the container exited with code 64 (it re", create snapshot 1, keep the name of snap-0, (confirm)`},
		{name: "refused after one that may have made it, and the ConfigMap was edited", request: "bound", content: "made", pods: []string{"snap-1 refused suspect"}, also: "new-config",
			want: `tell snapshot ProvisionerRefused, error "the container exited with code 64 (it re", create snapshot 2 suspect, acknowledge snap-1, (confirm)`},
		{name: "failed, and an administrator asks for the next", request: "bound", content: "made", pods: []string{"snap-0 failed kept", "snap-1 failed retry"},
			want: `tell snapshot ProvisionerFailed, error "the container exited with code 1 and lef", create snapshot 2 suspect, acknowledge snap-1, keep the name of snap-0, (confirm)`},
		{name: "failed, and the volume is gone", request: "bound", content: "made", source: "none", pods: []string{"snap-0 failed retry"},
			want: `tell snapshot ProvisionerFailed, tell snapshot SnapshotRefused, error "volume pvc-11111111-2222-3333-4444-55555"`},
		{name: "failed, and the volume is gone, as the status says", request: "bound", content: "made", source: "none", pods: []string{"snap-0 failed retry"}, said: volumeGone,
			want: "tell snapshot ProvisionerFailed, tell snapshot SnapshotRefused"},
		{name: "failed, and the volume is released", request: "bound", content: "made", source: "fits released", pods: []string{"snap-0 failed retry"},
			want: `tell snapshot ProvisionerFailed, tell snapshot SnapshotRefused, error "volume pvc-11111111-2222-3333-4444-55555"`},
		{name: "volume is being deleted", request: "bound", content: "made", source: "fits bound deleting",
			want: `tell snapshot SnapshotRefused, error "volume pvc-11111111-2222-3333-4444-55555"`},
		{name: "record lost", request: "bound", content: "made recordless",
			want: `tell snapshot VolumeRecordInvalid, error "VolumeSnapshotContent snapcontent-111111"`},
		{name: "record lost, taken", request: "bound", content: "made recordless", pods: []string{"snap-0 done"},
			want: "tell snapshot SnapshotTaken, finish content, ready since 1m0s, 0 bytes, (confirm)"},
		{name: "content of the snapshot-controller, for a CSI volume", request: "bound", content: "made recordless unmarked",
			want: "record content, (confirm)"},
		{name: "content of the snapshot-controller, volume of another provisioner", request: "bound", content: "made recordless unmarked", source: "fits bound foreign",
			want: `tell snapshot SnapshotRefused, error "volume pvc-11111111-2222-3333-4444-55555"`},
		{name: "content of the snapshot-controller, the claim is gone", request: "bound", content: "made recordless unmarked", also: "no-claim",
			want: `tell snapshot SnapshotWaits, error "claim data does not exist; the snapshot "`},
		{name: "content of the snapshot-controller, the VolumeSnapshot is gone", content: "made recordless unmarked",
			want: `tell snapshot VolumeRecordInvalid, error "VolumeSnapshotContent snapcontent-111111"`},
		{name: "content of the snapshot-controller, deleted", content: "made recordless unmarked deleting released",
			want: "release content, (confirm)"},
		{name: "content of the snapshot-controller, deleted beside the VolumeSnapshot", request: "bound", content: "made recordless unmarked deleting",
			want: `tell content DeletionHeld, error "storage waits to be removed: VolumeSnaps", (confirm)`},
		{name: "all that was written on it is lost, and a pod has run", request: "bound", content: "made recordless unmarked", pods: []string{"snap-0 failed"},
			want: `tell snapshot VolumeRecordInvalid, error "VolumeSnapshotContent snapcontent-111111"`},
		{name: "content that nobody here made", content: "wild",
			want: `tell snapshot VolumeRecordInvalid, error "VolumeSnapshotContent wild asks for a sn"`},
		{name: "VolumeSnapshot is being deleted, and a claim is to be restored from it", request: "deleting", content: "made",
			want: "create snapshot 0, (confirm)"},
		{name: "VolumeSnapshot gone before a pod was made", content: "made",
			want: `tell snapshot SnapshotRefused, error "VolumeSnapshot team-a/daily does not exi", (confirm)`},
		{name: "VolumeSnapshot gone, to be retained", content: "made retain released",
			want: `tell snapshot SnapshotRefused, error "VolumeSnapshot team-a/daily does not exi", (confirm)`},
		{name: "VolumeSnapshot gone, pod has no node", content: "made", pods: []string{"snap-0 unschedulable"},
			want: "stop snap-0, (confirm)"},
		{name: "VolumeSnapshot gone, pod runs", content: "made", pods: []string{"snap-0 running"}},
		{name: "VolumeSnapshot gone, taken", content: "made", pods: []string{"snap-0 done"},
			want: "tell snapshot SnapshotTaken, finish content, ready since 1m0s, 1073741824 bytes, (confirm)"},
		{name: "VolumeSnapshot gone, pod failed", content: "made", pods: []string{"snap-0 failed"},
			want: `tell snapshot ProvisionerFailed, tell snapshot SnapshotRefused, error "VolumeSnapshot team-a/daily does not exi", (confirm)`},
		{name: "content of another driver", content: "made alien",
			want: "forget"},
		{name: "by hand", content: "byhand recordless",
			want: "ready since 1h0m0s, 0 bytes"},
		{name: "by hand, ready", content: "byhand recordless ready",
			want: "forget"},
		{name: "VolumeSnapshot was taken off a ready content", content: "made finished",
			want: "tell content StorageLeftBehind, (confirm)"},
		{name: "objects not served yet", also: "unserved", pods: []string{"snap-0 done"},
			want: "requeue in 5s"},
		{name: "content gone, pod runs", pods: []string{"snap-0 running"},
			want: "(confirm)"},
		{name: "content gone, taken", pods: []string{"snap-0 done"},
			want: "tell pod StorageLeftBehind, acknowledge snap-0, (confirm)"},
		{name: "content gone, removed", pods: []string{"snap-0 done kept", "sdl-0 done"},
			want: "acknowledge sdl-0, acknowledge snap-0, (confirm)"},
		{name: "deleted before a pod was made", content: "made deleting released",
			want: "release content, (confirm)"},
		{name: "deleted, pod has no node", content: "made deleting released", pods: []string{"snap-0 unschedulable"},
			want: "stop snap-0, (confirm)"},
		{name: "deleted, pod runs", content: "made deleting released", pods: []string{"snap-0 running"}},
		{name: "deleted, pod never started", content: "made deleting released", pods: []string{"snap-0 unstarted"},
			want: "acknowledge snap-0, (confirm)"},
		{name: "deleted, pod never started after one that may have made it", content: "made deleting released", pods: []string{"snap-1 unstarted suspect"},
			want: "create delete-snapshot 0, (confirm)"},
		{name: "deleted, pod failed", content: "made deleting released", pods: []string{"snap-0 failed"},
			want: "create delete-snapshot 0, (confirm)"},
		{name: "deleted, pod killed: it may be under way", content: "made deleting released", pods: []string{"snap-0 killed"},
			want: "requeue in 59.5s, (confirm)"},
		{name: "deleted, taken and not written yet", content: "made deleting released", pods: []string{"snap-0 done"},
			want: "create delete-snapshot 0, (confirm)"},
		{name: "deleted", content: "made finished deleting released",
			want: "create delete-snapshot 0, (confirm)"},
		{name: "deleted, removal runs", content: "made finished deleting released", pods: []string{"sdl-0 running"}},
		{name: "deleted, removed", content: "made finished deleting released", pods: []string{"sdl-0 done"},
			want: "release content, (confirm)"},
		{name: "deleted, removal failed", content: "made finished deleting released", pods: []string{"sdl-0 failed"},
			want: "tell content ProvisionerFailed, requeue in 500ms, (confirm)"},
		{name: "deleted, removal failed, and an administrator asks for the next", content: "made finished deleting released", pods: []string{"sdl-0 failed retry"},
			want: "tell content ProvisionerFailed, create delete-snapshot 1, keep the name of sdl-0, (confirm)"},
		{name: "deleted, removed beside an attempt", content: "made deleting released", pods: []string{"snap-0 done", "sdl-0 done early"},
			want: "acknowledge sdl-0, (confirm)"},
		{name: "deleted, and others keep it", content: "made finished deleting released unkept", pods: []string{"sdl-0 done"}},
		{name: "deleted, to be retained", content: "made finished deleting released retain",
			want: "release content, (confirm)"},
		{name: "deleted, to be retained, pod failed", content: "made deleting released retain", pods: []string{"snap-0 failed"},
			want: "acknowledge snap-0, (confirm)"},
		{name: "deleted, and the VolumeSnapshot has it", request: "bound", content: "made finished deleting",
			want: "tell content DeletionHeld, (confirm)"},
		{name: "deleted by somebody, and the VolumeSnapshot waits for it", request: "bound", content: "made deleting", pods: []string{"snap-0 done"},
			want: `tell content DeletionHeld, error "storage waits to be removed: VolumeSnaps", (confirm)`},
		{name: "deleted, and the VolumeSnapshot was taken off it", content: "made finished deleting",
			want: "tell content DeletionHeld, (confirm)"},
		{name: "deleted, the VolumeSnapshot was taken off it, and it is allowed", content: "made finished deleting allowed",
			want: "create delete-snapshot 0, (confirm)"},
		{name: "deleted, the VolumeSnapshot was taken off it, pod failed", content: "made deleting", pods: []string{"snap-0 failed"},
			want: "tell content DeletionHeld, (confirm)"},
		{name: "deleted, and a backup tool brought it back without a status", content: "made deleting unmarked",
			want: "tell content DeletionHeld, (confirm)"},
		{name: "deleted, and the VolumeSnapshot has it, allowed all the same", request: "bound", content: "made finished deleting allowed",
			want: "tell content DeletionHeld, (confirm)"},
		{name: "deleted, deletions stopped", content: "made finished deleting released", also: "stopped",
			want: "tell content DeletionStopped, (confirm)"},
		{name: "deleted, deletions stopped, pod starts", content: "made finished deleting released", also: "stopped", pods: []string{"sdl-0 pending"},
			want: "tell content DeletionStopped, stop sdl-0"},
		{name: "deleted while it is restored", content: "made finished deleting released", also: "restored",
			want: "tell content CloneRunning, requeue in 5m0s, (confirm)"},
		{name: "deleted, and another content has it", content: "made finished deleting released", also: "twin",
			want: "tell content DeletionHeld, requeue in 5m0s, (confirm)"},
		{name: "deleted, another content has it, and it is allowed", content: "made finished deleting released allowed", also: "twin",
			want: "create delete-snapshot 0, (confirm)"},
		{name: "deleted, the limit of a young one", content: "made finished deleting released", also: "limited",
			want: "create delete-snapshot 0, (confirm)"},
		{name: "deleted, the limit", content: "made finished deleting released old", also: "limited",
			want: "tell content DeletionLimit, requeue in 5m0s, (confirm)"},
		{name: "deleted, the limit, and it is allowed", content: "made finished deleting released old allowed", also: "limited",
			want: "create delete-snapshot 0, (confirm)"},
		{name: "deleted, record lost", content: "made finished deleting released recordless",
			want: "tell content VolumeRecordInvalid, (confirm)"},
		{name: "deleted, record lost, allowed all the same", content: "made finished deleting released recordless allowed",
			want: "tell content VolumeRecordInvalid, (confirm)"},
		{name: "deleted, by hand", content: "byhand recordless ready deleting released",
			want: "create delete-snapshot 0, (confirm)"},
		{name: "deleted, by hand, of a class", content: "byhand of-class ready deleting released",
			want: "create delete-snapshot 0, (confirm)"},
		{name: "deleted, no ConfigMap", content: "made finished deleting released", also: "no-config",
			want: "tell content ProvisionerConfigMissing, (confirm)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := describe(Decide(c.observed(t))); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
