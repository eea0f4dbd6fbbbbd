package fake

import (
	"fmt"
	"reflect"
	"slices"
)

var actions = map[string]func(*Cinder, *request, *volume) answer{
	"os-reserve":               (*Cinder).reserve,
	"os-unreserve":             (*Cinder).unreserve,
	"os-initialize_connection": (*Cinder).initializeConnection,
	"os-terminate_connection":  (*Cinder).terminateConnection,
	"os-attach":                (*Cinder).attach,
	"os-detach":                (*Cinder).detach,
	"os-extend":                (*Cinder).extend,
}

func (f *Cinder) actOnVolume(q *request) answer {
	act, ok := actions[q.action]
	if !ok {
		return refuse(400, fmt.Sprintf("There is no such action: %s. Verify the request body and Content-Type header and try again.", q.action))
	}
	v := f.visible(q, q.id)
	if v == nil {
		return notFound("Volume", q.id)
	}
	return act(f, q, v)
}

func (f *Cinder) reserve(_ *request, v *volume) answer {
	if v.status != "available" && (v.status != "in-use" || !v.multiattach) {
		want := "available"
		if v.multiattach {
			want = "available or in-use"
		}
		return invalid("Volume status must be %s to reserve, but the status is %s.", want, v.status)
	}
	f.to(v, "attaching")
	return done()
}

func (f *Cinder) unreserve(_ *request, v *volume) answer {
	if v.status == "attaching" && len(f.attachmentsOf(v)) > 0 {
		f.to(v, "in-use") // whatever became of them
	} else if v.status == "attaching" {
		f.to(v, "available")
	}
	return done()
}

// detached is the status of a volume of which an attachment was removed.
func (f *Cinder) detached(v *volume) string {
	var left []string
	for _, a := range f.attachmentsOf(v) {
		left = append(left, a.status)
	}
	switch {
	case len(left) == 0:
		return "available"
	case slices.Min(left) == "attached":
		return "in-use"
	}
	return slices.Min(left)
}

func (f *Cinder) to(v *volume, status string) { v.status, v.updated = status, f.now() }

func (f *Cinder) initializeConnection(q *request, v *volume) answer {
	info, a := f.connect(v, connectorOf(q))
	if a.status != 0 {
		return a
	}
	return reply(200, object{"connection_info": info})
}

// connect makes the export and returns connection_info in its nested form.
func (f *Cinder) connect(v *volume, connector map[string]any) (object, answer) {
	if a := f.settings.connection.check(connector); a.status != 0 {
		return nil, a
	}
	f.chap(v)
	v.exported = true
	v.connectors = append(v.connectors, connector)
	return f.settings.connection.info(f.export(v), connector), answer{}
}

func connectorOf(q *request) map[string]any {
	var in struct {
		Connector map[string]any `json:"connector"`
	}
	_ = q.decode(q.action, &in)
	return in.Connector
}

// terminateConnection also unreserves. The export stays, with its secret: only os-detach and a delete remove it.
func (f *Cinder) terminateConnection(q *request, v *volume) answer {
	if len(f.attachmentsOf(v)) > 1 {
		return conflict()
	}
	connector := connectorOf(q)
	v.connectors = slices.DeleteFunc(slices.Clone(v.connectors), func(c map[string]any) bool { return reflect.DeepEqual(c, connector) })
	return f.unreserve(q, v)
}

// conflict is Cinder's rule of CVE-2023-2088: with several attachments the caller must say which.
func conflict() answer {
	return refuse(409, "ConflictNovaUsingAttachment: Detach volume from instance  using the Compute API")
}

func (f *Cinder) attach(q *request, v *volume) answer {
	var in struct {
		Host   string `json:"host_name"`
		Device string `json:"mountpoint"`
		Mode   string `json:"mode"`
	}
	if a := q.decode(q.action, &in); a.status != 0 {
		return a
	}
	v.admin["readonly"] = "False"
	// The same host again changes nothing; beyond that Cinder looks at no status but in-use.
	for _, a := range f.attachmentsOf(v) {
		if a.host != in.Host {
			continue
		}
		if !q.admin {
			return broken() // of Zed, for all but administrators: it stumbles over admin_metadata
		}
		f.to(v, "in-use")
		return done()
	}
	if v.status == "in-use" && !v.multiattach {
		return invalid("volume is already attached and multiple attachments are not enabled")
	}
	f.attachments = append(f.attachments, &attachment{
		id: f.newID(), volume: v.id, status: "attached", host: in.Host, device: in.Device, mode: in.Mode, attached: f.now(),
	})
	v.admin["attached_mode"] = in.Mode
	f.to(v, "in-use")
	return done()
}

// detach removes an attachment and the export, even where other attachments are left. Where there is none the volume
// becomes available whatever it was, and the export stays.
func (f *Cinder) detach(q *request, v *volume) answer {
	var in struct {
		Attachment string `json:"attachment_id"`
	}
	if a := q.decode(q.action, &in); a.status != 0 {
		return a
	}
	all := f.attachmentsOf(v)
	if in.Attachment == "" && len(all) == 0 {
		f.to(v, "available")
		return done()
	}
	var a *attachment
	if in.Attachment != "" {
		a = f.attachment(in.Attachment)
	} else if len(all) == 1 {
		a = all[0]
	}
	switch {
	case a == nil:
		return conflict()
	case a.volume != v.id:
		return invalidInput("Mismatched volume and attachment")
	}
	f.remove(a, v)
	return done()
}

func (f *Cinder) remove(a *attachment, v *volume) {
	f.attachments = slices.DeleteFunc(f.attachments, func(other *attachment) bool { return other == a })
	delete(v.admin, "attached_mode")
	v.exported = false
	if len(f.attachmentsOf(v)) == 0 {
		v.connectors = nil
	}
	f.to(v, f.detached(v))
}

func (f *Cinder) extend(q *request, v *volume) answer {
	var in struct {
		Size int `json:"new_size"`
	}
	if a := q.decode(q.action, &in); a.status != 0 {
		return a
	}
	if v.status != "available" && (v.status != "in-use" || q.minor < 42) {
		return invalid("Volume %s status must be '{'status': 'available'}' to extend, currently %s.", v.id, v.status)
	}
	if in.Size <= v.size {
		return invalidInput("New size for extend must be greater than current size. (current: %d, extended: %d).", v.size, in.Size)
	}
	if a := f.roomFor(v.project, 0, in.Size-v.size); a.status != 0 {
		return a
	}
	v.next = f.transition(v.status, "")
	v.next.size = in.Size
	switch {
	case f.failExtend > 0:
		f.failExtend--
		v.next = f.transition("error_extending", extendFailed)
	case f.fullExtend > 0:
		f.fullExtend--
		v.next = f.transition(v.status, extendNoRoom)
	}
	f.to(v, "extending")
	return done()
}
