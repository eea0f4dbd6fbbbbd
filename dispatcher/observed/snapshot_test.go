package observed

import (
	"reflect"
	"strings"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// imported is a content that somebody made for a snapshot of a handle.
func imported(handle string) *snapshotv1.VolumeSnapshotContent {
	return &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: "imported", UID: "own-uid"},
		Spec: snapshotv1.VolumeSnapshotContentSpec{Driver: "p", Source: snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: &handle}}}
}

// dynamic is the content that the dispatcher makes for VolumeSnapshot team-a/daily, of the volume. Its record is valid.
func dynamic(t *testing.T, v *corev1.PersistentVolume) *snapshotv1.VolumeSnapshotContent {
	t.Helper()

	content := imported("")
	content.Name, content.Spec.Source = podspec.ContentName(dispatchertest.UID), snapshotv1.VolumeSnapshotContentSource{VolumeHandle: &v.Name}
	content.Spec.VolumeSnapshotRef = corev1.ObjectReference{Namespace: "team-a", Name: "daily", UID: dispatchertest.UID}
	if err := dispatchertest.Key.RecordContent(content, v); err != nil {
		t.Fatal(err)
	}

	dispatchertest.Key.MarkContent(content)

	return content
}

// Provisioners use a handle as a name of files, in scripts and in URLs.
func TestHandleFault(t *testing.T) {
	longest := strings.Repeat("x", 253)
	for handle, shown := range map[string]string{
		"snap-" + dispatchertest.UID: "", "0": "", "A.b_c-d": "", "a..b": "", longest: "",
		"":                         `""`,
		longest + "x":              `"` + longest[:64] + `"`,
		strings.Repeat("é", 1<<19): `"` + strings.Repeat("é", 64) + `"`,
		".":                        `"."`,
		"..":                       `".."`,
		"-rf":                      `"-rf"`,
		"a/../b":                   `"a/../b"`,
		"a b":                      `"a b"`,
		"a\n":                      `"a\n"`,
		"a\x00":                    `"a\x00"`,
		"$(id)":                    `"$(id)"`,
		"a\u202eb":                 `"a\u202eb"`,
		"\xff":                     `"\xff"`,
	} {
		want := ""
		if shown != "" {
			want = "spec.source.snapshotHandle of VolumeSnapshotContent imported is " + shown + ": a handle has letters, digits, " +
				`".", "_" and "-", at most 253, and begins with a letter or digit; create the content again with another`
		}

		if got := HandleFault(imported(handle)); got != want {
			t.Errorf("%.80q: got\n%s\nwant\n%s", handle, got, want)
		}
	}
}

// A content is served under the UID of a VolumeSnapshot only if all of it says that the dispatcher made it for that one. Else it could
// take the place of that one's content.
func TestContentKey(t *testing.T) {
	for name, c := range map[string]struct {
		change func(o *snapshotv1.VolumeSnapshotContent)
		want   string
	}{
		"as the dispatcher made it":    {func(*snapshotv1.VolumeSnapshotContent) {}, dispatchertest.UID},
		"another name":                 {func(o *snapshotv1.VolumeSnapshotContent) { o.Name = "daily" }, "own-uid"},
		"a name with an end":           {func(o *snapshotv1.VolumeSnapshotContent) { o.Name += "-2" }, "own-uid"},
		"of another VolumeSnapshot":    {func(o *snapshotv1.VolumeSnapshotContent) { o.Spec.VolumeSnapshotRef.UID = "another" }, "own-uid"},
		"of none":                      {func(o *snapshotv1.VolumeSnapshotContent) { o.Spec.VolumeSnapshotRef.UID = "" }, "own-uid"},
		"by hand for the dispatcher's": {func(o *snapshotv1.VolumeSnapshotContent) { o.Spec.Source.SnapshotHandle = new("snap-1") }, "own-uid"},
		"no UID of a Kubernetes' object's": {func(o *snapshotv1.VolumeSnapshotContent) {
			o.Name, o.Spec.VolumeSnapshotRef.UID = "snapcontent-..", ".."
		}, "own-uid"},
	} {
		o := dynamic(t, dispatchertest.Volume("fits bound"))
		if c.change(o); ContentKey(o) != c.want {
			t.Errorf("%s: served under %q, want %q", name, ContentKey(o), c.want)
		}
	}
}

// Of contents with one snapshot each waits for one other at most, and one waits for none: they go one after the other.
func TestTwins(t *testing.T) {
	content := func(uid string) *snapshotv1.VolumeSnapshotContent {
		o := imported("backup-1")
		o.UID = types.UID(strings.TrimSuffix(uid, "-"))
		if strings.HasSuffix(uid, "-") {
			o.DeletionTimestamp = &metav1.Time{Time: dispatchertest.Noon}
		}

		return o
	}
	for _, c := range []struct {
		name, own, others string // a "-" after the UID of one that is being deleted
		twin              string
		after             bool
	}{
		{"alone", "b-", "", "", false},
		{"seen twice", "b-", "b", "", false},
		{"another one", "b-", "a", "a", false},
		{"one of many", "b-", "d c a", "a", false},
		{"the first", "b-", "c- d-", "c", false},
		{"the second", "b-", "a- c-", "a", true},
		{"the last", "c-", "b- a-", "a", true},
		{"those that go come before others", "b-", "a c-", "c", false},
		{"in whatever order", "b-", "c- a", "c", false},
		{"not being deleted itself", "b", "c- a-", "a", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			of := &Snapshot{Content: content(c.own), RestoredBy: "a pod of before"}
			var others []*snapshotv1.VolumeSnapshotContent
			for _, uid := range strings.Fields(c.others) {
				others = append(others, content(uid))
			}

			of.SetOthers(others, nil)
			twin := ""
			if of.Twin != nil {
				twin = string(of.Twin.UID)
			}

			if twin != c.twin || of.AfterTwin() != c.after || of.RestoredBy != "" {
				t.Errorf("twin %q, after it %v, restored by %q, want %q, %v", twin, of.AfterTwin(), of.RestoredBy, c.twin, c.after)
			}
		})
	}
}

func TestRestoredBy(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "prov-1-0", Annotations: map[string]string{contract.AnnClaim: "team-a/copy"}}}
	of := &Snapshot{Content: imported("backup-1")}
	of.SetOthers(nil, []*corev1.Pod{pod, {}})
	if want := "pod ns/prov-1-0 for claim team-a/copy"; of.RestoredBy != want {
		t.Errorf("restored by %q, want %q", of.RestoredBy, want)
	}
}

// What a name finds counts only with the UID: a later object of the name is another one. And the volume is that of the record.
func TestSetObjects(t *testing.T) {
	claim, class := "data", "fast"
	request := func(uid types.UID) *snapshotv1.VolumeSnapshot {
		return &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "daily", UID: uid},
			Spec: snapshotv1.VolumeSnapshotSpec{VolumeSnapshotClassName: &class, Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &claim}}}
	}
	recorded := dynamic(t, dispatchertest.Volume("fits bound"))
	unrecorded := dynamic(t, dispatchertest.Volume("fits bound"))
	delete(unrecorded.Annotations, podspec.Verified)
	lost := unrecorded.DeepCopy()
	delete(unrecorded.Annotations, contract.AnnVolume)
	for _, c := range []struct {
		name     string
		of       Snapshot
		found    types.UID // of the VolumeSnapshot of the name
		want     string
		hasClass bool
	}{
		{name: "a VolumeSnapshot", of: Snapshot{Request: request("r")}, hasClass: true, want: "taken snapcontent-r, claim data, volume pvc-of-data"},
		{name: "a content", of: Snapshot{Content: recorded}, found: dispatchertest.UID, hasClass: true, want: "claim data, volume " + ownVolume},
		{name: "a content whose VolumeSnapshot was made anew", of: Snapshot{Content: recorded}, found: "later", want: "volume " + ownVolume},
		{name: "a content that lost its record", of: Snapshot{Content: lost}, found: dispatchertest.UID, hasClass: true, want: "claim data"},
		{name: "a content of the snapshot-controller", of: Snapshot{Content: unrecorded}, found: dispatchertest.UID, hasClass: true, want: "claim data, volume pvc-of-data"},
		{name: "a content by hand", of: Snapshot{Content: imported("backup-1")}, want: ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			of := c.of
			of.SetObjects(SnapshotListers{
				Request: func(namespace, name string) *snapshotv1.VolumeSnapshot {
					if namespace != "team-a" || name != "daily" {
						return nil
					}

					return request(c.found)
				},
				Content: func(name string) *snapshotv1.VolumeSnapshotContent {
					return &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: name}}
				},
				Class: func(name string) *snapshotv1.VolumeSnapshotClass { return &snapshotv1.VolumeSnapshotClass{} },
				Claim: func(_, name string) *corev1.PersistentVolumeClaim { return claimOf("uid", "pvc-of-"+name) },
				Volume: func(name string) *corev1.PersistentVolume {
					return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
				},
			})

			var got []string
			if of.Taken != nil {
				got = append(got, "taken "+of.Taken.Name)
			}

			if of.Claim != nil {
				got = append(got, "claim "+of.Claim.Name)
			}

			if of.Source != nil {
				got = append(got, "volume "+of.Source.Name)
			}

			if all := strings.Join(got, ", "); all != c.want || (of.Class != nil) != c.hasClass {
				t.Errorf("got %q and class %+v, want %q", all, of.Class, c.want)
			}
		})
	}
}

// Only a VolumeSnapshot of the driver's class, without a content, asks. The snapshot-controller binds the others.
func TestAsks(t *testing.T) {
	name := "x"
	for _, c := range []struct {
		name   string
		change func(of *Snapshot)
		want   bool
	}{
		{"it asks", func(*Snapshot) {}, true},
		{"no VolumeSnapshot", func(of *Snapshot) { of.Request = nil }, false},
		{"being deleted", func(of *Snapshot) { of.Request.DeletionTimestamp = &metav1.Time{} }, false},
		{"of a content by hand", func(of *Snapshot) {
			of.Request.Spec.Source = snapshotv1.VolumeSnapshotSource{VolumeSnapshotContentName: &name}
		}, false},
		{"no class", func(of *Snapshot) { of.Class = nil }, false},
		{"another driver's", func(of *Snapshot) { of.Class.Driver = "csi.example.com" }, false},
		{"bound", func(of *Snapshot) { of.Request.Status.BoundVolumeSnapshotContentName = &name }, false},
	} {
		of := &Snapshot{Driver: "p", Class: &snapshotv1.VolumeSnapshotClass{Driver: "p"}, Request: &snapshotv1.VolumeSnapshot{
			Spec:   snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &name}},
			Status: &snapshotv1.VolumeSnapshotStatus{}}}
		if c.change(of); of.Asks() != c.want {
			t.Errorf("%s: asks %v, want %v", c.name, of.Asks(), c.want)
		}
	}
}

// What is not due is not looked at until it changes.
func TestDueContent(t *testing.T) {
	yes, handle := true, "snap-1"
	ready := &snapshotv1.VolumeSnapshotContentStatus{ReadyToUse: &yes, SnapshotHandle: &handle}
	for _, c := range []struct {
		name   string
		change func(o *snapshotv1.VolumeSnapshotContent)
		want   bool
	}{
		{"new", func(*snapshotv1.VolumeSnapshotContent) {}, true},
		{"another driver's", func(o *snapshotv1.VolumeSnapshotContent) { o.Spec.Driver = "csi.example.com" }, false},
		{"ready without a handle", func(o *snapshotv1.VolumeSnapshotContent) {
			o.Status = &snapshotv1.VolumeSnapshotContentStatus{ReadyToUse: &yes}
		}, true},
		{"ready", func(o *snapshotv1.VolumeSnapshotContent) { o.Status = ready }, false},
		{"ready, and marked", func(o *snapshotv1.VolumeSnapshotContent) {
			o.Status, o.Annotations[contract.AnnBeingCreated] = ready, "yes"
		}, true},
		{"by hand, and marked by somebody", func(o *snapshotv1.VolumeSnapshotContent) {
			o.Status, o.Annotations[contract.AnnBeingCreated], o.Spec.Source.SnapshotHandle = ready, "yes", &handle
		}, false},
		{"being deleted", func(o *snapshotv1.VolumeSnapshotContent) {
			o.Status, o.DeletionTimestamp, o.Finalizers = ready, &metav1.Time{}, []string{contract.ContentFinalizer}
		}, true},
		{"being deleted, and of nobody here", func(o *snapshotv1.VolumeSnapshotContent) {
			o.DeletionTimestamp, o.Finalizers = &metav1.Time{}, []string{"example.com/backup"}
		}, false},
	} {
		o := dynamic(t, dispatchertest.Volume("fits bound"))
		if c.change(o); DueContent(o, "p") != c.want {
			t.Errorf("%s: due %v, want %v", c.name, DueContent(o, "p"), c.want)
		}
	}
}

// A pod that restores keeps its snapshot, and one that takes a snapshot or copies keeps its volume. Texts of other fields that read like
// theirs are texts.
func TestSourcesOfPods(t *testing.T) {
	pod := func(text, state string) *corev1.Pod {
		pod := dispatchertest.Pod("prov-0 "+state, dispatchertest.Noon, dispatchertest.Noon)
		pod.Annotations[contract.AnnRequest] = text

		return pod
	}
	for _, c := range []struct {
		name, text       string
		snapshot, volume string
	}{
		{name: "a restore", text: `{"operation":"provision","source":{"namespace":"a","name":"b","snapshot":"snap-1","volumeName":"pvc-1"}}`, snapshot: "snap-1"},
		{name: "a clone", text: `{"operation":"provision","source":{"namespace":"a","name":"b","volumeName":"pvc-1"}}`, volume: "pvc-1"},
		{name: "a snapshot", text: `{"operation":"snapshot","volumeName":"pvc-1","snapshot":{"name":"snap-1"}}`, volume: "pvc-1"},
		{name: "a removal", text: `{"operation":"delete-snapshot","volumeName":"pvc-1","snapshot":{"name":"snap-1"}}`},
		{name: "a new volume", text: `{"operation":"provision","volumeName":"pvc-1"}`},
		{name: "a new volume of a claim with an odd annotation", text: `{"operation":"provision","volumeName":"pvc-1","claimAnnotations":{"\"source\":":"\"snapshot\":"}}`},
		{name: "no JSON", text: `{"source":{"snapshot":`},
		{name: "two sources", text: `{"operation":"provision","source":{"snapshot":"snap-1"},"source":{"snapshot":"snap-2"}}`, snapshot: "snap-2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			running, ended := pod(c.text, "running"), pod(c.text, "failed")
			if got := RestoredSnapshot(running) + " " + CopiedVolume(running); got != c.snapshot+" "+c.volume {
				t.Errorf("it runs with %q, want %q and %q", got, c.snapshot, c.volume)
			}

			if got := RestoredSnapshot(ended) + CopiedVolume(ended); got != "" {
				t.Errorf("it has ended, and has %q", got)
			}

			if got := SourceSnapshot(ended) + " " + SourceVolume(ended); got != c.snapshot+" "+c.volume {
				t.Errorf("it was for %q, want %q and %q", got, c.snapshot, c.volume)
			}
		})
	}
}

// snapshotted is the snapshot of a content.
func snapshotted(content *snapshotv1.VolumeSnapshotContent, source *corev1.PersistentVolume) *Claim {
	s := &Claim{UID: dispatchertest.UID, Provisioner: "p", Config: &configmaps.Config{Name: "cm", ResourceVersion: "1", Digest: "d",
		Properties: map[string]string{"zone": "west"}}}
	s.SetSnapshot(&Snapshot{Driver: "p", Content: content, Source: source})
	s.ClassName = s.ClassByObjects("")

	return s
}

// A pod gets the name of its snapshot, and what is known of the volume, which may be gone.
func TestSnapshotRequest(t *testing.T) {
	v := dispatchertest.Volume("fits bound")
	v.Annotations[contract.AnnIdentity] = `{"properties":{"zone":"east"}}`
	classed, stray := imported("backup-1"), dispatchertest.Volume("stray bound")
	classed.Annotations = map[string]string{contract.AnnClass: "silver"}
	classed.Spec.VolumeSnapshotRef = corev1.ObjectReference{Namespace: "team-b", Name: "again"}
	stray.Spec.ClaimRef.Namespace = "team-c"
	stray.Annotations[contract.AnnIdentity] = `{}`
	taken := contract.SnapshotRequest{Name: podspec.SnapshotName(dispatchertest.UID), Namespace: "team-a", VolumeSnapshot: "daily", UID: dispatchertest.UID}
	for _, c := range []struct {
		name    string
		content *snapshotv1.VolumeSnapshotContent
		want    contract.Request
	}{
		{"of a volume", dynamic(t, v), contract.Request{VolumeName: ownVolume, StorageClass: "silver", SizeBytes: 1 << 30, VolumeMode: "Filesystem",
			AccessModes: []string{"ReadWriteOnce"}, Identity: contract.Identity{Properties: map[string]string{"zone": "east"}},
			Claim: contract.Claim{Namespace: "team-a", Name: "data", UID: dispatchertest.UID}, Snapshot: &taken}},
		{"of a volume that was another claim's by then", dynamic(t, stray), contract.Request{VolumeName: ownVolume, StorageClass: "silver", SizeBytes: 1 << 30,
			VolumeMode: "Filesystem", AccessModes: []string{"ReadWriteOnce"}, Identity: contract.Identity{Properties: map[string]string{"zone": "west"}},
			Claim: contract.Claim{Namespace: "team-c", Name: "data", UID: dispatchertest.UID}, Snapshot: &taken}},
		{"by hand", classed, contract.Request{StorageClass: "silver", Identity: contract.Identity{Properties: map[string]string{"zone": "west"}},
			Claim:    contract.Claim{Namespace: "team-b"},
			Snapshot: &contract.SnapshotRequest{Name: "backup-1", Namespace: "team-b", VolumeSnapshot: "again", UID: dispatchertest.UID}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := snapshotted(c.content, nil).snapshotRequest()
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got\n%+v, %v\nwant\n%+v", got, err, c.want)
			}
		})
	}
}

// The record says by which identity and mounts the storage was found, whoever vouched for them, and comes back as it was.
func TestVolumeToRecord(t *testing.T) {
	for _, c := range []struct {
		name, volume     string
		identity, config string
		mounts           string
		fault            string
	}{
		{name: "signed", volume: "fits bound placed", identity: `{"properties":{"zone":"east"}}`, config: "silver/1@x", mounts: dispatchertest.Mounts},
		{name: "of the class", volume: "unsigned bound", config: "cm/1@d", identity: `{"properties":{"zone":"west"}}`, mounts: "[]"},
		{name: "an administrator vouches", volume: "forged bound trusted", config: "cm/1@d", identity: `{"properties":{"zone":"mine"}}`, mounts: "[]"},
		{name: "a pod's word", volume: "forged bound", fault: "record volume " + ownVolume + ": annotation flex-provisioner.io/identity of volume " +
			ownVolume + " is not signed by this dispatcher, and differs from class silver; if it is right: kubectl annotate pv " + ownVolume +
			" --overwrite flex-provisioner.io/record=trusted; to use the properties and parameters of the class: kubectl annotate pv " +
			ownVolume + " flex-provisioner.io/identity-"},
		{name: "mounts that are none", volume: "fits bound placed", mounts: "{", identity: `{}`, fault: "record volume " + ownVolume +
			": annotation flex-provisioner.io/mounts of volume " + ownVolume + " is not JSON of mounts; to use what class silver mounts now: " +
			"kubectl annotate pv " + ownVolume + " flex-provisioner.io/mounts-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := dispatchertest.Volume(c.volume)
			v.Annotations[contract.AnnConfig] = "silver/1@x"
			if podspec.Recorded(v) {
				v.Annotations[contract.AnnIdentity] = c.identity
			}

			if c.fault != "" && c.mounts != "" {
				v.Annotations[contract.AnnMounts] = c.mounts
			}

			before := v.DeepCopy()
			s := snapshotted(nil, v)
			s.ClassName, s.Class = "silver", &storagev1.StorageClass{}
			kept, err := s.VolumeToRecord()
			if fault := text(err); fault != c.fault {
				t.Fatalf("got  %s\nwant %s", fault, c.fault)
			}

			if !reflect.DeepEqual(v, before) {
				t.Error("the volume itself was changed")
			}

			if c.fault != "" {
				return
			}

			v = podspec.VolumeOf(dynamic(t, kept))
			for key, want := range map[string]string{contract.AnnIdentity: c.identity, contract.AnnConfig: c.config, contract.AnnMounts: c.mounts} {
				if got := v.Annotations[key]; got != want {
					t.Errorf("annotation %s is %s, want %s", key, got, want)
				}
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}

	return err.Error()
}

// Which ConfigMap restores a snapshot is said by its record, and for one without by its administrator.
func TestSetSnapshotSource(t *testing.T) {
	v := dispatchertest.Volume("fits bound")
	v.Annotations[contract.AnnConfig] = "silver-1/7@d"
	forged := dynamic(t, v)
	delete(forged.Annotations, podspec.Verified)
	classed := imported("backup-1")
	classed.Annotations = map[string]string{contract.AnnClass: "gold"}
	group := snapshotv1.GroupName
	for _, c := range []struct {
		name    string
		bound   string
		content *snapshotv1.VolumeSnapshotContent
		want    string
	}{
		{"recorded", "c", dynamic(t, v), "silver-1"},
		{"a record that nobody signed", "c", forged, ""},
		{"by hand", "c", imported("backup-1"), ""},
		{"by hand, of a class", "c", classed, "of gold"},
		{"no content", "c", nil, ""},
		{"not bound", "", dynamic(t, v), ""},
	} {
		s := &Claim{Claim: &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "copy"},
			Spec: corev1.PersistentVolumeClaimSpec{DataSource: &corev1.TypedLocalObjectReference{APIGroup: &group, Kind: "VolumeSnapshot", Name: "daily"}}}}
		s.Source.Config = "of before"
		s.SetSnapshotSource(func(namespace, name string) *snapshotv1.VolumeSnapshot {
			o := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			if c.bound != "" {
				o.Status = &snapshotv1.VolumeSnapshotStatus{BoundVolumeSnapshotContentName: &c.bound}
			}

			return o
		}, func(string) *snapshotv1.VolumeSnapshotContent { return c.content }, func(class string) string { return "of " + class })
		if s.Source.Config != c.want || s.Source.Snapshot.Name != "daily" {
			t.Errorf("%s: ConfigMap %q, want %q", c.name, s.Source.Config, c.want)
		}
	}
}
