package fake

import (
	"fmt"
	"slices"
)

const undeletable = "Volume status must be available or error or error_restoring or error_extending or error_managing and must not be migrating, attached, " +
	"belong to a group, have snapshots, awaiting a transfer, or be disassociated from snapshots after volume transfer."

// newVolume is the body of a create.
type newVolume struct {
	Size        int               `json:"size"`
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Zone        string            `json:"availability_zone"`
	Type        string            `json:"volume_type"`
	Metadata    map[string]string `json:"metadata"`
	SourceVolID string            `json:"source_volid"`
	SnapshotID  string            `json:"snapshot_id"`
}

func (f *Cinder) createVolume(q *request) answer {
	var in newVolume
	if a := q.decode("volume", &in); a.status != 0 {
		return a
	}
	if a := in.check(); a.status != 0 {
		return a
	}
	v := f.newVolume(Volume{Name: in.Name, Description: in.Description, Size: in.Size, Zone: in.Zone, Project: q.project, Metadata: in.Metadata, SourceVolume: in.SourceVolID,
		SourceSnapshot: in.SnapshotID})
	v.user = q.user
	if a := f.fromSource(q, v, in); a.status != 0 {
		return a
	}
	if a := f.roomFor(v.Project, 1, v.Size); a.status != 0 {
		return a
	}
	v.multiattach = f.typeFor(v.Type).multiattach()
	next := transition{to: "available"}
	if b := f.typeFor(v.Type).backend(); b != "" && b != Backend {
		next = transition{to: "error", text: noValidHost}
	}
	f.begin("POST /volumes", v, next)
	v.Status = "creating"
	v.hostless = v.next.text == noValidHost
	f.volumes = append(f.volumes, v)
	return reply(202, object{"volume": f.view(q, v)})
}

// check is what Cinder does before it looks anything up.
func (in *newVolume) check() answer {
	if in.Size < 1 {
		return refuse(400, fmt.Sprintf("Invalid input for field/attribute size. Value: %d. %d is less than the minimum of 1", in.Size, in.Size))
	}
	return checkMetadata(in.Metadata)
}

// fromSource looks up type, source and zone, and takes from the source what was not given.
func (f *Cinder) fromSource(q *request, v *volume, in newVolume) answer {
	chosen := f.typeFor(in.Type)
	if in.Type != "" && chosen == nil {
		return refuse(404, fmt.Sprintf("Volume type with name %s could not be found.", in.Type))
	}
	if in.SourceVolID != "" {
		source := f.visible(q, in.SourceVolID)
		if a := cloneable(source, in); a.status != 0 {
			return a
		}
		v.Type = source.Type
		if in.Zone == "" {
			v.Zone = source.Zone
		}
		if v.Zone != source.Zone { // cloned_volume_same_az, Cinder's default
			return invalidInput("Volume must be in the same availability zone as the source volume")
		}
	}
	if in.SnapshotID != "" {
		if a := f.fromSnapshot(q, v, in); a.status != 0 {
			return a
		}
	}
	if chosen != nil {
		v.Type = chosen.Name
	}
	if !slices.Contains(f.settings.zones, v.Zone) {
		return refuse(400, fmt.Sprintf("Availability zone '%s' is invalid.", v.Zone))
	}
	return answer{}
}

func cloneable(source *volume, in newVolume) answer {
	if source == nil {
		return notFound("Volume", in.SourceVolID)
	}
	if in.Size < source.Size {
		return invalidInput("Volume size '%d'GB cannot be smaller than original volume size  %dGB. They must be >= original volume size.", in.Size, source.Size)
	}
	return answer{}
}

func (f *Cinder) showVolume(q *request) answer {
	v := f.visible(q, q.id)
	if v == nil {
		return notFound("Volume", q.id)
	}
	return reply(200, object{"volume": f.fullView(q, v)})
}

func (f *Cinder) listVolumes(q *request) answer {
	return f.list(q, func(v *volume) object {
		return object{"id": v.ID, "name": null(v.Name), "links": links(q, "volumes", v.ID)}
	})
}

func (f *Cinder) listVolumesDetail(q *request) answer {
	return f.list(q, func(v *volume) object { return f.fullView(q, v) })
}

// list answers both lists of the project's volumes: newest first, and of one name where that is asked for.
func (f *Cinder) list(q *request, view func(*volume) object) answer {
	name := q.get("name")
	found := list{}
	for _, v := range slices.Backward(f.volumes) {
		if v.Project == q.project && (name == "" || v.Name == name) {
			found = append(found, view(v))
		}
	}
	return reply(200, object{"volumes": found})
}

func (f *Cinder) deleteVolume(q *request) answer {
	v := f.visible(q, q.id)
	if v == nil {
		return notFound("Volume", q.id)
	}
	if v.hostless {
		f.forget(v) // at once, whatever its status: no backend knows of it
		return accepted()
	}
	deletable := []string{"available", "error", "error_restoring", "error_extending", "error_managing"}
	if !slices.Contains(deletable, v.Status) || len(v.Attachments) > 0 || f.hasSnapshots(v) {
		return invalid(undeletable)
	}
	f.begin("DELETE /volumes/{id}", v, transition{to: gone})
	f.to(v, "deleting")
	return accepted()
}
