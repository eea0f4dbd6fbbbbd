package flow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
)

// toSnapshot is the next step to a whole snapshot. A nil snapshot does not exist.
func toSnapshot(s *cinder.Snapshot) step {
	switch {
	case s == nil:
		return create
	case s.Status == statusAvailable:
		return done
	case s.Status == statusError:
		return clear
	case s.Status == statusErrorDeleting:
		return stop
	}
	return wait
}

// toDeleteSnapshot is the next step to the removal of the snapshot.
func toDeleteSnapshot(s *cinder.Snapshot) step {
	switch s.Status {
	case statusAvailable, statusError:
		return remove
	case statusErrorDeleting:
		return stop
	}
	return wait
}

// snapshotUID is the UID in the name of a snapshot that the provisioner took.
func snapshotUID(handle string) (uid string, ours bool) {
	uid, named := strings.CutPrefix(handle, "snap-")
	normal, err := form.UUID("", uid)

	return uid, named && err == nil && normal == uid
}

// meantSnapshots returns the snapshots that a handle means. Those of snap-UID are the provisioner's, and have the UID in
// their metadata. There are several only if two runs requested one at the same time: the first is the one to keep, which
// is the oldest that did not fail. Any other handle is an administrator's, and means one snapshot, by its ID or its
// name.
func meantSnapshots(found []cinder.Snapshot, handle, project string) ([]cinder.Snapshot, error) {
	uid, ours := snapshotUID(handle)
	for _, s := range found {
		switch {
		case s.ProjectID != "" && s.ProjectID != project:
			return nil, fmt.Errorf("cinder snapshot %s is in project %s, but the credentials are for %s; correct them",
				s.ID, form.Quote(s.ProjectID), form.Quote(project))
		case ours && s.Metadata[metaSnapshotUID] != uid:
			return nil, fmt.Errorf("cinder snapshot %s is called %s but has not %s=%s in its metadata, so it is not ours; "+
				"rename it or set the metadata", s.ID, handle, metaSnapshotUID, uid)
		}
	}
	if !ours && len(found) > 1 {
		return nil, fmt.Errorf("%d cinder snapshots are called %s, such as %s and %s; use an ID as snapshotHandle, or "+
			"rename the others", len(found), handle, found[0].ID, found[1].ID)
	}

	meant := slices.Clone(found) // the oldest first
	slices.SortStableFunc(meant, func(a, b cinder.Snapshot) int { return cmp.Compare(failure(a), failure(b)) })

	return meant, nil
}

func failure(s cinder.Snapshot) int {
	return slices.Index([]string{statusDeleting, statusError, statusErrorDeleting}, s.Status)
}
