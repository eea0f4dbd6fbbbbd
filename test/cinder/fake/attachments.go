package fake

import (
	"cmp"
	"fmt"
	"maps"
)

type attachment struct {
	id, volume     string
	status         string // reserved, attaching, attached
	host, device   string
	mode, instance string
	attached       string
	info           object // connection_info
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

func (f *Cinder) attachment(id string) *attachment {
	for _, a := range f.attachments {
		if a.id == id {
			return a
		}
	}
	return nil
}

// old refuses callers whose microversion does not have what they ask for.
func old(q *request, since int) answer {
	if q.minor < since {
		return refuse(404, "The resource could not be found.")
	}
	return answer{}
}

// createAttachment begins an attachment of no server. Nothing but the test of likeness asks for it: it leaves what a Cinder
// leaves that was killed in os-attach.
func (f *Cinder) createAttachment(q *request) answer {
	var in struct {
		Volume    string         `json:"volume_uuid"`
		Connector map[string]any `json:"connector"`
		Mode      string         `json:"mode"`
	}
	if a := q.decode("attachment", &in); a.status != 0 {
		return a
	}
	v := f.visible(q, in.Volume)
	if v == nil {
		return notFound("Volume", in.Volume)
	}
	nested, refused := f.connect(v, in.Connector)
	if refused.status != 0 {
		return refused
	}
	a := &attachment{id: f.newID(), volume: v.id, status: "attaching", mode: in.Mode}
	// The attachments API gives connection_info flat.
	a.info = maps.Clone(nested["data"].(object))
	a.info["driver_volume_type"], a.info["attachment_id"] = nested["driver_volume_type"], a.id
	f.attachments = append(f.attachments, a)
	f.to(v, "attaching")
	o := a.view()
	o["status"] = "reserved" // whatever happened
	return reply(200, object{"attachment": o})
}

func (f *Cinder) deleteAttachment(q *request) answer {
	if refused := old(q, 27); refused.status != 0 {
		return refused
	}
	a := f.attachment(q.id)
	if a == nil {
		return refuse(404, fmt.Sprintf("Volume attachment could not be found with filter: attachment_id = %s.", q.id))
	}
	v := f.volume(a.volume)
	f.remove(a, v)
	left := list{}
	for _, other := range f.attachmentsOf(v) {
		left = append(left, other.brief())
	}
	return reply(200, object{"attachments": left})
}

func (f *Cinder) listAttachmentsDetail(q *request) answer {
	if refused := old(q, 27); refused.status != 0 {
		return refused
	}
	all := list{}
	for i := len(f.attachments) - 1; i >= 0; i-- {
		a := f.attachments[i]
		v := f.volume(a.volume)
		if want := q.get("volume_id"); v.project == q.project && (want == "" || want == v.id) {
			all = append(all, a.view())
		}
	}
	return reply(200, object{"attachments": all})
}

func (a *attachment) brief() object {
	return object{"id": a.id, "status": a.status, "instance": null(a.instance), "volume_id": a.volume}
}

func (a *attachment) view() object {
	o := a.brief()
	o["attached_at"], o["detached_at"], o["attach_mode"], o["connection_info"] = a.attached, "", cmp.Or(a.mode, "null"), a.info
	if a.info == nil {
		o["connection_info"] = object{}
	}
	return o
}
