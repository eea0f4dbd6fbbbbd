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
	if v.Status != "available" && (v.Status != "in-use" || !v.multiattach) {
		want := "available"
		if v.multiattach {
			want = "available or in-use"
		}
		return invalid("Volume status must be %s to reserve, but the status is %s.", want, v.Status)
	}
	f.to(v, "attaching")
	return done()
}

func (f *Cinder) unreserve(_ *request, v *volume) answer {
	if v.Status == "attaching" && len(v.Attachments) > 0 {
		f.to(v, "in-use") // whatever became of them
	} else if v.Status == "attaching" {
		f.to(v, "available")
	}
	return done()
}

// detached is the status of a volume of which an attachment was removed.
func (f *Cinder) detached(v *volume) string {
	var left []string
	for _, a := range v.Attachments {
		left = append(left, a.Status)
	}
	switch {
	case len(left) == 0:
		return "available"
	case slices.Min(left) == "attached":
		return "in-use"
	}
	return slices.Min(left)
}

func (f *Cinder) initializeConnection(q *request, v *volume) answer {
	connector := connectorOf(q)
	if a := f.settings.connection.check(connector); a.status != 0 {
		return a
	}
	f.export(v, connector)
	return reply(200, object{"connection_info": f.settings.connection.info(v, connector)})
}

func (f *Cinder) export(v *volume, connector map[string]any) {
	if v.CHAPUser == "" {
		v.CHAPUser, v.CHAPPassword = f.random(20), f.random(16)
		f.secrets = append(f.secrets, v.CHAPPassword)
	}
	v.Exported = true
	v.Connectors = append(v.Connectors, connector)
}

func without(connectors []map[string]any, one map[string]any) []map[string]any {
	return slices.DeleteFunc(slices.Clone(connectors), func(c map[string]any) bool { return reflect.DeepEqual(c, one) })
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
	if len(v.Attachments) > 1 {
		return conflict()
	}
	v.Connectors = without(v.Connectors, connectorOf(q))
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
	for _, a := range v.Attachments {
		if a.Host != in.Host {
			continue
		}
		if !q.admin {
			return broken() // of Zed, for all but administrators: it stumbles over admin_metadata
		}
		f.to(v, "in-use")
		return done()
	}
	if v.Status == "in-use" && !v.multiattach {
		return invalid("volume is already attached and multiple attachments are not enabled")
	}
	v.Attachments = append(v.Attachments, Attachment{
		ID: f.newID(), Status: "attached", Host: in.Host, Device: in.Device, Mode: in.Mode, attached: f.now(),
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
	id := in.Attachment
	if id == "" && len(v.Attachments) == 0 {
		f.to(v, "available")
		return done()
	}
	if id == "" && len(v.Attachments) == 1 {
		id = v.Attachments[0].ID
	}
	switch a, of := f.attachment(id); {
	case a == nil:
		return conflict()
	case of != v:
		return invalidInput("Mismatched volume and attachment")
	}
	f.remove(id, v)
	return done()
}

func (f *Cinder) remove(attachment string, v *volume) {
	v.Attachments = slices.DeleteFunc(v.Attachments, func(a Attachment) bool { return a.ID == attachment })
	delete(v.admin, "attached_mode")
	v.Exported = false
	if len(v.Attachments) == 0 {
		v.Connectors = nil
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
	if v.Status != "available" && (v.Status != "in-use" || q.minor < 42) {
		return invalid("Volume %s status must be '{'status': 'available'}' to extend, currently %s.", v.ID, v.Status)
	}
	if in.Size <= v.Size {
		return invalidInput("New size for extend must be greater than current size. (current: %d, extended: %d).", v.Size, in.Size)
	}
	if a := f.roomFor(v.Project, 0, in.Size-v.Size); a.status != 0 {
		return a
	}
	f.begin(q.action, v, transition{to: byAttachments, size: in.Size})
	f.to(v, "extending")
	return done()
}
