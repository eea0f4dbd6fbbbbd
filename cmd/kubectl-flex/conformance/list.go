package conformance

import (
	"github.com/flex-provisioner/flex-provisioner/dispatcher/audit"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

func notListable(s *stage) string {
	if !s.subject.config.Listable {
		return "its class does not say that it can list (listable; --listable here)"
	}
	return ""
}

// checkList compares the list of the operation with the storage, as the audit does.
func (t *trial) checkList() {
	const remedy = "print \"" + contract.ListPrefix + "NAME\" on standard output for each volume, whole or half made; change nothing"
	c := t.provisioned()
	t.wantListed(c, true, remedy)
	t.wantGone(c, "after it was listed", "see check delete")
	t.wantListed(c, false, remedy)
}

func (t *trial) wantListed(c *claim, there bool, remedy string) {
	before := t.everything()
	r := t.pod(contract.List, c, nil)
	_, named := audit.ParseListing(r.Output)[c.VolumeName]
	when := "after a delete"
	if there {
		when = "after a provision"
	}
	switch {
	case !r.ok() && (there || r.Reason != podspec.ReasonNotHere):
		t.fail(r, when+": list exits with code 0", r.summary(), remedy)
	case named && !there:
		t.fail(r, when+": list does not name "+c.VolumeName, "it does", remedy)
	case !named && there:
		t.fail(r, when+": list names "+c.VolumeName, "it does not", remedy)
	}
	t.wantSame(r, before, "list changes nothing", remedy)
}
