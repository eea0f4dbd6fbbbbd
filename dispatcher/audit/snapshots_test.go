package audit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// content in words: hand (made by hand, named old), other (made by hand, named other), foreign, retain, young, unbound
// (for no VolumeSnapshot yet), class=NAME (in the annotation), deleted or leaving (since two hours or minutes), unsigned,
// requested (not made by the dispatcher), untaken (not ready), stateless (the same, and its snapshot existed once), untouched (as the
// snapshot-controller makes it for a volume of the type csi). Without any, the dispatcher made it for a VolumeSnapshot with the UID, and it
// is ready.
func content(words string) *snapshotv1.VolumeSnapshotContent {
	c := &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{
			Name: podspec.ContentName(uid), UID: "content", CreationTimestamp: ago(3 * time.Hour),
			Annotations: map[string]string{
				podspec.Verified:   "true",
				contract.AnnVolume: `{"metadata":{"name":"` + name + `"},"spec":{"storageClassName":"silver"}}`,
			},
		},
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			Driver: contract.SnapshotDriver("flex-provisioner.io/p"), DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
			VolumeSnapshotRef: corev1.ObjectReference{Namespace: "team-a", Name: "nightly", UID: uid},
			Source:            snapshotv1.VolumeSnapshotContentSource{VolumeHandle: new(name)},
		},
		Status: &snapshotv1.VolumeSnapshotContentStatus{ReadyToUse: new(true)},
	}
	for word := range strings.FieldsSeq(words) {
		word, value, _ := strings.Cut(word, "=")
		switch word {
		case "hand", "other":
			c.Name, c.UID, c.Annotations = "old", types.UID(word), map[string]string{}
			if word == "other" {
				c.Name = "other"
			}

			c.Spec.Source = snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: new("snap-" + uid)}
		case "foreign":
			c.Spec.Driver = "csi.example.com"
		case "retain":
			c.Spec.DeletionPolicy = snapshotv1.VolumeSnapshotContentRetain
		case "young":
			c.CreationTimestamp = ago(2 * time.Minute)
		case "unbound":
			c.Spec.VolumeSnapshotRef.UID = ""
		case "class":
			c.Annotations[contract.AnnClass] = value
		case "deleted":
			c.DeletionTimestamp = new(ago(2 * time.Hour))
		case "leaving":
			c.DeletionTimestamp = new(ago(2 * time.Minute))
		case "unsigned":
			delete(c.Annotations, podspec.Verified)
		case "untaken":
			c.Status = nil
			c.Annotations[contract.AnnBeingCreated] = "yes"
		case "stateless":
			c.Status = nil
		case "untouched":
			c.Status, c.Annotations = nil, nil
		case "requested":
			c.Name = "mine"
		default:
			panic("no such word: " + word)
		}
	}

	return c
}

func TestSnapshots(t *testing.T) {
	nightly := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "nightly", UID: uid}}
	configs := map[string]*configmaps.Config{
		"silver": {Namespace: "ns", Name: "silver", Snapshots: true},
		"gold":   {Namespace: "ns", Name: "gold"},
	}
	const (
		made, retain = "snapcontent-" + uid, ` --type=merge -p '{"spec": {"deletionPolicy": "Retain"}}' && `
		gone         = "VolumeSnapshot team-a/nightly does not exist any more, and nobody removes the snapshot"
		untaken      = "VolumeSnapshot team-a/nightly does not exist any more, and its snapshot was not taken"
		same         = ` has the same snapshot "snap-` + uid + `", which nobody removes while both exist: keep that one alone`
		del          = "kubectl delete volumesnapshotcontent "
		annotates    = "kubectl annotate volumesnapshotcontent "
	)
	for about, c := range map[string]struct {
		contents []string // in words
		gone     bool     // whether the VolumeSnapshot does not exist
		unread   bool     // whether ConfigMaps cannot be read
		want     []string
	}{
		"ready":             {contents: []string{""}},
		"retained for ever": {contents: []string{"retain"}, gone: true},
		"of another driver": {contents: []string{"foreign", "hand foreign"}, gone: true},

		"its VolumeSnapshot is gone":                                  {contents: []string{""}, gone: true, want: []string{"released-content " + made + ": " + gone + ": " + del + made}},
		"its VolumeSnapshot is gone for a moment":                     {contents: []string{"young"}, gone: true},
		"its VolumeSnapshot was deleted too early":                    {contents: []string{"untaken"}, gone: true, want: []string{"released-content " + made + ": " + untaken + ": " + del + made}},
		"its VolumeSnapshot was deleted a moment too early":           {contents: []string{"untaken young"}, gone: true},
		"its snapshot is not taken yet":                               {contents: []string{"untaken"}},
		"its VolumeSnapshot was deleted too early, to retain":         {contents: []string{"untaken retain"}, gone: true, want: []string{"released-content " + made + ": " + untaken + ": kubectl patch volumesnapshotcontent " + made + strings.ReplaceAll(retain, "Retain", "Delete") + del + made}},
		"a backup tool brought it back without its status":            {contents: []string{"stateless"}, gone: true, want: []string{"released-content " + made + ": " + gone + ": " + del + made}},
		"a backup tool brought it back without its status, to retain": {contents: []string{"stateless retain"}, gone: true},
		"by hand, retained, not ready yet":                            {contents: []string{"hand class=silver untaken retain"}, gone: true},
		"by hand, its VolumeSnapshot is gone":                         {contents: []string{"hand class=silver"}, gone: true, want: []string{"released-content old: " + gone + ": " + del + "old"}},
		"by hand, for nobody yet":                                     {contents: []string{"hand class=silver unbound"}, gone: true},
		"being removed":                                               {contents: []string{"leaving"}, gone: true},
		"being removed for long": {contents: []string{"deleted"}, gone: true, want: []string{"released-content " + made +
			": its snapshot was to be removed more than an hour ago: kubectl flex why volumesnapshotcontent/" + made}},

		"by hand, and no class": {contents: []string{"hand"}, want: []string{"unrecorded-content old: it was made by hand, and nothing says of which " +
			"StorageClass its snapshot is, so that it can neither be restored nor removed: " + annotates + "old --overwrite flex-provisioner.io/storage-class=CLASS"}},
		"record not signed": {contents: []string{"unsigned"}, want: []string{"unrecorded-content " + made + ": it has no signed record of its volume, so that it can " +
			"neither be restored nor removed; look first whether its annotation flex-provisioner.io/volume is right: " + annotates + made + " --overwrite flex-provisioner.io/record=trusted"}},
		"the snapshot-controller made it, and nothing is written on it yet": {contents: []string{"untouched"}},
		"asks for a snapshot": {contents: []string{"requested"}, want: []string{"unrecorded-content mine: it asks for a snapshot, and the dispatcher makes such " +
			"objects itself, for VolumeSnapshots: kubectl patch volumesnapshotcontent mine" + retain + del + "mine"}},

		"class is gone": {contents: []string{"hand class=tin"}, want: []string{`unserved-content old: no valid ConfigMap serves its class "tin", so that it can ` +
			"neither be restored nor removed: # create the StorageClass and its ConfigMap again"}},
		"class is a command": {contents: []string{"hand class=$(reboot)\x1b[2J"}, want: []string{`unserved-content old: no valid ConfigMap serves its class ` +
			`"$(reboot)\x1b[2J", so that it can neither be restored nor removed: # create the StorageClass and its ConfigMap again`}},
		"class has no snapshots": {contents: []string{"hand class=gold"}, want: []string{"unserved-content old: ConfigMap gold of its class has neither the scripts " +
			`snapshot and delete-snapshot nor snapshots: "true", so that it can neither be restored nor removed: kubectl -n ns edit configmap gold`}},
		"class cannot be read": {contents: []string{"hand class=gold"}, unread: true},

		"twin by hand": {contents: []string{"hand class=silver unbound", ""}, want: []string{"twin-content old: VolumeSnapshotContent " + made + same +
			": kubectl patch volumesnapshotcontent old" + retain + del + "old"}},
		"twin by hand of one that is being deleted": {contents: []string{"hand class=silver unbound", "leaving"}, want: []string{"twin-content " + made +
			": VolumeSnapshotContent old" + same + ": kubectl patch volumesnapshotcontent " + made + retain + "kubectl -n team-a delete volumesnapshot nightly && " + del + made}},
		"twins by hand": {contents: []string{"hand class=silver unbound", "other class=silver unbound young"}, want: []string{"twin-content other: VolumeSnapshotContent old" +
			same + ": kubectl patch volumesnapshotcontent other" + retain + del + "other"}},
		"twins, one retained": {contents: []string{"retain", "hand class=silver unbound"}, want: []string{"twin-content old: VolumeSnapshotContent " + made + same +
			": kubectl patch volumesnapshotcontent old" + retain + del + "old"}},
		"twins, all retained":    {contents: []string{"retain", "hand class=silver retain"}},
		"twin of another driver": {contents: []string{"", "hand foreign"}},
	} {
		objects := &Snapshots{ConfigOf: func(class string) *configmaps.Config { return configs[class] }}
		for _, words := range c.contents {
			objects.Contents = append(objects.Contents, content(words))
		}

		if !c.gone {
			objects.Requests = []*snapshotv1.VolumeSnapshot{nightly}
		}

		if c.unread {
			objects.ConfigOf = nil
		}

		var got []string
		for _, f := range Compare(State{Now: noon, Provisioner: "flex-provisioner.io/p", Snapshots: objects}) {
			got = append(got, fmt.Sprintf("%s %s: %s: %s", f.Kind, f.Name, f.Why, f.Command))
			if f.About == nil {
				t.Errorf("%s: %s is about nothing", about, f.Name)
			}
		}

		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s: found\n  %s\nwant\n  %s", about, strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
		}
	}
}

// TestPodsOfSnapshots: a pod of a snapshot is needed while the snapshot has an object, or nobody knows. Without it, the
// record of its attempt would go.
func TestPodsOfSnapshots(t *testing.T) {
	ended := pod("failed long")
	ended.Name, ended.UID = podspec.Name(contract.DeleteSnapshot, uid, 0), "ended"
	saved, err := podspec.SavePod(ended, noon)
	if err != nil {
		t.Fatal(err)
	}

	saved.CreationTimestamp = metav1.Time{Time: noon}
	if err := podspec.DecodeSaved(saved); err != nil {
		t.Fatal(err)
	}

	byHand := content("hand")
	byHand.UID = uid
	for about, c := range map[string]struct {
		snapshots *Snapshots
		left      bool
	}{
		"not known":        {nil, false},
		"nobody has it":    {&Snapshots{}, true},
		"of a content":     {&Snapshots{Contents: []*snapshotv1.VolumeSnapshotContent{content("leaving")}}, false},
		"of one by hand":   {&Snapshots{Contents: []*snapshotv1.VolumeSnapshotContent{byHand}}, false},
		"not taken so far": {&Snapshots{Requests: []*snapshotv1.VolumeSnapshot{{ObjectMeta: metav1.ObjectMeta{UID: uid}}}}, false},
	} {
		for _, objects := range []Objects{{Pods: []*corev1.Pod{ended}}, {Saved: []*appsv1.ControllerRevision{saved}}} {
			left := false
			for _, f := range Compare(State{Now: noon, Provisioner: "p", Objects: objects, Snapshots: c.snapshots}) {
				left = left || f.Kind == Pod
			}

			if left != c.left {
				t.Errorf("%s: pods %d, records %d: left %t, want %t", about, len(objects.Pods), len(objects.Saved), left, c.left)
			}
		}
	}
}
