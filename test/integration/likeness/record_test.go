//go:build integration

package likeness

import "testing"

// TestDeletedBeforeItsEndIsSeen compares who deletes a pod before it knows of its end with who does so after.
func TestDeletedBeforeItsEndIsSeen(t *testing.T) {
	const uid = "00000008-0016-4000-8000-000000000008"
	did := func(body string) string {
		r := &record{calls: []call{{verb: "delete", resource: "pods", name: "prov-" + uid + "-0", code: 200, body: body}}}
		return r.of("claim", uid)
	}

	before := did(`{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"1"}}`)
	after := did(`{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"preconditions":{"uid":"1"}}`)
	if before != after {
		t.Errorf("before: %s\nafter: %s", before, after)
	}
}
