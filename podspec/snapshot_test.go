package podspec

import (
	"bytes"
	"strings"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

const aSnapshot = "11111111-2222-4333-8444-555555555555"

func TestContentRecord(t *testing.T) {
	key := RecordKey(bytes.Repeat([]byte{1}, MinRecordKey))
	type content = snapshotv1.VolumeSnapshotContent
	for _, c := range []struct {
		name   string
		change func(*content)
		other  RecordKey
		volume string
	}{
		{name: "as signed", change: func(*content) {}, volume: "pvc-1"},
		{name: "with a label", change: func(o *content) { o.Labels = map[string]string{"a": "b"} }, volume: "pvc-1"},
		{name: "restored by a backup tool under another name", change: func(o *content) {
			o.Name, o.Spec.Source.SnapshotHandle = "velero-1", new(SnapshotName(aSnapshot))
		}, volume: "pvc-1"},
		{name: "of another snapshot", change: func(o *content) { o.Spec.Source.SnapshotHandle = new("snap-2") }},
		{name: "another name", change: func(o *content) { o.Name = ContentName("2" + aSnapshot[1:]) }},
		{name: "another volume", change: func(o *content) {
			o.Annotations[contract.AnnVolume] = strings.Replace(o.Annotations[contract.AnnVolume], "pvc-1", "pvc-2", 1)
		}},
		{name: "another key", change: func(*content) {}, other: bytes.Repeat([]byte{2}, MinRecordKey)},
		{name: "no record", change: func(o *content) { delete(o.Annotations, contract.AnnRecord) }},
		{name: "an administrator vouches for it", change: func(o *content) {
			o.Annotations[contract.AnnVolume] = `{"metadata":{"name":"pvc-2"}}`
			o.Annotations[contract.AnnRecord] = contract.RecordTrusted
		}, volume: "pvc-2"},
		{name: "an administrator vouches for nothing", change: func(o *content) {
			o.Annotations[contract.AnnVolume] = "pvc-2"
			o.Annotations[contract.AnnRecord] = contract.RecordTrusted
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1",
				Annotations: map[string]string{contract.AnnRecord: "00", contract.AnnIdentity: "{}"}}}
			o := &content{ObjectMeta: metav1.ObjectMeta{Name: ContentName(aSnapshot)}}
			if err := key.RecordContent(o, v); err != nil {
				t.Fatal(err)
			}

			c.change(o)
			verifier := key
			if c.other != nil {
				verifier = c.other
			}

			verifier.MarkContent(o)
			verifier.MarkContent(o) // a second time changes nothing

			got := ""
			if v := VolumeOf(o); v != nil {
				got = v.Name
				if Recorded(v) == Trusted(v) {
					t.Errorf("recorded %v, trusted %v", Recorded(v), Trusted(v))
				}
			}

			if got != c.volume {
				t.Errorf("volume %q, want %q", got, c.volume)
			}
		})
	}
}

func TestContentRecordTooLarge(t *testing.T) {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1",
		Annotations: map[string]string{"a": strings.Repeat("x", maxRecordedVolume)}}}
	o := &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: ContentName(aSnapshot)}}
	err := RecordKey(bytes.Repeat([]byte{1}, MinRecordKey)).RecordContent(o, v)
	want := "volume pvc-1 is 65610 bytes, and VolumeSnapshotContent " + o.Name +
		" keeps a copy of 65536 at most: remove annotations from the volume"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
