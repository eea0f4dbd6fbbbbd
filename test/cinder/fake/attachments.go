package fake

import (
	"cmp"
	"fmt"
	"slices"
)

// Attachment is one attachment of a volume.
type Attachment struct {
	ID           string
	Status       string // "attaching", "attached"
	Host, Device string
	Mode         string
	Instance     string // a Nova server's id: a standalone user must never send one

	attached string // when
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
		return refuse(404, fmt.Sprintf("Volume attachment could not be found with filter: attachment_id = %s.", q.id))
	}
	f.remove(a.ID, v)
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
			o := a.brief(v)
			o["attached_at"], o["detached_at"], o["attach_mode"], o["connection_info"] = a.attached, "", cmp.Or(a.Mode, "null"), object{}
			all = append(all, o)
		}
	}
	return reply(200, object{"attachments": all})
}

func (a *Attachment) brief(v *volume) object {
	return object{"id": a.ID, "status": a.Status, "instance": null(a.Instance), "volume_id": v.ID}
}
