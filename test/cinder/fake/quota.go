package fake

import (
	"fmt"
	"time"
)

type message struct{ id, resource, text, created string }

func (f *Cinder) quota(project string) Quota {
	if q, ok := f.quotas[project]; ok {
		return q
	}
	return f.settings.defaultLimits
}

// SetQuota gives a project a quota of its own; "" is the default project.
func (f *Cinder) SetQuota(project string, q Quota) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.quotas[or(project, f.defaultProject())] = q
}

// defaultProject is the first identity's, or without Keystone the one of all ones.
func (f *Cinder) defaultProject() string {
	if f.keystone != nil && len(f.keystone.identities) > 0 {
		return f.keystone.identities[0].ProjectID
	}
	return NoauthProject
}

// NoauthProject is a project's id that today's Cinder accepts in a URL, and the one of volumes that a test adds.
const NoauthProject = "11111111111111111111111111111111"

// used is what a project has.
func (f *Cinder) used(project string) Quota {
	var u Quota
	for _, v := range f.volumes {
		if v.project == project {
			u.Volumes, u.Gigabytes = u.Volumes+1, u.Gigabytes+max(v.size, v.next.size)
		}
	}
	for _, n := range f.snapshots {
		if n.project == project {
			u.Snapshots, u.Gigabytes = u.Snapshots+1, u.Gigabytes+n.size
		}
	}
	return u
}

// roomFor refuses what would go over the quota; requested is the size that the text names.
func (f *Cinder) roomFor(project string, volumes, snapshots, gigabytes, requested int) answer {
	limit, used := f.quota(project), f.used(project)
	over := func(limit, use, more int) bool { return more > 0 && limit >= 0 && use+more > limit }
	switch {
	case over(limit.Gigabytes, used.Gigabytes, gigabytes):
		return refuse(413, fmt.Sprintf("VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota. "+
			"Requested %dG, quota is %dG and %dG has been consumed.", requested, limit.Gigabytes, used.Gigabytes))
	case over(limit.Volumes, used.Volumes, volumes):
		return refuse(413, fmt.Sprintf("VolumeLimitExceeded: Maximum number of volumes allowed (%d) exceeded for quota 'volumes'.", limit.Volumes))
	case over(limit.Snapshots, used.Snapshots, snapshots):
		return refuse(413, fmt.Sprintf("SnapshotLimitExceeded: Maximum number of snapshots allowed (%d) exceeded", limit.Snapshots))
	}
	return answer{}
}

func (f *Cinder) showLimits(q *request) answer {
	l, u := f.quota(q.project), f.used(q.project)
	return reply(200, object{"limits": object{"rate": list{}, "absolute": object{
		"maxTotalVolumes": l.Volumes, "maxTotalSnapshots": l.Snapshots, "maxTotalVolumeGigabytes": l.Gigabytes,
		"maxTotalBackups": 10, "maxTotalBackupGigabytes": 1000,
		"totalVolumesUsed": u.Volumes, "totalGigabytesUsed": u.Gigabytes, "totalSnapshotsUsed": u.Snapshots,
		"totalBackupsUsed": 0, "totalBackupGigabytesUsed": 0,
	}}})
}

// quotaSet lists all limits of a project; usage, where asked for, is with them.
func (f *Cinder) quotaSet(project string, usage bool) object {
	l, u := f.quota(project), f.used(project)
	type entry struct {
		name        string
		limit, used int
	}
	all := []entry{
		{"volumes", l.Volumes, u.Volumes}, {"snapshots", l.Snapshots, u.Snapshots}, {"gigabytes", l.Gigabytes, u.Gigabytes},
		{"per_volume_gigabytes", -1, 0}, {"backups", 10, 0}, {"backup_gigabytes", 1000, 0}, {"groups", 10, 0},
	}
	for _, t := range f.types {
		var n, size int
		for _, v := range f.volumes {
			if v.project == project && v.typ == t.name {
				n, size = n+1, size+v.size
			}
		}
		all = append(all, entry{"volumes_" + t.name, -1, n}, entry{"gigabytes_" + t.name, -1, size}, entry{"snapshots_" + t.name, -1, 0})
	}
	o := object{}
	for _, e := range all {
		o[e.name] = e.limit
		if usage {
			o[e.name] = object{"limit": e.limit, "in_use": e.used, "reserved": 0}
		}
	}
	return o
}

func (f *Cinder) showQuota(q *request) answer {
	o := f.quotaSet(q.id, q.get("usage") == "true")
	o["id"] = q.id
	return reply(200, object{"quota_set": o})
}

func (f *Cinder) setQuota(q *request) answer {
	var in struct{ Volumes, Snapshots, Gigabytes *int }
	if !q.admin() {
		return forbidden("volume_extension:quotas:update")
	}
	if a := readBody(q, "quota_set", &in); a.status != 0 {
		return a
	}
	limits := f.quota(q.id)
	for _, change := range []struct{ to, from *int }{{&limits.Volumes, in.Volumes}, {&limits.Snapshots, in.Snapshots}, {&limits.Gigabytes, in.Gigabytes}} {
		if change.from != nil {
			*change.to = *change.from
		}
	}
	f.quotas[q.id] = limits
	return reply(200, object{"quota_set": f.quotaSet(q.id, false)})
}

func (f *Cinder) listMessages(q *request) answer {
	if a := old(q, 3); a.status != 0 {
		return a
	}
	all := list{}
	for i := len(f.messages) - 1; i >= 0; i-- {
		m := f.messages[i]
		if want := q.get("resource_uuid"); want != "" && want != m.resource {
			continue
		}
		all = append(all, object{
			"id": m.id, "event_id": "VOLUME_VOLUME_001_003", "user_message": m.text, "message_level": "ERROR", "created_at": m.created,
			"guaranteed_until": time.Now().Add(30 * 24 * time.Hour).UTC().Format("2006-01-02T15:04:05.000000"),
			"request_id":       "req-" + m.id, "links": links(q, "messages", m.id), "resource_type": "VOLUME", "resource_uuid": m.resource,
		})
	}
	return reply(200, object{"messages": all})
}

func (f *Cinder) listZones(*request) answer {
	all := list{}
	for _, z := range f.settings.zones {
		all = append(all, object{"zoneName": z, "zoneState": object{"available": true}})
	}
	return reply(200, object{"availabilityZoneInfo": all})
}

func (f *Cinder) listServices(q *request) answer {
	if !q.admin() {
		return forbidden("volume_extension:services:index")
	}
	all := list{}
	for _, s := range []struct{ binary, host string }{{"cinder-scheduler", "node"}, {"cinder-volume", "node@" + Backend}} {
		o := object{"binary": s.binary, "host": s.host, "zone": "nova", "status": "enabled", "state": "up", "updated_at": f.now(), "disabled_reason": nil}
		if s.binary == "cinder-volume" {
			o["replication_status"], o["active_backend_id"], o["frozen"] = "disabled", nil, false
		}
		all = append(all, o)
	}
	return reply(200, object{"services": all})
}

func (f *Cinder) listPools(q *request) answer {
	if !q.admin() {
		return forbidden("scheduler_extension:scheduler_stats:get_pools")
	}
	pool := object{"name": "node@" + Backend + "#" + Backend}
	if q.get("detail") != "" {
		pool["capabilities"] = object{"pool_name": Backend, "total_capacity_gb": 250.0, "free_capacity_gb": 60.0, "storage_protocol": "iSCSI",
			"volume_backend_name": Backend, "multiattach": true, "backend_state": "up"}
	}
	return reply(200, object{"pools": list{pool}})
}
