package dispatcher

import (
	"slices"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// snapshotClass makes a VolumeSnapshotClass of the dispatcher's driver.
func (p tenants) snapshotClass(policy snapshotv1.DeletionPolicy) {
	p.create(apiserver.SnapshotClasses, &snapshotv1.VolumeSnapshotClass{ObjectMeta: metav1.ObjectMeta{Name: "snapshots"},
		Driver: contract.SnapshotDriver("p"), DeletionPolicy: policy})
}

// snapshot asks for a snapshot of a claim.
func (p tenants) snapshot(name, claim string) {
	class := "snapshots"
	p.create(apiserver.Snapshots, &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name},
		Spec: snapshotv1.VolumeSnapshotSpec{VolumeSnapshotClassName: &class,
			Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &claim}}})
}

// restoreSnapshot makes a claim that begins with a snapshot.
func (p tenants) restoreSnapshot(name, class, snapshot string) {
	claim, group := newClaim(name, class), snapshotv1.GroupName
	claim.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: &group, Kind: "VolumeSnapshot", Name: snapshot}
	p.create(apiserver.Claims, claim)
}

// operations are those of the pods that ran, in the order of their names.
func (p tenants) operations() (list []string) {
	for _, pod := range p.ran {
		request, err := podspec.RequestOf(pod)
		if err != nil {
			p.t.Fatal(err)
		}

		what := string(request.Operation)
		switch {
		case request.Snapshot != nil:
			what += " " + request.Snapshot.Name
		case request.Source != nil:
			what += " from " + request.Source.Snapshot
		}

		list = append(list, what)
	}

	slices.Sort(list)

	return list
}

func (p tenants) content(uid string) *snapshotv1.VolumeSnapshotContent {
	content, _ := apiserver.Get[*snapshotv1.VolumeSnapshotContent](p.server, apiserver.SnapshotContents, "",
		podspec.ContentName(uid))

	return content
}

// TestSnapshot takes a snapshot, restores it and deletes it, beside the unmodified snapshot-controller. For a volume of the
// type csi that one makes the content.
func TestSnapshot(t *testing.T) {
	for _, class := range []string{"silver.good", "silver.csi"} {
		t.Run(class, func(t *testing.T) { snapshotOf(t, class) })
	}
}

func snapshotOf(t *testing.T, class string) {
	inBubble(t, func(p tenants) {
		p.snapshots = true
		stop := p.dispatch()
		defer stop()

		p.class(class, map[string]string{"snapshot": "true", "delete-snapshot": "true"})
		p.snapshotClass(snapshotv1.VolumeSnapshotContentDelete)
		p.play(5 * time.Second)
		p.claim("data", class)
		p.play(time.Minute)
		p.snapshot("before", "data")
		p.play(time.Minute)

		taken, _ := apiserver.Get[*snapshotv1.VolumeSnapshot](p.server, apiserver.Snapshots, "team", "before")
		if taken.Status == nil || taken.Status.ReadyToUse == nil || !*taken.Status.ReadyToUse {
			t.Errorf("the snapshot is not ready: %+v; events: %q", taken.Status, apiserver.Told(p.server))
			return
		}

		if size := taken.Status.RestoreSize.Value(); size != 1<<30 {
			t.Errorf("the snapshot needs %d bytes", size)
		}

		p.restoreSnapshot("copy", class, "before")
		p.play(time.Minute)
		if copied := p.claimNamed("copy"); copied.Status.Phase != corev1.ClaimBound {
			t.Errorf("the restored claim is %s: %q", copied.Status.Phase, apiserver.Told(p.server))
		}

		uid := string(taken.UID)
		p.remove(apiserver.Snapshots, "team", "before")
		p.play(time.Minute)
		if content := p.content(uid); content != nil {
			t.Errorf("the content is left: %+v; events: %q", content, apiserver.Told(p.server))
		}

		if _, left := apiserver.Get[*snapshotv1.VolumeSnapshot](p.server, apiserver.Snapshots, "team", "before"); left {
			t.Error("the VolumeSnapshot is left")
		}

		handle := podspec.SnapshotName(uid)
		want := []string{"delete-snapshot " + handle, "provision", "provision from " + handle, "snapshot " + handle}
		if got := p.operations(); !slices.Equal(got, want) {
			t.Errorf("pods ran to\n%q, want\n%q", got, want)
		}
	})
}
