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

// TestSoonDueIsSeen compares who sees a failed attempt when the next one is due already with who sees it before.
func TestSoonDueIsSeen(t *testing.T) {
	const uid = "00000008-0016-4000-8000-000000000008"
	pod := call{verb: "create", resource: "pods", name: "prov-" + uid + "-1", code: 201}
	condition := call{verb: "patch", resource: "persistentvolumeclaims", name: "claim", code: 200,
		body: `{"status":{"conditions":[{"reason":"ProvisionerFailed","status":"True","type":"flex-provisioner.io/Waiting"}]}}`}
	mark := call{verb: "patch", resource: "pods", name: "prov-" + uid + "-0", code: 200,
		body: `{"metadata":{"annotations":{"flex-provisioner.io/settled":"true"},"uid":"1"}}`}

	late := (&record{calls: []call{pod}}).of("claim", uid)
	early := (&record{calls: []call{condition, mark, pod}}).of("claim", uid)
	if late != early {
		t.Errorf("late: %s\nearly: %s", late, early)
	}
}
