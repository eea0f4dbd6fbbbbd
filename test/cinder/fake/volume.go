package fake

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

const (
	defaultType = "__DEFAULT__"
	noValidHost = "schedule allocate volume:Could not find any available weighted backend."
	// Of Cinder's message_field.py; not recorded.
	extendFailed = "extend volume:Volume Driver failed to extend volume."
	extendNoRoom = "extend volume:Could not find any available weighted backend."
)

type volume struct {
	id, name, description  string
	status                 string
	next                   transition
	size                   int
	typ, zone              string
	project, user          string
	metadata, admin        map[string]string // a user's; Cinder's own, shown to administrators with the others
	source                 string
	multiattach, encrypted bool
	snapshots              bool // somebody made some
	exported               bool
	hostless               bool   // the scheduler found no backend for it
	chapUser, chapPassword string // made with the first export, kept for the volume's life
	connectors             []map[string]any
	created, updated       string
}

// transition is what becomes of a volume that is in a passing status.
type transition struct {
	to    string // the status it ends in; "gone"; empty where there is nothing to come
	text  string // for /messages, with "error"
	size  int    // that it has then, 0 for the same; quotas count it from the beginning
	reads int    // that still see the passing status
	at    time.Time
}

func (t *transition) due() bool { return t.reads <= 0 && !time.Now().Before(t.at) }

func (f *Cinder) transition(to, text string) transition {
	p := f.settings.pace
	return transition{to: to, text: text, reads: p.reads, at: time.Now().Add(p.wait)}
}

// settle ends the transitions that are ready.
func (f *Cinder) settle(ready func(*transition) bool) {
	for _, v := range slices.Clone(f.volumes) {
		if v.next.to == "" || !ready(&v.next) {
			continue
		}
		if v.next.to == gone {
			f.forget(v)
			continue
		}
		if v.next.text != "" {
			f.messages = append(f.messages, message{id: f.newID(), resource: v.id, text: v.next.text, created: f.now()})
		}
		if v.next.size != 0 {
			v.size = v.next.size
		}
		v.status, v.next, v.updated = v.next.to, transition{}, f.now()
	}
}

const gone = "gone"

// forget removes a volume with its export and its attachments.
func (f *Cinder) forget(v *volume) {
	f.attachments = slices.DeleteFunc(f.attachments, func(a *attachment) bool { return a.volume == v.id })
	f.volumes = slices.DeleteFunc(f.volumes, func(other *volume) bool { return other == v })
}

// newVolume is a volume that Cinder has nothing of yet. Empty fields get what a plain one has.
func (f *Cinder) newVolume(in Volume) *volume {
	v := &volume{
		id: cmp.Or(in.ID, f.newID()), name: in.Name, description: in.Description, size: in.Size, typ: cmp.Or(in.Type, defaultType),
		zone: cmp.Or(in.Zone, f.settings.zones[0]), project: cmp.Or(in.Project, f.defaultProject()), user: "admin",
		metadata: map[string]string{}, admin: map[string]string{}, source: in.SourceVolume, created: f.now(),
	}
	maps.Copy(v.metadata, in.Metadata)
	return v
}

func (f *Cinder) volume(id string) *volume {
	for _, v := range f.volumes {
		if v.id == id {
			return v
		}
	}
	return nil
}

// visible is the volume if the caller may see it: administrators see those of all projects.
func (f *Cinder) visible(q *request, id string) *volume {
	if v := f.volume(id); v != nil && (q.admin || v.project == q.project) {
		return v
	}
	return nil
}

// chap makes the volume's CHAP secret, once.
func (f *Cinder) chap(v *volume) {
	if v.chapUser == "" {
		v.chapUser, v.chapPassword = f.random(20), f.random(16)
		f.secrets = append(f.secrets, v.chapPassword)
	}
}

// view is the volume in JSON, as this caller gets it.
func (f *Cinder) view(q *request, v *volume) object {
	attachments := list{}
	for _, a := range f.attachmentsOf(v) {
		if a.status == "attached" {
			host := null(a.host)
			if !q.admin {
				host = nil
			}
			attachments = append(attachments, object{
				"id": v.id, "attachment_id": a.id, "volume_id": v.id, "server_id": null(a.instance), "host_name": host,
				"device": a.device, "attached_at": a.attached,
			})
		}
	}
	metadata := maps.Clone(v.metadata)
	if q.admin {
		maps.Copy(metadata, v.admin)
	}
	o := object{
		"id": v.id, "status": v.status, "size": v.size, "availability_zone": v.zone, "created_at": v.created, "updated_at": null(v.updated),
		"name": null(v.name), "description": null(v.description), "volume_type": v.typ, "snapshot_id": nil,
		"source_volid": null(v.source), "metadata": metadata, "links": links(q, "volumes", v.id), "user_id": v.user,
		"bootable": "false", "encrypted": v.encrypted, "replication_status": nil, "consistencygroup_id": nil,
		"multiattach": v.multiattach, "attachments": attachments,
	}
	if q.admin {
		o["migration_status"] = nil
	}
	return o
}

// fullView is view with what show and the detailed list add to the answer of a create. It is a read in the sense of Reads.
func (f *Cinder) fullView(q *request, v *volume) object {
	o := f.view(q, v)
	v.next.reads--
	o["os-vol-tenant-attr:tenant_id"] = v.project
	if q.admin {
		o["os-vol-mig-status-attr:migstat"] = nil
		o["os-vol-mig-status-attr:name_id"] = nil
		o["os-vol-host-attr:host"] = "node@" + Backend + "#" + Backend
		if v.status == "creating" || v.hostless {
			o["os-vol-host-attr:host"] = nil
		}
	}
	return o
}

func links(q *request, kind, id string) list {
	return list{
		object{"rel": "self", "href": q.host + "/v3/" + q.project + "/" + kind + "/" + id},
		object{"rel": "bookmark", "href": q.host + "/" + q.project + "/" + kind + "/" + id},
	}
}

func null(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (f *Cinder) newID() string {
	var b [16]byte
	_, _ = io.ReadFull(f.chance, b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func (f *Cinder) random(n int) string {
	const letters = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"
	b := make([]byte, n)
	_, _ = io.ReadFull(f.chance, b)
	for i := range b {
		b[i] = letters[int(b[i])%len(letters)]
	}
	return string(b)
}
