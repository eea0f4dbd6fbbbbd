package fake

type snapshot struct {
	id, name, description string
	volume, project       string
	status                string
	size                  int
	metadata              map[string]string
	next                  transition
	created, updated      string
}

func (f *Cinder) snapshotsOf(v *volume) []*snapshot {
	var of []*snapshot
	for _, n := range f.snapshots {
		if n.volume == v.id {
			of = append(of, n)
		}
	}
	return of
}

// snapshot is the snapshot of this id if the caller may see it.
func (f *Cinder) snapshot(q *request, id string) *snapshot {
	for _, n := range f.snapshots {
		if n.id == id && (q.admin() || n.project == q.project) {
			return n
		}
	}
	return nil
}

func (f *Cinder) createSnapshot(q *request) answer {
	var in struct {
		Volume      string         `json:"volume_id"`
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Force       *bool          `json:"force"`
		Metadata    map[string]any `json:"metadata"`
	}
	if a := readBody(q, "snapshot", &in); a.status != 0 {
		return a
	}
	metadata, a := checkMetadata(in.Metadata)
	if a.status != 0 {
		return a
	}
	force := in.Force != nil && *in.Force
	if q.minor >= 66 {
		if in.Force != nil && !*in.Force {
			return refuse(400, "Since microversion 3.66 the 'force' flag is invalid for this request.  For backward compatability, however, when the "+
				"'force' flag is passed with a value evaluating to True, it is silently ignored.")
		}
		force = true
	}
	v := f.visible(q, in.Volume)
	if v == nil {
		return notFound("Volume", in.Volume)
	}
	if v.status != "available" && (v.status != "in-use" || !force) {
		return invalid("Volume %s status must be available, but current status is: %s.", v.id, v.status)
	}
	if a := f.roomFor(v.project, 0, 1, v.size, v.size); a.status != 0 {
		return a
	}
	n := &snapshot{
		id: f.newID(), name: in.Name, description: in.Description, volume: v.id, project: q.project, status: "creating", size: v.size,
		metadata: metadata, next: f.transition("available", ""), created: f.now(),
	}
	f.snapshots = append(f.snapshots, n)
	return reply(202, object{"snapshot": n.view(q)})
}

func (n *snapshot) view(q *request) object {
	o := object{
		"id": n.id, "created_at": n.created, "updated_at": null(n.updated), "name": null(n.name), "description": null(n.description),
		"volume_id": n.volume, "status": n.status, "size": n.size, "metadata": n.metadata,
	}
	if q.minor >= 14 {
		o["group_snapshot_id"] = nil
	}
	if q.minor >= 41 {
		o["user_id"] = q.user
	}
	if q.minor >= 65 {
		o["consumes_quota"] = true
	}
	return o
}

func (n *snapshot) fullView(q *request) object {
	o := n.view(q)
	o["os-extended-snapshot-attributes:project_id"] = n.project
	o["os-extended-snapshot-attributes:progress"] = "0%"
	if n.status == "available" {
		o["os-extended-snapshot-attributes:progress"] = "100%"
	}
	n.next.reads--
	return o
}

func (f *Cinder) showSnapshot(q *request) answer {
	n := f.snapshot(q, q.id)
	if n == nil {
		return notFound("Snapshot", q.id)
	}
	return reply(200, object{"snapshot": n.fullView(q)})
}

func (f *Cinder) listSnapshots(q *request) answer {
	return f.snapshotList(q, func(n *snapshot) object { return n.view(q) })
}

func (f *Cinder) listSnapshotsDetail(q *request) answer {
	return f.snapshotList(q, func(n *snapshot) object { return n.fullView(q) })
}

func (f *Cinder) snapshotList(q *request, view func(*snapshot) object) answer {
	all := list{}
	for i := len(f.snapshots) - 1; i >= 0; i-- {
		n := f.snapshots[i]
		fits := n.project == q.project
		for filter, value := range map[string]string{"volume_id": n.volume, "name": n.name, "status": n.status} {
			if want := q.get(filter); want != "" {
				fits = fits && want == value
			}
		}
		if fits {
			all = append(all, view(n))
		}
	}
	return reply(200, object{"snapshots": all})
}

func (f *Cinder) deleteSnapshot(q *request) answer {
	n := f.snapshot(q, q.id)
	if n == nil {
		return notFound("Snapshot", q.id)
	}
	if n.status != "available" && n.status != "error" {
		return refuse(400, "Invalid snapshot: Snapshot status must be available or error and must not be part of a group.")
	}
	n.status, n.next = "deleting", f.transition(gone, "")
	return accepted()
}
