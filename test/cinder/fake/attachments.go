package fake

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Attachment is one attachment of a volume.
type Attachment struct {
	ID           string
	Status       string // "reserved", "attaching", "attached"
	Host, Device string
	Mode         string
	Instance     string // a Nova server's id: a standalone user must never send one

	attached  string // when
	info      object // connection_info, nil without one
	connector map[string]any
}

// attachment finds an attachment and its volume, or nil.
func (f *Cinder) attachment(id string) (*Attachment, *volume) {
	for _, v := range f.volumes {
		for i := range v.Attachments {
			if v.Attachments[i].ID == id {
				return &v.Attachments[i], v
			}
		}
	}
	return nil, nil
}

func (f *Cinder) deleteAttachment(q *request) answer {
	a, v := f.attachment(q.id)
	if a == nil {
		return noAttachment(q.id)
	}
	if a.Instance != "" && a.info != nil {
		return broken() // without a Nova to ask
	}
	exported, connector := v.Exported, a.connector
	f.remove(a.ID, v)
	v.Exported = exported && len(v.Attachments) > 0
	v.Connectors = without(v.Connectors, connector)
	left := list{}
	for _, other := range v.Attachments {
		left = append(left, other.brief(v))
	}
	return reply(200, object{"attachments": left})
}

func (f *Cinder) listAttachmentsDetail(q *request) answer {
	all := list{}
	if v := f.volume(q.get("volume_id")); v != nil && v.Project == q.project {
		for _, a := range slices.Backward(v.Attachments) {
			all = append(all, a.detail(v))
		}
	}
	return reply(200, object{"attachments": all})
}

// createAttachment reserves the volume. With a connector it connects as well, and what comes back has the status of before.
func (f *Cinder) createAttachment(q *request) answer {
	var in struct {
		Volume    string         `json:"volume_uuid"`
		Instance  *string        `json:"instance_uuid"`
		Mode      string         `json:"mode"`
		Connector map[string]any `json:"connector"`
	}
	if a := q.decode("attachment", &in); a.status != 0 {
		return a
	}
	if in.Instance != nil && *in.Instance == "" {
		return refuse(400, "Invalid input for field/attribute instance_uuid. Value: . '' is not a 'uuid'")
	}
	v := f.visible(q, in.Volume)
	switch {
	case v == nil:
		return notFound("Volume", in.Volume)
	case strings.Contains(v.Status, "error"):
		return invalid("Volume attachments can not be created if the volume is in an error state. The Volume %s "+
			"currently has a status of: %s ", v.ID, v.Status)
	case v.Status != "available" && (v.Status != "in-use" || !v.multiattach):
		want := "available or downloading"
		if v.multiattach {
			want = "available or in-use or downloading"
		}
		return invalid("Volume %s status must be %s to reserve, but the current status is %s.", v.ID, want, v.Status)
	}
	made := Attachment{ID: f.newID(), Status: "reserved", Mode: in.Mode}
	if in.Instance != nil {
		made.Instance = *in.Instance
	}
	v.Attachments = append(v.Attachments, made)
	f.to(v, "reserved")
	if in.Connector == nil {
		return reply(200, object{"attachment": made.detail(v)})
	}
	return f.connectAttachment(v, &v.Attachments[len(v.Attachments)-1], in.Connector)
}

func (f *Cinder) updateAttachment(q *request) answer {
	var in struct {
		Connector map[string]any `json:"connector"`
	}
	if a := q.decode("attachment", &in); a.status != 0 {
		return a
	}
	a, v := f.attachment(q.id)
	switch {
	case a == nil:
		return noAttachment(q.id)
	case in.Connector["host"] == nil:
		return refuse(500, "Unable to update the attachment.")
	}
	return f.connectAttachment(v, a, in.Connector)
}

// connectAttachment answers with the attachment as it was before, but for its connection.
func (f *Cinder) connectAttachment(v *volume, a *Attachment, connector map[string]any) answer {
	connection := f.settings.connection
	if refused := connection.check(connector); refused.status != 0 {
		return refuse(500, "Unable to update attachment.(Invalid input received: "+connection.lacks(connector)+").")
	}
	before := *a
	f.export(v, connector)
	a.info, a.connector = connection.flat(v, connector, a.ID), connector
	a.Status, a.attached = "attaching", f.now()
	a.Host, _ = connector["host"].(string)
	a.Device, _ = connector["mountpoint"].(string)
	mode, _ := connector["mode"].(string)
	a.Device, a.Mode = cmp.Or(a.Device, "na"), cmp.Or(a.Mode, mode, "rw")
	f.to(v, "attaching")
	before.info = a.info
	return reply(200, object{"attachment": before.detail(v)})
}

// actOnAttachment completes it, whatever its status is.
func (f *Cinder) actOnAttachment(q *request) answer {
	if q.action != "os-complete" {
		return refuse(400, fmt.Sprintf("There is no such action: %s. Verify the request body and Content-Type header and try again.", q.action))
	}
	a, v := f.attachment(q.id)
	if a == nil {
		return noAttachment(q.id)
	}
	a.Status = "attached"
	f.to(v, "in-use")
	return answer{status: 204}
}

func noAttachment(id string) answer {
	return refuse(404, fmt.Sprintf("Volume attachment could not be found with filter: attachment_id = %s.", id))
}

func (a *Attachment) detail(v *volume) object {
	o := a.brief(v)
	o["attached_at"], o["detached_at"], o["attach_mode"] = a.attached, "", cmp.Or(a.Mode, "null")
	o["connection_info"] = object{}
	if a.info != nil {
		o["connection_info"] = a.info
	}
	return o
}

func (a *Attachment) brief(v *volume) object {
	return object{"id": a.ID, "status": a.Status, "instance": null(a.Instance), "volume_id": v.ID}
}
