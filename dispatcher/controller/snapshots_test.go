package controller

import (
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	"github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned/fake"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientfeatures "k8s.io/client-go/features"
	clienttesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// snapshotContent is the content of a snapshot of the volume.
func snapshotContent(t *testing.T, v *corev1.PersistentVolume) *snapshotv1.VolumeSnapshotContent {
	t.Helper()

	uid := uidOf(9)
	content := &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: podspec.ContentName(uid), UID: "content", ResourceVersion: "1"},
		Spec: snapshotv1.VolumeSnapshotContentSpec{Driver: "p",
			VolumeSnapshotRef: corev1.ObjectReference{Namespace: "team-a", Name: "daily", UID: "11111111-2222-3333-4444-000000000009"},
			Source:            snapshotv1.VolumeSnapshotContentSource{VolumeHandle: &v.Name}},
	}
	if err := dispatchertest.Key.RecordContent(content, v); err != nil {
		t.Fatal(err)
	}

	return content
}

// snapshotting is an idle controller whose caches hold objects of snapshots.
func snapshotting(t *testing.T, objects ...runtime.Object) *Controller {
	t.Helper()
	c, _ := idle(t)
	clienttesting.SetFeatureDuringTest(t, clientfeatures.WatchListClient, false) // the fake never ends such a list
	client := fake.NewSimpleClientset(objects...)
	c.reader.Snapshots, c.writer.Snapshots = client, client
	if err := c.Cache.ServeSnapshots(t.Context(), client); err != nil {
		t.Fatal(err)
	}

	return c
}

// A pod that was just created to take a snapshot keeps its volume, although the cache does not show it yet.
func TestDeleteWaitsForExpectedSnapshot(t *testing.T) {
	v := volumeOf(1)
	content := snapshotContent(t, v)
	c := snapshotting(t, content)
	if got := c.copyExpected(v); got != "" {
		t.Errorf("copied by %q before there was a pod", got)
	}

	name := podspec.Name(contract.Snapshot, uidOf(9), 0)
	c.memory.expectCreation(uidOf(9), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if got, want := c.copyExpected(v), "pod ns/"+name+" for VolumeSnapshotContent "+content.Name; got != want {
		t.Errorf("copied by %q, want %q", got, want)
	}

	if got := c.copyExpected(volumeOf(2)); got != "" {
		t.Errorf("another volume is copied by %q", got)
	}
}

// Of a ready content that nobody deletes any more somebody is told, whether its VolumeSnapshot goes or its policy changes last.
func TestContentLeft(t *testing.T) {
	ready, handle := true, podspec.SnapshotName(uidOf(9))
	content := snapshotContent(t, volumeOf(1))
	content.Spec.DeletionPolicy = snapshotv1.VolumeSnapshotContentDelete
	content.Status = &snapshotv1.VolumeSnapshotContentStatus{ReadyToUse: &ready, SnapshotHandle: &handle}
	content.Spec.Driver = contract.SnapshotDriver("p")
	retained := content.DeepCopy()
	retained.Spec.DeletionPolicy = snapshotv1.VolumeSnapshotContentRetain
	request := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "daily", UID: content.Spec.VolumeSnapshotRef.UID}}

	changes := func(c *Controller) { c.contentChanged(c.Cache.Content(uidOf(9)), false) }
	for _, c := range []struct {
		name    string
		objects []runtime.Object
		changed func(*Controller)
		want    int
	}{
		{"its VolumeSnapshot exists", []runtime.Object{content, request}, changes, 0},
		{"its VolumeSnapshot goes", []runtime.Object{content}, func(c *Controller) { c.requestChanged(request, true) }, 1},
		{"its VolumeSnapshot goes, and it is retained", []runtime.Object{retained}, func(c *Controller) { c.requestChanged(request, true) }, 0},
		{"its policy becomes Delete", []runtime.Object{content}, changes, 1},
		{"it goes", nil, func(c *Controller) { c.contentChanged(content, true) }, 0},
	} {
		controller := snapshotting(t, c.objects...)
		c.changed(controller)
		if got := controller.queue.Active("silver"); got != c.want {
			t.Errorf("%s: %d contents are known, want %d", c.name, got, c.want)
		}
	}
}

// A content that another leader has set ready meanwhile is not set back: the live read shows it, and the volume too.
func TestConfirmSnapshot(t *testing.T) {
	v := volumeOf(1)
	v.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}
	content := snapshotContent(t, v)
	c := snapshotting(t, content)
	serve(t, c, func(path string) any {
		switch path {
		case "/api/v1/persistentvolumes/" + v.Name:
			return v
		case "/api/v1/namespaces/ns/pods":
			return &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
		}

		return nil
	})

	s := &observed.Claim{UID: uidOf(9), Now: time.Now(), ClassName: "silver", Provisioner: "p"}
	s.SetSnapshot(&observed.Snapshot{Driver: "p", Content: c.Cache.Content(uidOf(9))})
	if err := c.confirmSnapshot(t.Context(), s); err != nil {
		t.Fatal(err)
	}

	if of := s.Snapshot; of.Content == nil || of.Source == nil || s.Volume == nil || s.Confirmed.IsZero() {
		t.Errorf("confirmed %+v", s.Snapshot)
	}

	// The content was made anew under its name.
	s.Snapshot.Content = s.Snapshot.Content.DeepCopy()
	s.UID = uidOf(8)
	if err := c.confirmSnapshot(t.Context(), s); err != nil {
		t.Fatal(err)
	}

	if of := s.Snapshot; of.Content != nil || of.Taken == nil || of.Source != nil {
		t.Errorf("confirmed %+v", s.Snapshot)
	}
}

// A content of an administrator may name any text as its VolumeSnapshot. None has such a name.
func TestConfirmWildReference(t *testing.T) {
	handle := "backup-1"
	content := &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: "imported", UID: "own"},
		Spec: snapshotv1.VolumeSnapshotContentSpec{Driver: "p", Source: snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: &handle}}}
	c, _ := idle(t)
	c.reader.Snapshots = versioned.NewForConfigOrDie(&rest.Config{}) // makes no request
	for _, ref := range []corev1.ObjectReference{
		{Namespace: "team-a", Name: "a/b", UID: "u"}, {Namespace: "team-a", Name: "..", UID: "u"}, {Namespace: "a/b", Name: "daily", UID: "u"},
	} {
		content.Spec.VolumeSnapshotRef = ref
		of := &observed.Snapshot{Content: content}
		if err := c.confirmRequest(t.Context(), of); err != nil || of.Request != nil {
			t.Errorf("VolumeSnapshot %s/%s: %+v, %v", ref.Namespace, ref.Name, of.Request, err)
		}
	}
}
