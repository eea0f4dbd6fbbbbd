package fake

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
)

func (f *Cinder) listVolumes(q *request) answer {
	return f.list(q, func(v *volume) object {
		return object{"id": v.id, "name": null(v.name), "links": links(q, "volumes", v.id)}
	})
}

func (f *Cinder) listVolumesDetail(q *request) answer {
	return f.list(q, func(v *volume) object {
		o := f.fullView(q, v)
		v.next.reads--
		return o
	})
}

// list answers both lists: newest first, filtered, then cut by marker and limit.
func (f *Cinder) list(q *request, view func(*volume) object) answer {
	limit, a := q.limit()
	if a.status != 0 {
		return a
	}
	all := f.filtered(q)
	count := len(all)
	if marker := q.get("marker"); marker != "" {
		if f.visible(q, marker) == nil {
			return notFound("Volume", marker)
		}
		for i, v := range all {
			if v.id == marker {
				all = all[i+1:]
				break
			}
		}
	}
	body := object{}
	if limit >= 0 && len(all) >= limit && limit > 0 {
		// Cinder gives a next page whenever this one is full, even where nothing follows.
		all = all[:limit]
		next := url.Values(q.http.URL.Query())
		next.Set("marker", all[limit-1].id)
		next.Set("limit", strconv.Itoa(limit))
		body["volumes_links"] = list{object{"rel": "next", "href": q.host + q.http.URL.Path + "?" + next.Encode()}}
	} else if limit == 0 {
		all = nil
	}
	volumes := list{}
	for _, v := range all {
		volumes = append(volumes, view(v))
	}
	body["volumes"] = volumes
	if q.minor >= 45 && q.get("with_count") == "true" {
		body["count"] = count
	}
	return reply(200, body)
}

// limit reads ?limit=; -1 is none.
func (q *request) limit() (int, answer) {
	text := q.get("limit")
	if text == "" {
		return -1, answer{}
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, refuse(400, "limit param must be an integer")
	}
	if n < 0 {
		return 0, refuse(400, "limit param must be positive")
	}
	return n, answer{}
}

// filtered lists a project's volumes, newest first, that fit the query. Unknown filters are ignored by Cinder for
// administrators and refused by no one.
func (f *Cinder) filtered(q *request) []*volume {
	metadata, ok := metadataFilter(q.get("metadata"))
	if !ok {
		return nil
	}
	all := q.get("all_tenants")
	everywhere := q.admin() && all != "" && all != "0" && !strings.EqualFold(all, "false")
	var found []*volume
	for i := len(f.volumes) - 1; i >= 0; i-- {
		v := f.volumes[i]
		fits := everywhere || v.project == q.project
		for filter, value := range map[string]string{"name": v.name, "status": v.status, "availability_zone": v.zone, "id": v.id} {
			if want, ok := q.query[filter]; ok {
				fits = fits && want[0] == value
			}
		}
		for key, want := range metadata {
			value, ok := v.metadata[key]
			fits = fits && ok && value == want
		}
		if fits {
			found = append(found, v)
		}
	}
	return found
}

// metadataFilter reads the Python dictionary in which the filter is written: {'k':'v'}. Anything else fits no volume.
func metadataFilter(text string) (filter map[string]string, ok bool) {
	if text == "" {
		return nil, true
	}
	err := json.Unmarshal([]byte(strings.ReplaceAll(text, "'", `"`)), &filter)
	return filter, err == nil
}
