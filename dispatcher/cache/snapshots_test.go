package cache

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned/fake"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientfeatures "k8s.io/client-go/features"
	clienttesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// snapshotUID is the n-th of VolumeSnapshots.
func snapshotUID(n int) string { return fmt.Sprintf("11111111-2222-3333-4444-%012d", n) }

// request asks for a snapshot of claim data. bound is the content that it has, empty for none.
func request(n int, bound string) *snapshotv1.VolumeSnapshot {
	claim, class := "data", "fast"
	o := &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: fmt.Sprintf("daily-%d", n), UID: types.UID(snapshotUID(n)), ResourceVersion: "7",
			Finalizers: []string{contract.SnapshotFinalizer, "example.com/backup"}, Labels: map[string]string{"app": "x"},
			Annotations:     map[string]string{corev1.LastAppliedConfigAnnotation: "{}"},
			OwnerReferences: []metav1.OwnerReference{{Name: "cron"}}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}},
		Spec: snapshotv1.VolumeSnapshotSpec{VolumeSnapshotClassName: &class,
			Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &claim}},
	}
	if bound != "" {
		message := "an earlier failure"
		o.Status = &snapshotv1.VolumeSnapshotStatus{BoundVolumeSnapshotContentName: &bound, Error: &snapshotv1.VolumeSnapshotError{Message: &message}}
	}

	return o
}

// content is that of the n-th VolumeSnapshot, with a valid record.
func content(t *testing.T, n int) *snapshotv1.VolumeSnapshotContent {
	t.Helper()

	uid, handle, class, mode, yes, size := snapshotUID(n), "pvc-1", "fast", corev1.PersistentVolumeFilesystem, true, int64(1<<30)
	name := podspec.SnapshotName(uid)
	o := &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: podspec.ContentName(uid), UID: types.UID(fmt.Sprintf("content-%d", n)), ResourceVersion: "7",
			Finalizers: []string{contract.ContentFinalizer, "example.com/backup"}, Labels: map[string]string{"app": "x"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
			Annotations:   map[string]string{contract.AnnBeingCreated: "yes", "example.com/note": "x"}},
		Spec: snapshotv1.VolumeSnapshotContentSpec{Driver: contract.SnapshotDriver("p"), DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
			VolumeSnapshotClassName: &class, SourceVolumeMode: &mode,
			VolumeSnapshotRef: corev1.ObjectReference{Kind: "VolumeSnapshot", Namespace: "team-a", Name: fmt.Sprintf("daily-%d", n), UID: types.UID(uid)},
			Source:            snapshotv1.VolumeSnapshotContentSource{VolumeHandle: &handle}},
		Status: &snapshotv1.VolumeSnapshotContentStatus{ReadyToUse: &yes, SnapshotHandle: &name, RestoreSize: &size},
	}
	if err := dispatchertest.Key.RecordContent(o, fullVolume(dispatchertest.UID)); err != nil {
		t.Fatal(err)
	}

	return o
}

// byHand is a content that an administrator made for a handle, and deletes.
func byHand(name, handle string) *snapshotv1.VolumeSnapshotContent {
	return &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name), DeletionTimestamp: &metav1.Time{Time: dispatchertest.Noon},
			Finalizers: []string{contract.ContentFinalizer}},
		Spec: snapshotv1.VolumeSnapshotContentSpec{Driver: contract.SnapshotDriver("p"), Source: snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: &handle}}}
}

func keptSnapshot[T any](t *testing.T, obj T) T {
	t.Helper()

	c := &Cache{key: dispatchertest.Key, provisioner: "p"}
	kept, err := c.transformSnapshot(obj)
	if err != nil {
		t.Fatal(err)
	}

	return kept.(T)
}

// A VolumeSnapshot keeps what it asks for, and a content all that the dispatcher decides by, however often they are transformed.
func TestKeptOfSnapshots(t *testing.T) {
	o := request(1, "snapcontent-1")
	wanted := &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "daily-1", UID: o.UID, ResourceVersion: "7", Finalizers: []string{contract.SnapshotFinalizer}},
		Spec:       *o.Spec.DeepCopy(),
		Status:     &snapshotv1.VolumeSnapshotStatus{BoundVolumeSnapshotContentName: new("snapcontent-1")}}
	for range 2 {
		if o = keptSnapshot(t, o); !reflect.DeepEqual(o, wanted) {
			t.Errorf("got\n%+v\nwant\n%+v", o, wanted)
		}
	}

	for name, c := range map[string]struct {
		record string // instead of a valid one
		volume bool
		marks  map[string]string
	}{
		"recorded":                        {volume: true, marks: map[string]string{podspec.Verified: "true"}},
		"an administrator vouches for it": {record: contract.RecordTrusted, volume: true, marks: map[string]string{contract.AnnRecord: contract.RecordTrusted}},
		"somebody else signed its record": {record: "00"},
	} {
		t.Run(name, func(t *testing.T) {
			o := content(t, 1)
			want := o.DeepCopy()
			want.ObjectMeta = metav1.ObjectMeta{Name: o.Name, UID: o.UID, ResourceVersion: "7", Finalizers: slices.Clone(o.Finalizers),
				Annotations: map[string]string{contract.AnnBeingCreated: "yes"}}
			want.Spec.VolumeSnapshotRef.Kind, want.Spec.VolumeSnapshotClassName = "", nil
			maps.Copy(want.Annotations, c.marks)
			want.Annotations[contract.AnnVolume] = ""
			if c.volume {
				want.Annotations[contract.AnnVolume] = o.Annotations[contract.AnnVolume]
			}

			if c.record != "" {
				o.Annotations[contract.AnnRecord] = c.record
			}

			for range 2 {
				if o = keptSnapshot(t, o); !reflect.DeepEqual(o, want) {
					t.Errorf("got\n%+v\nwant\n%+v", o, want)
				}
			}

			if v := podspec.VolumeOf(o); (v != nil) != c.volume {
				t.Errorf("the recorded volume is %+v", v)
			}
		})
	}
}

// The definitions of these kinds limit no text. Tenants write VolumeSnapshots, and drivers of others contents.
func TestLargeSnapshots(t *testing.T) {
	const atMost = 8 << 10
	text := strings.Repeat("x", 1<<20)
	many := slices.Repeat([]string{"example.com/finalizer"}, 10_000)
	meta := metav1.ObjectMeta{Namespace: "team-a", Name: "large", UID: "uid", GenerateName: text, Finalizers: append(many, contract.SnapshotFinalizer),
		Labels: map[string]string{"label": text}, OwnerReferences: make([]metav1.OwnerReference, 10_000),
		Annotations: map[string]string{"text": text, contract.AnnVolume: text, contract.AnnClass: text, contract.AnnAllowDelete: text,
			contract.AnnBeingCreated: text, contract.AnnBeingDeleted: text, contract.AnnModeChange: text, contract.AnnRecord: text}}
	ofContent := meta
	ofContent.Finalizers = meta.Finalizers[10_000:]
	fault := &snapshotv1.VolumeSnapshotError{Message: &text}
	for name, o := range map[string]runtime.Object{
		"a claim": &snapshotv1.VolumeSnapshot{ObjectMeta: meta, Spec: snapshotv1.VolumeSnapshotSpec{VolumeSnapshotClassName: &text,
			Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &text}},
			Status: &snapshotv1.VolumeSnapshotStatus{BoundVolumeSnapshotContentName: &text, VolumeGroupSnapshotName: &text, Error: fault}},
		"a content": &snapshotv1.VolumeSnapshot{ObjectMeta: meta, Spec: snapshotv1.VolumeSnapshotSpec{
			Source: snapshotv1.VolumeSnapshotSource{VolumeSnapshotContentName: &text}}},
		"a handle": &snapshotv1.VolumeSnapshotContent{ObjectMeta: ofContent, Spec: snapshotv1.VolumeSnapshotContentSpec{Driver: text, VolumeSnapshotClassName: &text,
			VolumeSnapshotRef: corev1.ObjectReference{Kind: text, Namespace: text, Name: text, UID: types.UID(text), APIVersion: text, ResourceVersion: text, FieldPath: text},
			Source:            snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: &text}, SourceVolumeMode: (*corev1.PersistentVolumeMode)(&text)},
			Status: &snapshotv1.VolumeSnapshotContentStatus{SnapshotHandle: &text, VolumeGroupSnapshotHandle: &text, Error: fault}},
		"a volume": &snapshotv1.VolumeSnapshotContent{ObjectMeta: ofContent, Spec: snapshotv1.VolumeSnapshotContentSpec{
			Source: snapshotv1.VolumeSnapshotContentSource{VolumeHandle: &text}}},
	} {
		t.Run(name, func(t *testing.T) {
			kept, err := json.Marshal(keptSnapshot(t, o))
			if err != nil {
				t.Fatal(err)
			}

			if len(kept) > atMost {
				t.Errorf("%d bytes stay, want %d at most: %.200s", len(kept), atMost, kept)
			}
		})
	}
}

// A handle that is too long is none, also when it is shortened.
func TestLargeHandle(t *testing.T) {
	kept := keptSnapshot(t, byHand("large", strings.Repeat("x", 1<<20)))
	if observed.HandleFault(kept) == "" {
		t.Errorf("handle %q is valid", podspec.HandleOf(kept))
	}
}

// snapshotting is a cache whose informers of snapshots hold the objects.
func snapshotting(t *testing.T, objects ...runtime.Object) *Cache {
	t.Helper()

	c, err := New(kubernetes.NewForConfigOrDie(&rest.Config{}), "ns", "p", dispatchertest.Key) // makes no request
	if err != nil {
		t.Fatal(err)
	}

	clienttesting.SetFeatureDuringTest(t, clientfeatures.WatchListClient, false) // the fake never ends such a list
	if err := c.ServeSnapshots(t.Context(), fake.NewSimpleClientset(objects...)); err != nil {
		t.Fatal(err)
	}

	return c
}

func namesOf[T metav1.Object](list ...T) string {
	var names []string
	for _, o := range list {
		if !reflect.ValueOf(o).IsNil() {
			names = append(names, o.GetName())
		}
	}

	return strings.Join(slices.Sorted(slices.Values(names)), " ")
}

// lookUp finds everything that the rows of TestIndexesOfSnapshots name.
func lookUp(c *Cache) map[string]string {
	return map[string]string{
		"the VolumeSnapshot of a UID":             namesOf(c.Request(snapshotUID(1))),
		"the VolumeSnapshot of a name":            namesOf(c.RequestNamed("team-a", "daily-1")),
		"that of another namespace":               namesOf(c.RequestNamed("team-b", "daily-1")),
		"those that wait for a claim":             namesOf(c.RequestsFor("team-a", "data")...),
		"those of a class":                        namesOf(c.RequestsOf("fast")...),
		"a class":                                 namesOf(c.SnapshotClass("fast")),
		"a content of a name":                     namesOf(c.ContentNamed("imported")),
		"the content of a VolumeSnapshot":         namesOf(c.Content(snapshotUID(1))),
		"that of its own UID":                     namesOf(c.Content("content-1")),
		"one by hand":                             namesOf(c.Content("uid-of-imported")),
		"one by hand with the name of another's":  namesOf(c.Content(snapshotUID(2))),
		"the same by its UID":                     namesOf(c.Content("uid-of-" + podspec.ContentName(snapshotUID(2)))),
		"contents of a snapshot":                  namesOf(c.ContentsOf("backup-1")...),
		"contents of a dispatcher's own snapshot": namesOf(c.ContentsOf(podspec.SnapshotName(snapshotUID(1)))...),
		"deleted contents":                        namesOf(c.DeletedContents()...),
	}
}

func TestIndexesOfSnapshots(t *testing.T) {
	alien := byHand("alien", "backup-1")
	alien.Spec.Driver = "csi.example.com"
	released := byHand("released", "backup-2")
	released.Finalizers = nil
	named := byHand(podspec.ContentName(snapshotUID(2)), "backup-1")
	class := &snapshotv1.VolumeSnapshotClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Driver: contract.SnapshotDriver("p")}
	c := snapshotting(t, request(1, ""), request(2, "imported"), content(t, 1), byHand("imported", "backup-1"), alien, released, named, class)
	want := map[string]string{
		"the VolumeSnapshot of a UID":             "daily-1",
		"the VolumeSnapshot of a name":            "daily-1",
		"that of another namespace":               "",
		"those that wait for a claim":             "daily-1",
		"those of a class":                        "daily-1 daily-2",
		"a class":                                 "fast",
		"a content of a name":                     "imported",
		"the content of a VolumeSnapshot":         podspec.ContentName(snapshotUID(1)),
		"that of its own UID":                     "",
		"one by hand":                             "imported",
		"one by hand with the name of another's":  "",
		"the same by its UID":                     named.Name,
		"contents of a snapshot":                  "imported " + named.Name,
		"contents of a dispatcher's own snapshot": podspec.ContentName(snapshotUID(1)),
		"deleted contents":                        "imported " + named.Name,
	}
	unserved := &Cache{}
	for name, got := range lookUp(c) {
		if got != want[name] {
			t.Errorf("%s: got %q, want %q", name, got, want[name])
		}
	}

	for name, got := range lookUp(unserved) {
		if got != "" {
			t.Errorf("%s, not served yet: got %q, want none", name, got)
		}
	}
}
