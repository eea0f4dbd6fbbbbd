package fake

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

type action struct {
	policy string
	admin  bool // for administrators only
	do     func(*Cinder, *request, *volume) answer
}

const (
	onVolume = "volume_extension:volume_actions:"
	asAdmin  = "volume_extension:volume_admin_actions:"
)

var actions = map[string]action{
	"os-reserve":               {onVolume + "reserve", false, (*Cinder).reserve},
	"os-unreserve":             {onVolume + "unreserve", false, (*Cinder).unreserve},
	"os-initialize_connection": {onVolume + "initialize_connection", false, (*Cinder).initializeConnection},
	"os-terminate_connection":  {onVolume + "terminate_connection", false, (*Cinder).terminateConnection},
	"os-attach":                {onVolume + "attach", false, (*Cinder).attach},
	"os-detach":                {onVolume + "detach", false, (*Cinder).detach},
	"os-begin_detaching":       {onVolume + "begin_detaching", false, (*Cinder).beginDetaching},
	"os-roll_detaching":        {onVolume + "roll_detaching", false, (*Cinder).rollDetaching},
	"os-extend":                {"volume:extend", false, (*Cinder).extend},
	"os-update_readonly_flag":  {"volume:update_readonly_flag", false, (*Cinder).updateReadonly},
	"os-set_bootable":          {onVolume + "set_bootable", false, (*Cinder).setBootable},
	"os-reset_status":          {asAdmin + "reset_status", true, (*Cinder).resetStatus},
	"os-force_delete":          {asAdmin + "force_delete", true, (*Cinder).forceDelete},
	"os-force_detach":          {asAdmin + "force_detach", true, (*Cinder).forceDetach},
}

func (f *Cinder) actOnVolume(q *request) answer {
	a, ok := actions[q.action]
	if !ok {
		if !json.Valid(q.body) {
			return refuse(400, "Malformed request body")
		}
		return refuse(400, fmt.Sprintf("There is no such action: %s. Verify the request body and Content-Type header and try again.", q.action))
	}
	if refused := schema(q); refused.status != 0 {
		return refused
	}
	v := f.visible(q, q.id)
	if v == nil {
		return notFound("Volume", q.id)
	}
	if a.admin && !q.admin() {
		return forbidden(a.policy)
	}
	if refused := policy(q, a.policy); refused.status != 0 {
		return refused
	}
	return a.do(f, q, v)
}

// schema checks the two actions that need a connector.
func schema(q *request) answer {
	if q.action != "os-initialize_connection" && q.action != "os-terminate_connection" {
		return answer{}
	}
	var in map[string]map[string]any
	_ = json.Unmarshal(q.body, &in)
	if _, ok := in[q.action]["connector"]; !ok {
		return refuse(400, fmt.Sprintf("Invalid input for field/attribute %s. Value: {}. 'connector' is a required property", q.action))
	}
	return answer{}
}

// policy lets those through who may change things: administrators and members.
func policy(q *request, name string) answer {
	if q.admin() || slices.Contains(q.roles, "member") {
		return answer{}
	}
	return forbidden(name)
}

func forbidden(policy string) answer {
	return refuse(403, fmt.Sprintf("Policy doesn't allow %s to be performed.", policy))
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
	return done(202)
}

func (f *Cinder) unreserve(_ *request, v *volume) answer {
	if v.status == "attaching" && len(f.attachmentsOf(v)) > 0 {
		f.to(v, "in-use") // whatever became of them
	} else if v.status == "attaching" {
		f.to(v, "available")
	}
	return done(202)
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
	connector := connectorOf(q)
	if v.status == "maintenance" {
		return invalid("The volume %s must not be in maintenance.", v.id)
	}
	info, a := f.connect(v, connector)
	if a.status != 0 {
		return a
	}
	return reply(200, object{"connection_info": info})
}

// connect makes the export and returns connection_info in its nested form. The connector is remembered once.
func (f *Cinder) connect(v *volume, connector map[string]any) (object, answer) {
	if a := f.settings.connection.check(connector); a.status != 0 {
		return nil, a
	}
	f.chap(v)
	v.exported = true
	known := false
	for _, c := range v.connectors {
		known = known || reflect.DeepEqual(c, connector)
	}
	if !known {
		v.connectors = append(v.connectors, connector)
	}
	return f.settings.connection.info(f.export(v), v.admin["readonly"] == "True", connector), answer{}
}

func connectorOf(q *request) map[string]any {
	var in map[string]struct {
		Connector map[string]any `json:"connector"`
	}
	_ = json.Unmarshal(q.body, &in)
	return in[q.action].Connector
}

// terminateConnection also unreserves. The export stays, with its secret: only os-detach and a delete remove it.
func (f *Cinder) terminateConnection(q *request, v *volume) answer {
	if f.ambiguous(v, "") {
		return conflict()
	}
	connector := connectorOf(q)
	var rest []map[string]any
	for _, c := range v.connectors {
		if connector != nil && !reflect.DeepEqual(c, connector) {
			rest = append(rest, c)
		}
	}
	v.connectors = rest
	return f.unreserve(q, v)
}

// ambiguous is Cinder's rule of CVE-2023-2088: with several attachments the caller must say which. An attachment of a
// server is Nova's to remove.
func (f *Cinder) ambiguous(v *volume, attachment string) bool {
	return attachment == "" && len(f.attachmentsOf(v)) > 1
}

func conflict() answer {
	return refuse(409, "ConflictNovaUsingAttachment: Detach volume from instance  using the Compute API")
}

func (f *Cinder) attach(q *request, v *volume) answer {
	var in map[string]struct {
		Host     string `json:"host_name"`
		Device   string `json:"mountpoint"`
		Mode     string `json:"mode"`
		Instance string `json:"instance_uuid"`
	}
	_ = json.Unmarshal(q.body, &in)
	want := in[q.action]
	mode := or(want.Mode, "rw")
	switch {
	case want.Host == "" && want.Instance == "":
		return refuse(400, "Invalid input for field/attribute os-attach. Value: {'mountpoint': '"+want.Device+"', 'mode': '"+mode+
			"'}. {'mountpoint': '"+want.Device+"', 'mode': '"+mode+"'} is not valid under any of the given schemas")
	case mode != "rw" && mode != "ro":
		return refuse(400, fmt.Sprintf("Invalid input for field/attribute mode. Value: %s. '%s' is not one of ['rw', 'ro']", mode, mode))
	case v.status == "maintenance":
		return invalid("The volume cannot be attached in maintenance mode.")
	case v.admin["readonly"] == "True" && mode != "ro":
		return refuse(400, fmt.Sprintf("Invalid attaching mode '%s' for volume %s.", mode, v.id))
	}
	if v.admin["readonly"] == "" {
		v.admin["readonly"] = "False"
	}
	// The same host or server again changes nothing; beyond that Cinder looks at no status but in-use.
	for _, a := range f.attachmentsOf(v) {
		if want.Instance != "" && a.instance == want.Instance || want.Instance == "" && a.host == want.Host {
			if !q.admin() {
				return broken() // of Zed, for all but administrators: it stumbles over admin_metadata
			}
			f.to(v, "in-use")
			return done(202)
		}
	}
	if v.status == "in-use" && !v.multiattach {
		text := "volume is already attached and multiple attachments are not enabled"
		if f.settings.tracebacks {
			text += traceback
		}
		return invalid("%s", text)
	}
	f.attachments = append(f.attachments, &attachment{
		id: f.newID(), volume: v.id, status: "attached", host: want.Host, device: want.Device, mode: mode, instance: want.Instance, attached: f.now(),
	})
	v.admin["attached_mode"] = mode
	f.to(v, "in-use")
	return done(202)
}

const traceback = "\nTraceback (most recent call last):\n\n  File \"/usr/lib/python3/dist-packages/cinder/volume/manager.py\", line 1450, " +
	"in attach_volume\n    raise exception.InvalidVolume(\n"

func (f *Cinder) beginDetaching(_ *request, v *volume) answer {
	if v.status != "in-use" || len(f.attachmentsOf(v)) == 0 {
		return invalid("Unable to detach volume. Volume status must be 'in-use' and attach_status must be 'attached' to detach.")
	}
	f.to(v, "detaching")
	return done(202)
}

func (f *Cinder) rollDetaching(_ *request, v *volume) answer {
	if v.status == "detaching" {
		f.to(v, "in-use")
	}
	return done(202)
}

func (f *Cinder) detach(q *request, v *volume) answer {
	var in map[string]struct {
		Attachment string `json:"attachment_id"`
	}
	_ = json.Unmarshal(q.body, &in)
	return f.detachOne(v, in[q.action].Attachment)
}

// detachOne removes an attachment and the export, even where other attachments are left. Where there is none the volume
// becomes available whatever it was, and the export stays.
func (f *Cinder) detachOne(v *volume, id string) answer {
	all := f.attachmentsOf(v)
	if id == "" && len(all) == 0 {
		f.to(v, "available")
		return done(202)
	}
	var a *attachment
	if id != "" {
		a = f.attachment(id)
	} else if len(all) == 1 {
		a = all[0]
	}
	switch {
	case a == nil || a.instance != "" && a.connected:
		return conflict()
	case a.volume != v.id:
		return invalidInput("Mismatched volume and attachment")
	}
	f.attachments = without(f.attachments, a)
	f.unexport(v)
	return done(202)
}

func (f *Cinder) unexport(v *volume) {
	delete(v.admin, "attached_mode")
	v.exported = false
	if len(f.attachmentsOf(v)) == 0 {
		v.connectors = nil
	}
	f.to(v, f.detached(v))
}

func (f *Cinder) extend(q *request, v *volume) answer {
	var in map[string]struct {
		Size any `json:"new_size"`
	}
	_ = json.Unmarshal(q.body, &in)
	if in[q.action].Size == nil {
		return refuse(400, "Invalid input for field/attribute os-extend. Value: {}. 'new_size' is a required property")
	}
	size, a := wholeNumber("new_size", in[q.action].Size)
	if a.status != 0 {
		return a
	}
	if v.status != "available" && (v.status != "in-use" || q.minor < 42) {
		return invalid("Volume %s status must be '{'status': 'available'}' to extend, currently %s.", v.id, v.status)
	}
	if size <= v.size {
		return invalidInput("New size for extend must be greater than current size. (current: %d, extended: %d).", v.size, size)
	}
	if a := f.roomFor(v.project, 0, 0, size-v.size, size-v.size); a.status != 0 {
		return a
	}
	v.next = f.transition(v.status, "")
	v.next.size = size
	switch {
	case f.failExtend > 0:
		f.failExtend--
		v.next = f.transition("error_extending", extendFailed)
	case f.fullExtend > 0:
		f.fullExtend--
		v.next = f.transition(v.status, extendNoRoom)
	}
	f.to(v, "extending")
	return done(202)
}

func (f *Cinder) updateReadonly(q *request, v *volume) answer {
	var in map[string]map[string]bool
	_ = json.Unmarshal(q.body, &in)
	if v.status != "available" {
		return invalid("Volume %s status must be available to update readonly flag, but current status is: %s.", v.id, v.status)
	}
	v.admin["readonly"] = "False"
	if in[q.action]["readonly"] {
		v.admin["readonly"] = "True"
	}
	return done(202)
}

func (f *Cinder) setBootable(q *request, v *volume) answer {
	var in map[string]map[string]bool
	_ = json.Unmarshal(q.body, &in)
	v.bootable = in[q.action]["bootable"]
	return done(200)
}

func (f *Cinder) resetStatus(q *request, v *volume) answer {
	var in map[string]struct {
		Status string `json:"status"`
		Attach string `json:"attach_status"`
	}
	_ = json.Unmarshal(q.body, &in)
	if s := in[q.action].Status; s != "" {
		v.next = transition{}
		f.to(v, s)
	}
	if in[q.action].Attach == "detached" {
		for _, a := range f.attachmentsOf(v) {
			f.attachments = without(f.attachments, a)
		}
	}
	return done(202)
}

func (f *Cinder) forceDelete(_ *request, v *volume) answer {
	if len(f.attachmentsOf(v)) > 0 || len(f.snapshotsOf(v)) > 0 {
		return invalid("Volume  must not be migrating, attached, belong to a group, have snapshots, awaiting a transfer, or be disassociated from snapshots after volume transfer.")
	}
	f.beginDelete(v)
	return done(202)
}

func (f *Cinder) forceDetach(q *request, v *volume) answer {
	var in map[string]struct {
		Attachment string `json:"attachment_id"`
	}
	_ = json.Unmarshal(q.body, &in)
	for _, a := range f.attachmentsOf(v) {
		if a.id == in[q.action].Attachment && a.instance != "" {
			return conflict()
		}
	}
	return f.detachOne(v, in[q.action].Attachment)
}
