package fake

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Snapshot is a snapshot as a test sees it.
type Snapshot struct {
	ID, Name string
	Status   string // "creating", "available", ..., as Cinder's
	Size     int    // GiB
	Volume   string // id
	Project  string
	Metadata map[string]string
}

// snapshot is a snapshot with what only Cinder knows.
type snapshot struct {
	Snapshot
	next             transition
	user             string
	created, updated string
}

// The failures of snapshots. The texts are of Cinder's message_field.py; they were not recorded.
var (
	// SnapshotFails: the driver fails to take a snapshot.
	SnapshotFails = Failure{"POST /snapshots", "error", "create snapshot:Snapshot failed to create."}
	// SnapshotBusy: the backend has something that depends on the snapshot, such as a volume.
	SnapshotBusy = Failure{"DELETE /snapshots/{id}", "available", "delete snapshot:Snapshot is busy."}
	// SnapshotNotDeleted: the driver fails to delete a snapshot.
	SnapshotNotDeleted = Failure{"DELETE /snapshots/{id}", "error_deleting", "delete snapshot:Snapshot failed to delete."}
)

// AddSnapshot puts a snapshot there as if it had been taken before. Volume is a name or an id. Empty fields get what a
// plain one has.
func (f *Cinder) AddSnapshot(in Snapshot) Snapshot {
	f.t.Helper()
	v := f.Volume(in.Volume)
	f.mu.Lock()
	defer f.mu.Unlock()
	in.Volume, in.Size, in.Project = v.ID, cmp.Or(in.Size, v.Size), cmp.Or(in.Project, v.Project)
	in.ID, in.Status = cmp.Or(in.ID, f.newID()), cmp.Or(in.Status, "available")
	s := &snapshot{Snapshot: in, user: "admin", created: f.now()}
	f.snapshots = append(f.snapshots, s)
	return s.copy()
}

// Snapshots lists all snapshots as they are now, the oldest first.
func (f *Cinder) Snapshots() []Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settle(false)
	var all []Snapshot
	for _, s := range f.snapshots {
		all = append(all, s.copy())
	}
	return all
}

func (s *snapshot) copy() Snapshot {
	out := s.Snapshot
	out.Metadata = maps.Clone(s.Metadata)
	return out
}

// settleSnapshots ends the transitions that are due, or all.
func (f *Cinder) settleSnapshots(all bool) {
	for _, s := range slices.Clone(f.snapshots) {
		switch next := s.next; {
		case next.to == "" || !all && time.Now().Before(next.at):
		case next.to == gone:
			f.snapshots = slices.DeleteFunc(f.snapshots, func(other *snapshot) bool { return other == s })
		default:
			f.tell("VOLUME_SNAPSHOT", s.ID, next.text)
			s.Status, s.updated, s.next = next.to, f.now(), transition{}
		}
	}
}

// hasSnapshots reports whether there are snapshots of the volume. With them Cinder does not delete it.
func (f *Cinder) hasSnapshots(v *volume) bool {
	return slices.ContainsFunc(f.snapshots, func(s *snapshot) bool { return s.Volume == v.ID })
}

// visibleSnapshot is the snapshot if the caller may see it: administrators see those of all projects.
func (f *Cinder) visibleSnapshot(q *request, id string) *snapshot {
	for _, s := range f.snapshots {
		if s.ID == id && (q.admin || s.Project == q.project) {
			return s
		}
	}
	return nil
}

func (f *Cinder) createSnapshot(q *request) answer {
	var in struct {
		Volume   string            `json:"volume_id"`
		Name     string            `json:"name"`
		Force    *bool             `json:"force"`
		Metadata map[string]string `json:"metadata"`
	}
	if a := q.decode("snapshot", &in); a.status != 0 {
		return a
	}
	if a := checkMetadata(in.Metadata); a.status != 0 {
		return a
	}
	v := f.visible(q, in.Volume)
	if v == nil {
		return notFound("Volume", in.Volume)
	}
	const unforced = 66 // the microversion since which a volume may be in use without the flag
	if in.Force != nil && !*in.Force && q.minor >= unforced {
		return refuse(400, "Since microversion 3.66 the 'force' flag is invalid for this request.  For backward compatability, however, "+
			"when the 'force' flag is passed with a value evaluating to True, it is silently ignored.")
	}
	allowed := []string{"available"}
	if in.Force != nil && *in.Force || q.minor >= unforced {
		allowed = append(allowed, "in-use")
	}
	if !slices.Contains(allowed, v.Status) {
		return invalid("Volume %s status must be %s, but current status is: %s.", v.ID, strings.Join(allowed, ", "), v.Status)
	}
	if a := f.roomFor(v.Project, 0, v.Size); a.status != 0 {
		return a
	}
	s := &snapshot{Snapshot: Snapshot{ID: f.newID(), Name: in.Name, Status: "creating", Size: v.Size, Volume: v.ID, Project: q.project,
		Metadata: in.Metadata}, user: q.user, created: f.now()}
	s.next = f.outcome("POST /snapshots", s.Status, transition{to: "available"})
	f.snapshots = append(f.snapshots, s)
	return reply(202, object{"snapshot": s.view(q)})
}

func (f *Cinder) deleteSnapshot(q *request) answer {
	s := f.visibleSnapshot(q, q.id)
	if s == nil {
		return notFound("Snapshot", q.id)
	}
	if s.Status != "available" && s.Status != "error" {
		return refuse(400, "Invalid snapshot: Snapshot status must be available or error and must not be part of a group.")
	}
	s.next = f.outcome("DELETE /snapshots/{id}", s.Status, transition{to: gone})
	s.Status, s.updated = "deleting", f.now()
	return accepted()
}

func (f *Cinder) showSnapshot(q *request) answer {
	s := f.visibleSnapshot(q, q.id)
	if s == nil {
		return notFound("Snapshot", q.id)
	}
	return reply(200, object{"snapshot": s.fullView(q)})
}

// listSnapshotsDetail answers the project's snapshots, the newest first: of one name or volume where that is asked for.
func (f *Cinder) listSnapshotsDetail(q *request) answer {
	name, volume := q.get("name"), q.get("volume_id")
	found := list{}
	for _, s := range slices.Backward(f.snapshots) {
		if s.Project == q.project && (name == "" || s.Name == name) && (volume == "" || s.Volume == volume) {
			found = append(found, s.fullView(q))
		}
	}
	return reply(200, object{"snapshots": found})
}

// view is the snapshot in JSON, as the answer of a create.
func (s *snapshot) view(q *request) object {
	metadata := maps.Clone(s.Metadata)
	if metadata == nil {
		metadata = map[string]string{}
	}
	o := object{"id": s.ID, "created_at": s.created, "updated_at": null(s.updated), "name": null(s.Name), "description": nil,
		"volume_id": s.Volume, "status": s.Status, "size": s.Size, "metadata": metadata}
	for _, field := range []struct {
		since int
		name  string
		value any
	}{{14, "group_snapshot_id", nil}, {41, "user_id", s.user}, {65, "consumes_quota", true}} {
		if q.minor >= field.since {
			o[field.name] = field.value
		}
	}
	return o
}

// fullView is view with what show and the detailed list add.
func (s *snapshot) fullView(q *request) object {
	o := s.view(q)
	o["os-extended-snapshot-attributes:project_id"] = s.Project
	o["os-extended-snapshot-attributes:progress"] = "0%"
	if s.Status == "available" {
		o["os-extended-snapshot-attributes:progress"] = "100%"
	}
	return o
}

// fromSnapshot makes the volume one that begins with a snapshot.
func (f *Cinder) fromSnapshot(q *request, v *volume, in newVolume) answer {
	s := f.visibleSnapshot(q, in.SnapshotID)
	if s == nil {
		return notFound("Snapshot", in.SnapshotID)
	}
	origin := f.volume(s.Volume)
	switch {
	case s.Status != "available":
		return refuse(400, "Invalid snapshot: Originating snapshot status must be one of 'available' values")
	case in.Size < s.Size:
		return invalidInput("Volume size '%d'GB cannot be smaller than the snapshot size %dGB. They must be >= original snapshot size.", in.Size, s.Size)
	case in.Zone != "" && in.Zone != origin.Zone: // cloned_volume_same_az, Cinder's default
		return invalidInput("Volume must be in the same availability zone as the snapshot")
	}
	v.Type, v.Zone = origin.Type, origin.Zone
	return answer{}
}

// checkMetadata refuses values that are longer than Cinder's columns.
func checkMetadata(metadata map[string]string) answer {
	for key, value := range metadata {
		if len(value) > 255 {
			return refuse(400, fmt.Sprintf("Invalid input for field/attribute %s. Value: %s. '%s' is too long", key, value, value))
		}
	}
	return answer{}
}
