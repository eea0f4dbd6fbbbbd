package fake

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
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
	Encrypted             bool
	Exported              bool // an export exists, made by os-initialize_connection
	CHAPUser              string
	CHAPPassword          string
	Attachments           []Attachment
	Connectors            []map[string]any // those of os-initialize_connection not yet terminated, in their order
}

// Attachment is one attachment of a volume.
type Attachment struct {
	ID           string
	Status       string // "reserved", "attaching", "attached"
	Host, Device string
	Mode         string
	Instance     string // a Nova server's id: a standalone user must never send one
}

// State is all that exists.
type State struct{ Volumes []Volume }

// State returns what exists now. What is due by time is done first; reading it is not a read in the sense of Reads.
func (f *Cinder) State() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settle((*transition).due)
	var s State
	for _, v := range f.volumes {
		s.Volumes = append(s.Volumes, f.export(v))
	}
	return s
}

// Empty reports whether nothing exists.
func (s State) Empty() bool { return len(s.Volumes) == 0 }

func (s State) String() string {
	var b strings.Builder
	for _, v := range s.Volumes {
		fmt.Fprintf(&b, "volume %s %q %s %dGiB exported=%t attachments=%d connectors=%d\n", v.ID, v.Name, v.Status, v.Size, v.Exported, len(v.Attachments), len(v.Connectors))
	}
	return cmp.Or(b.String(), "nothing\n")
}

// Volumes lists all volumes.
func (f *Cinder) Volumes() []Volume { return f.State().Volumes }

// Volume returns the volume of this name or id. It fails the test unless there is exactly one.
func (f *Cinder) Volume(name string) Volume {
	f.t.Helper()
	s := f.State()
	found := slices.DeleteFunc(slices.Clone(s.Volumes), func(v Volume) bool { return v.Name != name && v.ID != name })
	if len(found) != 1 {
		f.t.Fatalf("%d volumes are called %q, not one; there is:\n%s", len(found), name, s)
	}
	return found[0]
}

// change does something to the volume of this name or id. It fails the test unless there is exactly one.
func (f *Cinder) change(name string, do func(*volume)) {
	f.t.Helper()
	id := f.Volume(name).ID
	f.mu.Lock()
	defer f.mu.Unlock()
	if v := f.volume(id); v != nil {
		do(v)
	}
}

// AddVolume puts a volume there as if it had been made before. Empty fields get what a plain one of 1 GiB has; with status
// "in-use" it gets an attachment unless it has some.
func (f *Cinder) AddVolume(in Volume) Volume {
	f.mu.Lock()
	defer f.mu.Unlock()
	in.Size = max(in.Size, 1)
	v := f.newVolume(in)
	v.status, v.encrypted = cmp.Or(in.Status, "available"), in.Encrypted
	f.volumes = append(f.volumes, v)
	if v.status == "in-use" && len(in.Attachments) == 0 {
		in.Attachments = []Attachment{{Host: "node-1", Device: "/dev/vdb"}}
	}
	for _, a := range in.Attachments {
		f.attachments = append(f.attachments, &attachment{
			id: cmp.Or(a.ID, f.newID()), volume: v.id, status: cmp.Or(a.Status, "attached"), host: a.Host, device: a.Device,
			mode: cmp.Or(a.Mode, "rw"), instance: a.Instance, attached: f.now(),
		})
	}
	return f.export(v)
}

// BeginAttach leaves of a volume, by name or id, what a Cinder leaves that was killed in os-attach: an attachment that it
// began, which knows no host yet.
func (f *Cinder) BeginAttach(name string) {
	f.t.Helper()
	f.change(name, func(v *volume) {
		f.attachments = append(f.attachments, &attachment{id: f.newID(), volume: v.id, status: "attaching", mode: "rw"})
	})
}

// AddSnapshot gives a volume, by name or id, a snapshot, with which Cinder does not delete it.
func (f *Cinder) AddSnapshot(name string) {
	f.t.Helper()
	f.change(name, func(v *volume) { v.snapshots = true })
}

// SetStatus changes a volume's status, by name or id, as an administrator would.
func (f *Cinder) SetStatus(name, status string) {
	f.t.Helper()
	f.change(name, func(v *volume) { v.status, v.next = status, transition{} })
}

func (f *Cinder) export(v *volume) Volume {
	out := Volume{
		ID: v.id, Name: v.name, Description: v.description, Status: v.status, Size: v.size, Type: v.typ, Zone: v.zone, Project: v.project,
		Metadata: maps.Clone(v.metadata), SourceVolume: v.source, Encrypted: v.encrypted, Exported: v.exported,
		CHAPUser: v.chapUser, CHAPPassword: v.chapPassword, Connectors: slices.Clone(v.connectors),
	}
	for _, a := range f.attachmentsOf(v) {
		out.Attachments = append(out.Attachments, Attachment{
			ID: a.id, Status: a.status, Host: a.host, Device: a.device, Mode: a.mode, Instance: a.instance,
		})
	}
	return out
}
