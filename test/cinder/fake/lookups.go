package fake

import (
	"maps"
	"slices"
	"time"
)

func (t *Type) multiattach() bool { return t.ExtraSpecs["multiattach"] == "<is> True" }

func (t *Type) backend() string { return t.ExtraSpecs["volume_backend_name"] }

func (f *Cinder) addType(t Type) {
	specs := map[string]string{}
	maps.Copy(specs, t.ExtraSpecs)
	t.id, t.ExtraSpecs = f.newID(), specs
	f.types = append(f.types, t)
}

// typeFor finds a type by name or id, or nil.
func (f *Cinder) typeFor(name string) *Type {
	for i := range f.types {
		if t := &f.types[i]; t.Name == name || t.id == name {
			return t
		}
	}
	return nil
}

// TypeID is the ID of the volume type of this name.
func (f *Cinder) TypeID(name string) (id string) {
	f.locked(func() { id = f.typeFor(name).id })
	return id
}

func (t *Type) view(q *request) object {
	o := object{"id": t.id, "name": t.Name, "is_public": true, "description": null(t.Description)}
	if q.admin {
		o["extra_specs"], o["qos_specs_id"] = t.ExtraSpecs, nil
	}
	return o
}

func (f *Cinder) listTypes(q *request) answer {
	all := list{}
	for _, t := range slices.Backward(f.types) {
		o := t.view(q)
		o["os-volume-type-access:is_public"] = true
		all = append(all, o)
	}
	return reply(200, object{"volume_types": all})
}

func (f *Cinder) showDefaultType(q *request) answer {
	return reply(200, object{"volume_type": f.typeFor(defaultType).view(q)})
}

type message struct{ id, kind, resource, text, created string }

func (f *Cinder) listMessages(q *request) answer {
	all := list{}
	for _, m := range slices.Backward(f.messages) {
		if m.resource != q.get("resource_uuid") {
			continue
		}
		all = append(all, object{
			"id": m.id, "event_id": "VOLUME_" + m.kind + "_001_003", "user_message": m.text, "message_level": "ERROR", "created_at": m.created,
			"guaranteed_until": time.Now().Add(30 * 24 * time.Hour).UTC().Format(timeFormat),
			"request_id":       "req-" + m.id, "links": links(q, "messages", m.id), "resource_type": m.kind, "resource_uuid": m.resource,
		})
	}
	return reply(200, object{"messages": all})
}
