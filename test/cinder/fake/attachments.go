package fake

import (
	"fmt"
	"maps"
)

type attachment struct {
	id, volume     string
	status         string // reserved, attaching, attached
	host, device   string
	mode, instance string
	attached       string
	connected      bool // it has connection_info
	info           object
}

func (f *Cinder) attachmentsOf(v *volume) []*attachment {
	var of []*attachment
	for _, a := range f.attachments {
		if a.volume == v.id {
			of = append(of, a)
		}
	}
	return of
}

// newAttachment is the body of POST and PUT /attachments.
type newAttachment struct {
	Volume    string         `json:"volume_uuid"`
	Instance  *string        `json:"instance_uuid"`
	Connector map[string]any `json:"connector"`
	Mode      string         `json:"mode"`
}

// old refuses callers whose microversion has no attachments.
func old(q *request, since int) answer {
	if q.minor < since {
		return refuse(404, "The resource could not be found.")
	}
	return answer{}
}

func (f *Cinder) createAttachment(q *request) answer {
	var in newAttachment
	if a := old(q, 27); a.status != 0 {
		return a
	}
	if a := readBody(q, "attachment", &in); a.status != 0 {
		return a
	}
	instance, refused := in.instance()
	if refused.status != 0 {
		return refused
	}
	v := f.visible(q, in.Volume)
	if v == nil {
		return notFound("Volume", in.Volume)
	}
	// A reserved volume takes more attachments of the same server.
	if v.status != "available" && !v.multiattach && (v.status != "reserved" || instance == "") {
		return invalid("Volume %s status must be available or downloading to reserve, but the current status is %s.", v.id, v.status)
	}
	if v.status == "available" {
		f.to(v, "reserved")
	}
	a := &attachment{id: f.newID(), volume: v.id, status: "reserved", instance: instance}
	if q.minor >= 54 {
		a.mode = in.Mode
	}
	f.attachments = append(f.attachments, a)
	if in.Connector != nil {
		if refused := f.connectAttachment(v, a, in.Connector); refused.status != 0 {
			return broken() // the reserved attachment stays, without the caller knowing its id
		}
	}
	return reply(200, object{"attachment": a.view("reserved")})
}

// instance refuses what is no UUID, the empty string above all.
func (in newAttachment) instance() (string, answer) {
	if in.Instance == nil {
		return "", answer{}
	}
	if len(*in.Instance) != 36 {
		return "", refuse(400, fmt.Sprintf("Invalid input for field/attribute instance_uuid. Value: %s. '%s' is not a 'uuid'", *in.Instance, *in.Instance))
	}
	return *in.Instance, answer{}
}

func (f *Cinder) connectAttachment(v *volume, a *attachment, connector map[string]any) answer {
	nested, refused := f.connect(v, connector)
	if refused.status != 0 {
		return refused
	}
	// The attachments API gives connection_info flat.
	a.info = maps.Clone(nested["data"].(object))
	a.info["driver_volume_type"], a.info["attachment_id"] = nested["driver_volume_type"], a.id
	a.connected, a.status = true, "attaching"
	a.host, _ = connector["host"].(string)
	if a.device, _ = connector["mountpoint"].(string); a.device == "" {
		a.device = "na"
	}
	f.to(v, "attaching")
	return answer{}
}

func (f *Cinder) updateAttachment(q *request) answer {
	var in newAttachment
	a := f.attachment(q.id)
	if a == nil {
		return noAttachment(q.id)
	}
	if refused := readBody(q, "attachment", &in); refused.status != 0 {
		return refused
	}
	if refused := f.connectAttachment(f.volume(a.volume), a, in.Connector); refused.status != 0 {
		return refused
	}
	return reply(200, object{"attachment": a.view("reserved")})
}

func (f *Cinder) completeAttachment(q *request) answer {
	if refused := old(q, 44); refused.status != 0 {
		return refused
	}
	a := f.attachment(q.id)
	if a == nil {
		return noAttachment(q.id)
	}
	if a.status != "attaching" {
		return refuse(400, fmt.Sprintf("Invalid volume: Attachment %s status must be attaching, but the status is %s.", a.id, a.status))
	}
	if a.mode == "" {
		a.mode = "rw"
	}
	a.status, a.attached = "attached", f.now()
	f.to(f.volume(a.volume), "in-use")
	return done(204)
}

// deleteAttachment asks Nova about the attachment of a server; there is none, and Cinder breaks.
func (f *Cinder) deleteAttachment(q *request) answer {
	a := f.attachment(q.id)
	if a == nil {
		return noAttachment(q.id)
	}
	if a.instance != "" && a.connected {
		return broken()
	}
	f.attachments = without(f.attachments, a)
	v := f.volume(a.volume)
	f.unexport(v)
	left := list{}
	for _, other := range f.attachmentsOf(v) {
		left = append(left, other.brief())
	}
	return reply(200, object{"attachments": left})
}

func (f *Cinder) attachment(id string) *attachment {
	for _, a := range f.attachments {
		if a.id == id {
			return a
		}
	}
	return nil
}

func noAttachment(id string) answer {
	return refuse(404, fmt.Sprintf("Volume attachment could not be found with filter: attachment_id = %s.", id))
}

func (f *Cinder) showAttachment(q *request) answer {
	a := f.attachment(q.id)
	if a == nil {
		return noAttachment(q.id)
	}
	return reply(200, object{"attachment": a.view(a.status)})
}

func (f *Cinder) listAttachments(q *request) answer {
	return f.attachmentList(q, (*attachment).brief)
}

func (f *Cinder) listAttachmentsDetail(q *request) answer {
	return f.attachmentList(q, func(a *attachment) object { return a.view(a.status) })
}

func (f *Cinder) attachmentList(q *request, view func(*attachment) object) answer {
	if refused := old(q, 27); refused.status != 0 {
		return refused
	}
	all := list{}
	for i := len(f.attachments) - 1; i >= 0; i-- {
		a := f.attachments[i]
		v := f.volume(a.volume)
		if want := q.get("volume_id"); v.project == q.project && (want == "" || want == v.id) {
			all = append(all, view(a))
		}
	}
	return reply(200, object{"attachments": all})
}

func (a *attachment) brief() object {
	return object{"id": a.id, "status": a.status, "instance": null(a.instance), "volume_id": a.volume}
}

// view shows the attachment in detail. The answers to POST and PUT say "reserved" whatever happened.
func (a *attachment) view(status string) object {
	o := a.brief()
	o["status"], o["attached_at"], o["detached_at"], o["attach_mode"] = status, a.attached, "", or(a.mode, "null")
	o["connection_info"] = a.info
	if a.info == nil {
		o["connection_info"] = object{}
	}
	return o
}
