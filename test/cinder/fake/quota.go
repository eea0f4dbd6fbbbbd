package fake

import (
	"cmp"
	"fmt"
)

// A Quota is what a project may have.
type Quota struct{ Volumes, Gigabytes int }

// WithQuota sets the quota of all projects that have none of their own; the default is 10 and 1000.
func WithQuota(q Quota) Option { return func(f *Cinder) { f.settings.defaultLimits = q } }

// SetQuota gives a project a quota of its own; "" is the default project.
func (f *Cinder) SetQuota(project string, q Quota) {
	f.locked(func() { f.quotas[cmp.Or(project, f.defaultProject())] = q })
}

// defaultProject is the first identity's, or without Keystone the one of all ones.
func (f *Cinder) defaultProject() string {
	if f.keystone != nil {
		return f.keystone.identities[0].ProjectID
	}
	return NoauthProject
}

// NoauthProject is a project's id that today's Cinder accepts in a URL, and the one of volumes that a test adds.
const NoauthProject = "11111111111111111111111111111111"

// used is what a project has.
func (f *Cinder) used(project string) (u Quota) {
	for _, v := range f.volumes {
		if v.project == project {
			u.Volumes, u.Gigabytes = u.Volumes+1, u.Gigabytes+max(v.size, v.next.size)
		}
	}
	return u
}

// roomFor refuses what would go over the quota.
func (f *Cinder) roomFor(project string, volumes, gigabytes int) answer {
	limit, ok := f.quotas[project]
	if !ok {
		limit = f.settings.defaultLimits
	}
	used := f.used(project)
	switch {
	case used.Gigabytes+gigabytes > limit.Gigabytes:
		return refuse(413, fmt.Sprintf("VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota. "+
			"Requested %dG, quota is %dG and %dG has been consumed.", gigabytes, limit.Gigabytes, used.Gigabytes))
	case used.Volumes+volumes > limit.Volumes:
		return refuse(413, fmt.Sprintf("VolumeLimitExceeded: Maximum number of volumes allowed (%d) exceeded for quota 'volumes'.", limit.Volumes))
	}
	return answer{}
}
