package fake

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

const undeletable = "Volume status must be available or error or error_restoring or error_extending or error_managing and must not be migrating, attached, " +
	"belong to a group, have snapshots, awaiting a transfer, or be disassociated from snapshots after volume transfer."

// newVolume is the body of a create. A size may be a number, digits in a string, or null.
type newVolume struct {
	Size        any               `json:"size"`
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Zone        string            `json:"availability_zone"`
	Type        string            `json:"volume_type"`
	Metadata    map[string]any    `json:"metadata"`
	SourceVolID string            `json:"source_volid"`
	SnapshotID  string            `json:"snapshot_id"`
	ImageRef    string            `json:"imageRef"`
	strings     map[string]string // of Metadata
	size        int               // 0 where none was given
}

// readBody decodes body's field name into v. What does not parse is refused as Cinder does.
func readBody(q *request, name string, v any) answer {
	var whole map[string]json.RawMessage
	if json.Unmarshal(q.body, &whole) != nil {
		return refuse(400, "Malformed request body")
	}
	inner, ok := whole[name]
	if !ok {
		return refuse(400, fmt.Sprintf("'%s' is a required property", name))
	}
	if err := json.Unmarshal(inner, v); err != nil {
		return refuse(400, fmt.Sprintf("Invalid input for field/attribute %s. Value: %s.", name, inner))
	}
	return answer{}
}

func (f *Cinder) createVolume(q *request) answer {
	var in newVolume
	if a := readBody(q, "volume", &in); a.status != 0 {
		return a
	}
	if a := in.check(); a.status != 0 {
		return a
	}
	if a := policy(q, "volume:create"); a.status != 0 {
		return a
	}
	v := &volume{
		id: f.newID(), name: in.Name, description: in.Description, size: in.size, zone: or(in.Zone, f.settings.zones[0]),
		project: q.project, user: q.user, metadata: in.strings, admin: map[string]string{}, source: in.SourceVolID, snapshot: in.SnapshotID,
		created: f.now(),
	}
	if a := f.fromSource(q, v, in); a.status != 0 {
		return a
	}
	if a := f.roomFor(v.project, 1, 0, v.size, v.size); a.status != 0 {
		return a
	}
	v.status, v.next = "creating", f.transition("available", "")
	v.multiattach = f.typeNamed(v.typ).multiattach()
	if b := f.typeNamed(v.typ).specs["volume_backend_name"]; b != "" && b != Backend {
		v.next = f.transition("error", noValidHost)
	}
	if len(f.failCreate) > 0 {
		v.next = f.transition("error", f.failCreate[0])
		f.failCreate = f.failCreate[1:]
	}
	v.hostless = v.next.text == noValidHost
	f.volumes = append(f.volumes, v)
	return reply(202, object{"volume": f.view(q, v)})
}

var digits = regexp.MustCompile(`^[0-9]+$`)

// wholeNumber reads a size as Cinder's schema takes it; null gives 0.
func wholeNumber(field string, in any) (int, answer) {
	fail := func(why string, args ...any) (int, answer) {
		return 0, refuse(400, fmt.Sprintf("Invalid input for field/attribute %s. Value: %v. ", field, in)+fmt.Sprintf(why, args...))
	}
	n := 0
	switch x := in.(type) {
	case nil:
		return 0, answer{}
	case string:
		if !digits.MatchString(x) {
			return fail("'%s' does not match '^[0-9]+$'", x)
		}
		_, _ = fmt.Sscan(x, &n)
	case float64:
		if n = int(x); float64(n) != x {
			return fail("%v is not of type 'integer', 'string'", x)
		}
	default:
		return fail("%v is not of type 'integer', 'string'", x)
	}
	if n < 1 {
		return fail("%d is less than the minimum of 1", n)
	}
	return n, answer{}
}

// check is what Cinder does before it looks anything up.
func (in *newVolume) check() (a answer) {
	if in.size, a = wholeNumber("size", in.Size); a.status != 0 {
		return a
	}
	if in.strings, a = checkMetadata(in.Metadata); a.status != 0 {
		return a
	}
	for _, field := range []struct{ name, value string }{{"name", in.Name}, {"description", in.Description}} {
		if n := len([]rune(field.value)); n > 255 {
			return invalidInput("%s has %d characters, more than 255.", field.name, n)
		}
	}
	if in.ImageRef != "" {
		return refuse(400, "Invalid image identifier or unable to access requested image.")
	}
	return answer{}
}

func checkMetadata(in map[string]any) (map[string]string, answer) {
	out := map[string]string{}
	for key, value := range in {
		s, ok := value.(string)
		prefix := fmt.Sprintf("Invalid input for field/attribute %s. Value: %v. ", key, value)
		switch {
		case !ok:
			return nil, refuse(400, prefix+fmt.Sprintf("%v is not of type 'string'", value))
		case len(s) > 255:
			return nil, refuse(400, prefix+fmt.Sprintf("'%s' is too long", s))
		}
		out[key] = s
	}
	return out, answer{}
}

// fromSource looks up type, source and zone, and takes from the source what was not given.
func (f *Cinder) fromSource(q *request, v *volume, in newVolume) answer {
	if in.Type != "" && f.typeFor(in.Type) == nil {
		return refuse(404, fmt.Sprintf("Volume type with name %s could not be found.", in.Type))
	}
	if in.SnapshotID != "" {
		if a := f.fromSnapshot(q, v, in.SnapshotID); a.status != 0 {
			return a
		}
	}
	if in.SourceVolID != "" {
		if a := f.fromVolume(q, v, in); a.status != 0 {
			return a
		}
	}
	if a := f.chosenType(v, in); a.status != 0 {
		return a
	}
	v.typ = or(v.typ, defaultType)
	if v.size == 0 {
		return refuse(400, "The server could not comply with the request since it is either malformed or otherwise incorrect.")
	}
	if !slices.Contains(f.settings.zones, v.zone) {
		return refuse(400, fmt.Sprintf("Availability zone '%s' is invalid.", v.zone))
	}
	return answer{}
}

// chosenType takes the type that was asked for, which must fit the source's.
func (f *Cinder) chosenType(v *volume, in newVolume) answer {
	if in.Type == "" {
		return answer{}
	}
	chosen, source := f.typeFor(in.Type), f.typeNamed(v.typ)
	backend := source.specs["volume_backend_name"]
	if v.typ != "" && chosen != source && (backend == "" || backend != chosen.specs["volume_backend_name"]) {
		advice := "recommend omitting the type argument"
		if in.SourceVolID != "" {
			advice = "either match source volume, or omit type argument"
		}
		return invalidInput("Invalid volume_type provided: %s (requested type is not compatible; %s).", chosen.id, advice)
	}
	v.typ = chosen.name
	return answer{}
}

func (f *Cinder) fromSnapshot(q *request, v *volume, id string) answer {
	n := f.snapshot(q, id)
	if n == nil {
		return notFound("Snapshot", id)
	}
	if v.size == 0 {
		v.size = n.size
	}
	if v.size < n.size {
		return invalidInput("Volume size '%d'GB cannot be smaller than the snapshot size %dGB. They must be >= original snapshot size.", v.size, n.size)
	}
	if n.status != "available" {
		return refuse(400, "Invalid snapshot: Originating snapshot status must be one of 'available' values")
	}
	if origin := f.volume(n.volume); origin != nil {
		v.typ = origin.typ
	}
	return answer{}
}

func (f *Cinder) fromVolume(q *request, v *volume, in newVolume) answer {
	source := f.visible(q, in.SourceVolID)
	if source == nil {
		return notFound("Volume", in.SourceVolID)
	}
	if v.size == 0 {
		v.size = source.size
	}
	if v.size < source.size {
		return invalidInput("Volume size '%d'GB cannot be smaller than original volume size  %dGB. They must be >= original volume size.", v.size, source.size)
	}
	if source.status != "available" && source.status != "in-use" {
		return invalid("Originating source volume status must be one of 'available, in-use' values")
	}
	v.typ = source.typ
	return answer{}
}

func (f *Cinder) showVolume(q *request) answer {
	v := f.visible(q, q.id)
	if v == nil {
		return notFound("Volume", q.id)
	}
	a := reply(200, object{"volume": f.fullView(q, v)})
	v.next.reads--
	return a
}

func (f *Cinder) updateVolume(q *request) answer {
	var in struct {
		Name        *string        `json:"name"`
		Description *string        `json:"description"`
		Metadata    map[string]any `json:"metadata"`
	}
	v := f.visible(q, q.id)
	if v == nil {
		return notFound("Volume", q.id)
	}
	if a := readBody(q, "volume", &in); a.status != 0 {
		return a
	}
	if in.Name != nil {
		v.name = *in.Name
	}
	if in.Description != nil {
		v.description = *in.Description
	}
	if in.Metadata != nil {
		m, a := checkMetadata(in.Metadata)
		if a.status != 0 {
			return a
		}
		v.metadata = m
	}
	v.updated = f.now()
	return reply(200, object{"volume": f.view(q, v)})
}

func (f *Cinder) deleteVolume(q *request) answer {
	v := f.visible(q, q.id)
	if v == nil {
		return notFound("Volume", q.id)
	}
	if a := policy(q, "volume:delete"); a.status != 0 {
		return a
	}
	if v.hostless {
		f.forget(v) // at once, whatever its status: no backend knows of it
		return accepted()
	}
	cascade, force := q.get("cascade") == "true", q.get("force") == "true" && q.minor >= 23
	switch v.status {
	case "available", "error", "error_restoring", "error_extending", "error_managing":
	default:
		if !force {
			return invalid(undeletable)
		}
	}
	if len(f.attachmentsOf(v)) > 0 || len(f.snapshotsOf(v)) > 0 && !cascade {
		if force {
			return invalid("%s", "Volume "+undeletable[strings.Index(undeletable, " must not be migrating"):])
		}
		return invalid(undeletable)
	}
	f.beginDelete(v)
	return accepted()
}

func (f *Cinder) beginDelete(v *volume) {
	for _, n := range f.snapshotsOf(v) {
		n.status, n.next = "deleting", f.transition(gone, "")
	}
	v.status, v.next, v.updated = "deleting", f.transition(gone, ""), f.now()
	if f.failDelete > 0 {
		f.failDelete--
		v.next.to = "error_deleting"
	}
}

func (f *Cinder) showMetadata(q *request) answer {
	v := f.visible(q, q.id)
	if v == nil {
		return notFound("Volume", q.id)
	}
	return reply(200, object{"metadata": v.metadata})
}

func (f *Cinder) addMetadata(q *request) answer { return f.changeMetadata(q, false) }

func (f *Cinder) replaceMetadata(q *request) answer { return f.changeMetadata(q, true) }

func (f *Cinder) changeMetadata(q *request, replace bool) answer {
	v := f.visible(q, q.id)
	if v == nil {
		return notFound("Volume", q.id)
	}
	var in map[string]any
	if a := readBody(q, "metadata", &in); a.status != 0 {
		return a
	}
	m, a := checkMetadata(in)
	if a.status != 0 {
		return a
	}
	if !replace {
		old := maps.Clone(v.metadata)
		maps.Copy(old, m)
		m = old
	}
	v.metadata, v.updated = m, f.now()
	return reply(200, object{"metadata": v.metadata})
}

func (f *Cinder) setMetadataItem(q *request) answer {
	v := f.visible(q, q.id)
	if v == nil {
		return notFound("Volume", q.id)
	}
	var in map[string]any
	if a := readBody(q, "meta", &in); a.status != 0 {
		return a
	}
	m, a := checkMetadata(in)
	if a.status != 0 {
		return a
	}
	if _, ok := m[q.sub]; !ok || len(m) != 1 {
		return refuse(400, "Request body and URI mismatch")
	}
	v.metadata[q.sub] = m[q.sub]
	return reply(200, object{"meta": m})
}

func (f *Cinder) deleteMetadataItem(q *request) answer {
	v := f.visible(q, q.id)
	if v == nil {
		return notFound("Volume", q.id)
	}
	if _, ok := v.metadata[q.sub]; !ok {
		return refuse(404, fmt.Sprintf("Volume %s has no metadata with key %s.", v.id, q.sub))
	}
	delete(v.metadata, q.sub)
	return answer{status: 200, contentType: "text/html; charset=UTF-8"}
}
