package flow

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Keys of the metadata by which the provisioner recognizes its snapshots, beside metaClass and metaCluster.
const (
	metaSnapshotUID = "flex-provisioner.io/snapshot-uid"
	metaSnapshot    = "flex-provisioner.io/snapshot"
)

// Snapshot takes the snapshot of the volume of pv, or goes on with the one that an earlier run requested.
func (f *Flow) Snapshot(ctx context.Context, pv *corev1.PersistentVolume) error {
	defer f.end()

	return f.withState(ctx, f.snapshot(ctx, pv))
}

func (f *Flow) snapshot(ctx context.Context, pv *corev1.PersistentVolume) error {
	name := f.Request.Snapshot.Name
	if _, ours := snapshotUID(name); !ours {
		return sdk.Refuse(fmt.Errorf("the snapshot's name %s is not snap-UID", form.Quote(name)))
	}
	f.Request.Claim.UID = cmp.Or(f.Request.Claim.UID, pv.Annotations[contract.AnnClaimUID],
		strings.TrimPrefix(f.Request.VolumeName, "pvc-"))
	if err := f.open(ctx); err != nil {
		return err
	}
	if err := f.checkLocation(pv); err != nil {
		return err
	}
	volume, err := f.volumeOf(ctx, pv)
	if err != nil {
		return err
	}

	return f.snapshotOf(ctx, volume)
}

// snapshotOf returns once there is a whole snapshot of the volume. It requests one at most once in a run, since a list of
// Cinder may lag behind and not show the snapshot at once.
func (f *Flow) snapshotOf(ctx context.Context, volume *cinder.Volume) error {
	var p backoff
	for created := ""; ; {
		mine, err := f.findSnapshots(ctx, f.Request.Snapshot.Name)
		if err != nil {
			return err
		}

		var snapshot *cinder.Snapshot
		if len(mine) > 0 {
			snapshot = &mine[0]
			if snapshot.VolumeID != volume.ID {
				return fmt.Errorf("cinder snapshot %s is called %s, but is one of cinder volume %s and not of %s; rename it",
					snapshot.ID, snapshot.Name, snapshot.VolumeID, volume.ID)
			}
		}

		switch toSnapshot(snapshot) {
		case done:
			return f.removeOtherSnapshots(ctx, mine[1:])
		case stop:
			return f.snapshotError(ctx, snapshot)
		case clear:
			// Cinder's reason is reported for a snapshot of this run. For that of an earlier run it has been reported.
			if snapshot.ID == created {
				return f.snapshotError(ctx, snapshot)
			}
			err = f.cinder.DeleteSnapshot(ctx, snapshot.ID)
		case create:
			if created == "" {
				created, err = f.createSnapshot(ctx, volume)
			}
		}
		if err != nil {
			return err
		}
		if err := p.wait(ctx); err != nil {
			return sdk.TryAgain(err)
		}
	}
}

func (f *Flow) createSnapshot(ctx context.Context, volume *cinder.Volume) (id string, err error) {
	request := f.Request.Snapshot
	switch {
	case slices.Contains(failed, volume.Status):
		return "", f.stateError(ctx, volume)
	case volume.Status != statusAvailable && volume.Status != statusInUse:
		return "", sdk.TryAgain(fmt.Errorf("%s, in which it can have no snapshot", describe(volume)))
	}

	uid, _ := snapshotUID(request.Name)
	snapshot, err := f.cinder.CreateSnapshot(ctx, volume.ID, request.Name, limited(map[string]string{
		metaSnapshotUID: uid,
		metaSnapshot:    request.Namespace + "/" + request.VolumeSnapshot,
		metaClass:       f.Request.StorageClass,
		metaCluster:     f.Properties.Cluster,
	}))
	if err != nil {
		return "", err
	}
	f.state = describeSnapshot(snapshot)

	return snapshot.ID, nil
}

// removeOtherSnapshots removes snapshots that another run requested at the same time. All runs keep the same one.
func (f *Flow) removeOtherSnapshots(ctx context.Context, others []cinder.Snapshot) error {
	for _, s := range others {
		if toDeleteSnapshot(&s) == remove {
			if err := f.cinder.DeleteSnapshot(ctx, s.ID); err != nil {
				return err
			}
		}
	}

	return nil
}

// DeleteSnapshot removes the snapshot, and returns once Cinder has none. pv is the volume that the snapshot is of, which
// need not exist any more. It is nil if nobody knows the volume.
func (f *Flow) DeleteSnapshot(ctx context.Context, pv *corev1.PersistentVolume) error {
	defer f.end()

	return f.withState(ctx, f.deleteSnapshot(ctx, pv))
}

func (f *Flow) deleteSnapshot(ctx context.Context, pv *corev1.PersistentVolume) error {
	if err := f.open(ctx); err != nil {
		return err
	}
	if err := f.checkLocation(pv); err != nil {
		return err
	}

	var p backoff
	for requested := map[string]bool{}; ; {
		found, err := f.findSnapshots(ctx, f.Request.Snapshot.Name)
		if err != nil || len(found) == 0 {
			return err
		}
		for _, s := range found {
			if err := f.removeSnapshot(ctx, &s, requested); err != nil {
				return err
			}
		}
		if err := p.wait(ctx); err != nil {
			return sdk.TryAgain(err)
		}
	}
}

// removeSnapshot takes the next step to the removal of a snapshot. requested has those of which this run requested it.
// Cinder makes a snapshot available again that its backend cannot do without.
func (f *Flow) removeSnapshot(ctx context.Context, s *cinder.Snapshot, requested map[string]bool) error {
	if uid := s.Metadata[metaSnapshotUID]; uid != "" && "snap-"+uid != f.Request.Snapshot.Name {
		return sdk.Refuse(fmt.Errorf("cinder snapshot %s was taken for the VolumeSnapshot %s, so it is not removed by "+
			"another name; let the content have the snapshotHandle %s", s.ID,
			form.Quote(s.Metadata[metaSnapshot]), form.Quote("snap-"+uid)))
	}

	switch next := toDeleteSnapshot(s); {
	case next == stop:
		return f.snapshotError(ctx, s)
	case next != remove:
		return nil
	case requested[s.ID]:
		return sdk.TryAgain(fmt.Errorf("%w; it is removed after what depends on it, such as volumes that were "+
			"restored from it", f.snapshotError(ctx, s)))
	}

	requested[s.ID] = true
	err := f.cinder.DeleteSnapshot(ctx, s.ID)
	if hasStatus(err, http.StatusBadRequest) {
		return sdk.TryAgain(withoutCode(err)) // its state has changed, or it is part of a group
	}

	return err
}

// checkSnapshots returns an error if the volume has snapshots, with which Cinder does not delete it.
func (f *Flow) checkSnapshots(ctx context.Context, v *cinder.Volume) error {
	found, err := f.cinder.SnapshotsOf(ctx, v.ID)
	if err != nil || len(found) == 0 {
		return err
	}

	const most = 3
	var names []string
	for _, s := range found[:min(most, len(found))] {
		names = append(names, fmt.Sprintf("%s (%s)", form.Quote(s.Name), s.ID))
	}
	if more := len(found) - most; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}

	return sdk.TryAgain(fmt.Errorf("volume has snapshots, and is removed after them; delete their VolumeSnapshots, and "+
		"what has none by openstack volume snapshot delete: %s", strings.Join(names, ", ")))
}

// findSnapshots finds the snapshots that a handle means, and notes the state of the first.
func (f *Flow) findSnapshots(ctx context.Context, handle string) ([]cinder.Snapshot, error) {
	id, noID := form.UUID("", handle)
	found, err := patiently(ctx, func() ([]cinder.Snapshot, error) {
		if noID != nil {
			return f.cinder.FindSnapshots(ctx, handle)
		}
		snapshot, err := f.cinder.ShowSnapshot(ctx, id)
		if err != nil || snapshot == nil {
			return nil, err
		}
		return []cinder.Snapshot{*snapshot}, nil
	})
	if err != nil {
		return nil, err
	}

	meant, err := meantSnapshots(found, handle, f.project)
	if err != nil {
		return nil, sdk.Refuse(err)
	}
	f.state = "there is no cinder snapshot " + handle
	if len(meant) > 0 {
		f.state = describeSnapshot(&meant[0])
	}

	return meant, nil
}

func describeSnapshot(s *cinder.Snapshot) string {
	return fmt.Sprintf("cinder snapshot %s is %s", s.ID, s.Status)
}

// snapshotError is the error for a snapshot whose state allows no next step, with Cinder's message if there is one.
func (f *Flow) snapshotError(ctx context.Context, s *cinder.Snapshot) error {
	if message := f.cinder.Message(ctx, s.ID); message != "" {
		return fmt.Errorf("%s: %s", describeSnapshot(s), message)
	}

	return fmt.Errorf("%s, and cinder does not say why", describeSnapshot(s))
}
