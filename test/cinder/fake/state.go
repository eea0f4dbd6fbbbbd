package fake

import (
	"fmt"
	"maps"
	"strings"
)

// Volume is a volume as a test sees it.
type Volume struct {
	ID, Name, Description string
	Status                string // "creating", "available", ..., as Cinder's
	Size                  int    // GiB
	Type, Zone, Project   string
	Metadata              map[string]string
	SourceVolume          string // id
	Snapshot              string // id
	Multiattach           bool
	Encrypted             bool
	Exported              bool // an export exists, made by os-initialize_connection
	CHAPUser              string
	CHAPPassword          string
	Attachments           []Attachment
	Connectors            []map[string]any // those of os-initialize_connection not yet terminated, in their order
}

// Attachment is one attachment of a volume.
type Attachment struct {
	ID, VolumeID string
	Status       string // "reserved", "attaching", "attached"
	Host, Device string
	Mode         string
	Instance     string // a Nova server's id: a standalone user must never send one
}

// Snapshot is a snapshot of a volume.
type Snapshot struct {
	ID, Name, Status, VolumeID string
	Size                       int // GiB
}

// State is all that exists.
type State struct {
	Volumes     []Volume
	Snapshots   []Snapshot
	Attachments []Attachment
	Exports     []string // ids of volumes that are exported
}

// State returns what exists now. What is due by time is done first; reading it is not a read in the sense of Reads.
func (f *Cinder) State() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settle((*transition).due)
	var s State
	for _, v := range f.volumes {
		out := f.export(v)
		s.Volumes = append(s.Volumes, out)
		s.Attachments = append(s.Attachments, out.Attachments...)
		if v.exported {
			s.Exports = append(s.Exports, v.id)
		}
	}
	for _, n := range f.snapshots {
		s.Snapshots = append(s.Snapshots, Snapshot{ID: n.id, Name: n.name, Status: n.status, VolumeID: n.volume, Size: n.size})
	}
	return s
}

// Empty says that nothing exists.
func (s State) Empty() bool {
	return len(s.Volumes)+len(s.Snapshots)+len(s.Attachments)+len(s.Exports) == 0
}

func (s State) String() string {
	var b strings.Builder
	for _, v := range s.Volumes {
		fmt.Fprintf(&b, "volume %s %q %s %dGiB exported=%t attachments=%d connectors=%d\n", v.ID, v.Name, v.Status, v.Size, v.Exported, len(v.Attachments), len(v.Connectors))
	}
	for _, n := range s.Snapshots {
		fmt.Fprintf(&b, "snapshot %s %q %s of %s\n", n.ID, n.Name, n.Status, n.VolumeID)
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

// Volumes lists all volumes.
func (f *Cinder) Volumes() []Volume { return f.State().Volumes }

// Volume returns the volume of this name or id. It fails the test unless there is exactly one.
func (f *Cinder) Volume(name string) Volume {
	f.t.Helper()
	s := f.State()
	var found []Volume
	for _, v := range s.Volumes {
		if v.Name == name || v.ID == name {
			found = append(found, v)
		}
	}
	if len(found) != 1 {
		f.t.Fatalf("%d volumes are called %q, not one; there is:\n%s", len(found), name, s)
	}
	return found[0]
}

// AddVolume puts a volume there as if it had been made before. Empty fields get what a plain one of 1 GiB has; with status
// "in-use" it gets an attachment unless it has some.
func (f *Cinder) AddVolume(in Volume) Volume {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := &volume{
		id: or(in.ID, f.newID()), name: in.Name, description: in.Description, status: or(in.Status, "available"), size: max(in.Size, 1),
		typ: or(in.Type, defaultType), zone: or(in.Zone, f.settings.zones[0]), project: or(in.Project, f.defaultProject()), user: "admin",
		metadata: maps.Clone(in.Metadata), admin: map[string]string{}, source: in.SourceVolume, snapshot: in.Snapshot,
		multiattach: in.Multiattach, encrypted: in.Encrypted, exported: in.Exported, connectors: in.Connectors,
		created: f.now(),
	}
	if v.metadata == nil {
		v.metadata = map[string]string{}
	}
	if v.exported {
		f.chap(v)
	}
	f.volumes = append(f.volumes, v)
	if v.status == "in-use" && len(in.Attachments) == 0 {
		in.Attachments = []Attachment{{Status: "attached", Host: "node-1", Device: "/dev/vdb", Mode: "rw"}}
	}
	for _, a := range in.Attachments {
		f.attachments = append(f.attachments, &attachment{
			id: or(a.ID, f.newID()), volume: v.id, status: or(a.Status, "attached"), host: a.Host, device: a.Device,
			mode: or(a.Mode, "rw"), instance: a.Instance, attached: f.now(),
		})
	}
	return f.export(v)
}

// BeginAttach leaves of a volume, by name or id, what a Cinder leaves that was killed in os-attach: an attachment that it
// began, which knows no host yet. It fails the test unless there is exactly one such volume.
func (f *Cinder) BeginAttach(name string) {
	f.t.Helper()
	id := f.Volume(name).ID
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attachments = append(f.attachments, &attachment{id: f.newID(), volume: id, status: "attaching", mode: "rw"})
}

// SetStatus changes a volume's status, by name or id, as an administrator would. It fails the test unless there is exactly
// one such volume.
func (f *Cinder) SetStatus(name, status string) {
	f.t.Helper()
	id := f.Volume(name).ID
	f.mu.Lock()
	defer f.mu.Unlock()
	if v := f.volume(id); v != nil {
		v.status, v.next = status, transition{}
	}
}

func (f *Cinder) export(v *volume) Volume {
	out := Volume{
		ID: v.id, Name: v.name, Description: v.description, Status: v.status, Size: v.size, Type: v.typ, Zone: v.zone, Project: v.project,
		Metadata: maps.Clone(v.metadata), SourceVolume: v.source, Snapshot: v.snapshot, Multiattach: v.multiattach,
		Encrypted: v.encrypted, Exported: v.exported, CHAPUser: v.chapUser, CHAPPassword: v.chapPassword,
		Connectors: append([]map[string]any(nil), v.connectors...),
	}
	for _, a := range f.attachmentsOf(v) {
		out.Attachments = append(out.Attachments, Attachment{
			ID: a.id, VolumeID: a.volume, Status: a.status, Host: a.host, Device: a.device, Mode: a.mode, Instance: a.instance,
		})
	}
	return out
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
