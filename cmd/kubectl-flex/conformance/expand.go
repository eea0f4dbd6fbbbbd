package conformance

import "github.com/flex-provisioner/flex-provisioner/sdk/contract"

func notExpandable(s *stage) string {
	if !s.subject.config.Expandable {
		return "its class does not say that it can expand (expandable, or an inline script; --expandable here)"
	}
	return ""
}

// wantExpanded doubles a volume.
func (t *trial) wantExpanded(c *claim, when, remedy string) {
	before := t.everything()
	r := t.pod(contract.Expand, c, t.api.Volume(c.VolumeName))
	if t.wantDone(r, when, remedy) {
		t.wantSame(r, before, when+": there is the same storage as before, but larger", remedy)
	}
}

func (t *trial) checkExpand() {
	c := t.provisioned()
	t.wantExpanded(c, "a first attempt", "read the message and the log")
	t.wantExpanded(c, "a second attempt, as after one whose end was lost", "what is large enough already is success")
	t.wantGone(c, "after an expansion", "see check delete")
}

func (t *trial) checkExpandNothing() {
	c := t.provisioned()
	volume := t.api.Volume(c.VolumeName)
	t.wantGone(c, "a delete", "see check delete")
	if r := t.pod(contract.Expand, c, volume); r.ok() {
		t.fail(r, "expand does not exit with code 0 where there is no storage", r.summary(), "look whether it is there")
	}
}
