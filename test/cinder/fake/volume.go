package fake

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Volume is a volume as a test sees it.
type Volume struct {
	ID, Name, Description string
	Status                string // "creating", "available", ..., as Cinder's
	Size                  int    // GiB
	Type, Zone, Project   string
	Metadata              map[string]string
	SourceVolume          string // id
	SourceSnapshot        string // id
	Encrypted             bool
	Exported              bool   // an export exists, made by os-initialize_connection
	CHAPUser              string // made with the first export, kept for the volume's life
	CHAPPassword          string
	Attachments           []Attachment
	Connectors            []map[string]any // those of os-initialize_connection not yet terminated, in their order
}

// Volumes are some volumes, the oldest first.
type Volumes []Volume

func (all Volumes) String() string {
	var b strings.Builder
	for _, v := range all {
		fmt.Fprintf(&b, "volume %s %q %s %dGiB exported=%t attachments=%d connectors=%d\n", v.ID, v.Name, v.Status, v.Size, v.Exported, len(v.Attachments), len(v.Connectors))
	}
	return cmp.Or(b.String(), "nothing\n")
}

// volume is a volume with what only Cinder knows.
type volume struct {
	Volume
	next             transition
	user             string
	admin            map[string]string // shown to administrators with the user's metadata
	multiattach      bool
	hostless         bool // the scheduler found no backend for it
	created, updated string
}

const defaultType = "__DEFAULT__"

// newVolume is a volume that Cinder has nothing of yet. Empty fields get what a plain one has.
func (f *Cinder) newVolume(in Volume) *volume {
	in.ID, in.Type, in.Zone = cmp.Or(in.ID, f.newID()), cmp.Or(in.Type, defaultType), cmp.Or(in.Zone, f.settings.zones[0])
	in.Project, in.Metadata = cmp.Or(in.Project, f.defaultProject()), maps.Clone(in.Metadata)
	if in.Metadata == nil {
		in.Metadata = map[string]string{}
	}
	return &volume{Volume: in, user: "admin", admin: map[string]string{}, created: f.now()}
}

func (f *Cinder) to(v *volume, status string) { v.Status, v.updated = status, f.now() }

// transition is what becomes of a volume that is in a passing status.
type transition struct {
	to   string // the status it ends in; "gone"; empty where there is nothing to come
	text string // for /messages
	size int    // that it has then, 0 for the same; quotas count it from the beginning
	at   time.Time
}

const gone = "gone"

// byAttachments stands for the status that a volume's attachments give it when the transition ends.
const byAttachments = "by attachments"

// begin begins a transition, or the next Failure of the operation.
func (f *Cinder) begin(op string, v *volume, next transition) { v.next = f.outcome(op, v.Status, next) }

// outcome is the transition, or the next Failure of the operation, of something in that status.
func (f *Cinder) outcome(op, status string, next transition) transition {
	if i := slices.IndexFunc(f.failures, func(x Failure) bool { return x.op == op }); i >= 0 {
		next = transition{to: cmp.Or(f.failures[i].status, status), text: f.failures[i].text}
		f.failures = slices.Delete(f.failures, i, i+1)
	}
	next.at = time.Now().Add(f.settings.pace)
	return next
}

// tell leaves a message for users, if there is a text.
func (f *Cinder) tell(kind, id, text string) {
	if text != "" {
		f.messages = append(f.messages, message{id: f.newID(), kind: kind, resource: id, text: text, created: f.now()})
	}
}

// settle ends the transitions that are due, or all.
func (f *Cinder) settle(all bool) {
	f.settleSnapshots(all)
	for _, v := range slices.Clone(f.volumes) {
		switch next := v.next; {
		case next.to == "" || !all && time.Now().Before(next.at):
		case next.to == gone:
			f.forget(v)
		default:
			f.tell("VOLUME", v.ID, next.text)
			if next.to == byAttachments {
				next.to = f.detached(v)
			}
			v.Size, v.next = cmp.Or(next.size, v.Size), transition{}
			f.to(v, next.to)
		}
	}
}

func (f *Cinder) forget(v *volume) {
	f.volumes = slices.DeleteFunc(f.volumes, func(other *volume) bool { return other == v })
}

// A Failure is one of a request that Cinder accepted.
type Failure struct{ op, status, text string }

const noValidHost = "schedule allocate volume:Could not find any available weighted backend."

// The failures. The texts of extensions are of Cinder's message_field.py; they were not recorded.
var (
	// NoBackend: no backend can take a new volume.
	NoBackend = Failure{"POST /volumes", "error", noValidHost}
	// NotDeleted: the driver fails to delete a volume.
	NotDeleted = Failure{"DELETE /volumes/{id}", "error_deleting", ""}
	// VolumeBusy: the backend has something that depends on a volume, such as a clone. Cinder has no message for it.
	VolumeBusy = Failure{"DELETE /volumes/{id}", "available", ""}
	// NotExtended: the driver fails to extend a volume.
	NotExtended = Failure{"os-extend", "error_extending", "extend volume:Volume Driver failed to extend volume."}
	// NoRoom: the scheduler finds no room for a larger volume, which goes back to its status and size.
	NoRoom = Failure{"os-extend", "", "extend volume:Could not find any available weighted backend."}
)

// Fail lets the next volume of which Cinder accepts such a request end in the failure.
func (f *Cinder) Fail(next Failure) {
	f.locked(func() { f.failures = append(f.failures, next) })
}

// Settle ends all that is under way: what is being created, extended or deleted is so afterwards, however long WithPace
// lets it take.
func (f *Cinder) Settle() { f.locked(func() { f.settle(true) }) }

// Volumes lists all volumes as they are now.
func (f *Cinder) Volumes() Volumes {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settle(false)
	var all Volumes
	for _, v := range f.volumes {
		all = append(all, v.copy())
	}
	return all
}

func (v *volume) copy() Volume {
	out := v.Volume
	out.Metadata, out.Attachments, out.Connectors = maps.Clone(v.Metadata), slices.Clone(v.Attachments), slices.Clone(v.Connectors)
	return out
}

// Volume returns the volume of this name or id. It fails the test unless there is exactly one.
func (f *Cinder) Volume(name string) Volume {
	f.t.Helper()
	all := f.Volumes()
	found := slices.DeleteFunc(slices.Clone(all), func(v Volume) bool { return v.Name != name && v.ID != name })
	if len(found) != 1 {
		f.t.Fatalf("%d volumes are called %q, not one; there is:\n%s", len(found), name, all)
	}
	return found[0]
}

// change does something to the volume of this name or id. It fails the test unless there is exactly one.
func (f *Cinder) change(name string, do func(*volume)) {
	f.t.Helper()
	id := f.Volume(name).ID
	f.locked(func() {
		if v := f.volume(id); v != nil {
			do(v)
		}
	})
}

// AddVolume puts a volume there as if it had been made before. Empty fields get what a plain one of 1 GiB has; with status
// "in-use" it gets an attachment unless it has some.
func (f *Cinder) AddVolume(in Volume) Volume {
	f.mu.Lock()
	defer f.mu.Unlock()
	in.Size, in.Status, in.Attachments = max(in.Size, 1), cmp.Or(in.Status, "available"), slices.Clone(in.Attachments)
	if in.Status == "in-use" && len(in.Attachments) == 0 {
		in.Attachments = []Attachment{{Host: "node-1", Device: "/dev/vdb"}}
	}
	for i := range in.Attachments {
		a := &in.Attachments[i]
		a.ID, a.Status, a.Mode, a.attached = cmp.Or(a.ID, f.newID()), cmp.Or(a.Status, "attached"), cmp.Or(a.Mode, "rw"), f.now()
	}
	v := f.newVolume(in)
	f.volumes = append(f.volumes, v)
	return v.copy()
}

// BeginAttach leaves of a volume, by name or id, what a Cinder leaves that was killed in os-attach: an attachment that it
// began, which knows no host yet.
func (f *Cinder) BeginAttach(name string) {
	f.t.Helper()
	f.change(name, func(v *volume) {
		v.Attachments = append(v.Attachments, Attachment{ID: f.newID(), Status: "attaching", Mode: "rw"})
	})
}

// Job begins a job of Cinder's own on a volume, by name or id, such as "backing-up". At its end Cinder gives the volume
// the status back that it has now, whatever was done to it meanwhile.
func (f *Cinder) Job(name, status string) {
	f.t.Helper()
	f.change(name, func(v *volume) {
		f.begin("job", v, transition{to: v.Status})
		f.to(v, status)
	})
}

// SetStatus changes a volume's status, by name or id, as an administrator would.
func (f *Cinder) SetStatus(name, status string) {
	f.t.Helper()
	f.change(name, func(v *volume) { v.Status, v.next = status, transition{} })
}

func (f *Cinder) volume(id string) *volume {
	for _, v := range f.volumes {
		if v.ID == id {
			return v
		}
	}
	return nil
}

// visible is the volume if the caller may see it: administrators see those of all projects.
func (f *Cinder) visible(q *request, id string) *volume {
	if v := f.volume(id); v != nil && (q.admin || v.Project == q.project) {
		return v
	}
	return nil
}

// view is the volume in JSON, as this caller gets it.
func (f *Cinder) view(q *request, v *volume) object {
	attachments := list{}
	for _, a := range v.Attachments {
		if a.Status != "attached" {
			continue
		}
		host := null(a.Host)
		if !q.admin {
			host = nil
		}
		attachments = append(attachments, object{
			"id": v.ID, "attachment_id": a.ID, "volume_id": v.ID, "server_id": null(a.Instance), "host_name": host,
			"device": a.Device, "attached_at": a.attached,
		})
	}
	metadata := maps.Clone(v.Metadata)
	if q.admin {
		maps.Copy(metadata, v.admin)
	}
	o := object{
		"id": v.ID, "status": v.Status, "size": v.Size, "availability_zone": v.Zone, "created_at": v.created, "updated_at": null(v.updated),
		"name": null(v.Name), "description": null(v.Description), "volume_type": v.Type, "snapshot_id": null(v.SourceSnapshot),
		"source_volid": null(v.SourceVolume), "metadata": metadata, "links": links(q, "volumes", v.ID), "user_id": v.user,
		"bootable": "false", "encrypted": v.Encrypted, "replication_status": nil, "consistencygroup_id": nil,
		"multiattach": v.multiattach, "attachments": attachments,
	}
	if q.admin {
		o["migration_status"] = nil
	}
	return o
}

// fullView is view with what show and the detailed list add to the answer of a create.
func (f *Cinder) fullView(q *request, v *volume) object {
	o := f.view(q, v)
	o["os-vol-tenant-attr:tenant_id"] = v.Project
	if q.admin {
		o["os-vol-mig-status-attr:migstat"] = nil
		o["os-vol-mig-status-attr:name_id"] = nil
		o["os-vol-host-attr:host"] = "node@" + Backend + "#" + Backend
		if v.Status == "creating" || v.hostless {
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
