package fake

import (
	"fmt"
	"maps"
)

type volumeType struct {
	id, name, description string
	specs                 map[string]string
}

func (t *volumeType) multiattach() bool { return t.specs["multiattach"] == "<is> True" }

func (f *Cinder) addType(t Type) *volumeType {
	specs := maps.Clone(t.ExtraSpecs)
	if specs == nil {
		specs = map[string]string{}
	}
	added := &volumeType{id: f.newID(), name: t.Name, description: t.Description, specs: specs}
	f.types = append(f.types, added)
	return added
}

// typeFor finds a type by name or id, or nil.
func (f *Cinder) typeFor(name string) *volumeType {
	for _, t := range f.types {
		if t.name == name || t.id == name {
			return t
		}
	}
	return nil
}

// typeNamed is the type of a volume; one that was deleted meanwhile counts as the default one.
func (f *Cinder) typeNamed(name string) *volumeType {
	if t := f.typeFor(name); t != nil {
		return t
	}
	return f.types[0]
}

func (t *volumeType) view(q *request) object {
	o := object{
		"id": t.id, "name": t.name, "is_public": true, "description": null(t.description), "os-volume-type-access:is_public": true,
	}
	if q.admin() {
		o["extra_specs"], o["qos_specs_id"] = t.specs, nil
	}
	return o
}

func (f *Cinder) listTypes(q *request) answer {
	all := list{}
	for i := len(f.types) - 1; i >= 0; i-- {
		all = append(all, f.types[i].view(q))
	}
	return reply(200, object{"volume_types": all})
}

func (f *Cinder) showDefaultType(q *request) answer {
	o := f.types[0].view(q)
	delete(o, "os-volume-type-access:is_public")
	return reply(200, object{"volume_type": o})
}

func (f *Cinder) showType(q *request) answer {
	t := f.typeFor(q.id)
	if t == nil {
		return notFound("Volume type", q.id)
	}
	return reply(200, object{"volume_type": t.view(q)})
}

func (f *Cinder) showExtraSpecs(q *request) answer {
	t := f.typeFor(q.id)
	if t == nil {
		return notFound("Volume type", q.id)
	}
	return reply(200, object{"extra_specs": t.specs})
}

func (f *Cinder) createType(q *request) answer {
	var in struct {
		Name        string            `json:"name"`
		Description string            `json:"description"`
		ExtraSpecs  map[string]string `json:"extra_specs"`
	}
	if !q.admin() {
		return forbidden("volume_extension:type_create")
	}
	if a := readBody(q, "volume_type", &in); a.status != 0 {
		return a
	}
	if f.typeFor(in.Name) != nil {
		return refuse(409, fmt.Sprintf("Volume Type %s already exists.", in.Name))
	}
	o := f.addType(Type{Name: in.Name, Description: in.Description, ExtraSpecs: in.ExtraSpecs}).view(q)
	delete(o, "qos_specs_id")
	return reply(200, object{"volume_type": o})
}

func (f *Cinder) deleteType(q *request) answer {
	t := f.typeFor(q.id)
	switch {
	case !q.admin():
		return forbidden("volume_extension:type_delete")
	case t == nil:
		return notFound("Volume type", q.id)
	}
	for _, v := range f.volumes {
		if v.typ == t.name {
			return refuse(400, "Target volume type is still in use.")
		}
	}
	f.types = without(f.types, t)
	return accepted()
}
