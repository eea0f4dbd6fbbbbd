package fake

import (
	"cmp"
	"fmt"
	"time"
)

// An Option changes how a fake begins.
type Option func(*Cinder)

type settings struct {
	pace       time.Duration
	connection Connection
	zones      []string
}

// WithPace sets how long a volume stays in a passing status: creating, extending, deleting. The default is 60 ms: a caller
// that looks after 50 ms and again sees both the passing status and its end.
func WithPace(d time.Duration) Option { return func(f *Cinder) { f.settings.pace = d } }

// WithConnection sets what os-initialize_connection answers; the default is ISCSI().
func WithConnection(c Connection) Option { return func(f *Cinder) { f.settings.connection = c } }

// SetConnection is WithConnection for the calls from now on.
func (f *Cinder) SetConnection(c Connection) { f.locked(func() { f.settings.connection = c }) }

// WithZones sets the availability zones; the first is the default one. Without it there is one, "nova".
func WithZones(zones ...string) Option { return func(f *Cinder) { f.settings.zones = zones } }

// A Type is a volume type. Extra specs that mean something: multiattach "<is> True"; volume_backend_name, which makes
// volumes of the type end in error unless it is Backend.
type Type struct {
	Name        string
	Description string
	ExtraSpecs  map[string]string

	id string
}

// Backend is the name of the one backend that there is.
const Backend = "sparse"

// WithType adds a volume type beside __DEFAULT__.
func WithType(t Type) Option { return func(f *Cinder) { f.addType(t) } }

// A Quota is what a project may have.
type Quota struct{ Volumes, Gigabytes int }

// SetQuota gives a project a quota of its own instead of 10 volumes and 1000 GiB; "" is the default project.
func (f *Cinder) SetQuota(project string, q Quota) {
	f.locked(func() { f.quotas[cmp.Or(project, f.defaultProject())] = q })
}

// defaultProject is the first identity's, or without Keystone the one of all ones.
func (f *Cinder) defaultProject() string {
	if f.keystone != nil {
		return f.keystone.identities[0].ProjectID
	}
	return "11111111111111111111111111111111"
}

// roomFor refuses what would go over the quota.
func (f *Cinder) roomFor(project string, volumes, gigabytes int) answer {
	limit, ok := f.quotas[project]
	if !ok {
		limit = Quota{Volumes: 10, Gigabytes: 1000}
	}
	var used Quota
	for _, v := range f.volumes {
		if v.Project == project {
			used.Volumes, used.Gigabytes = used.Volumes+1, used.Gigabytes+max(v.Size, v.next.size)
		}
	}
	for _, s := range f.snapshots {
		if s.Project == project {
			used.Gigabytes += s.Size
		}
	}
	switch {
	case used.Gigabytes+gigabytes > limit.Gigabytes:
		return refuse(413, fmt.Sprintf("VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota. "+
			"Requested %dG, quota is %dG and %dG has been consumed.", gigabytes, limit.Gigabytes, used.Gigabytes))
	case used.Volumes+volumes > limit.Volumes:
		return refuse(413, fmt.Sprintf("VolumeLimitExceeded: Maximum number of volumes allowed (%d) exceeded for quota 'volumes'.", limit.Volumes))
	}
	return answer{}
}
