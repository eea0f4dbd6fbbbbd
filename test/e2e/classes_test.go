//go:build e2e

package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// TestEditedWhileRunning edits a ConfigMap. The next claim follows it, and what was made before is deleted by what it
// was made with.
func TestEditedWhileRunning(t *testing.T) {
	t.Parallel()
	s := begin(t)
	unchanged := s.dispatcherUnchanged()
	class := s.class("a", setting{data: map[string]string{"zone": "west"}})
	before := class.claim("before")
	before.bound(soon)
	class.edit(map[string]string{"zone": "east", "color": "red"})
	after := class.claim("after")
	after.bound(soon)
	for c, want := range map[*claim]string{before: "west", after: "east"} {
		if got := class.env(contract.Provision, c.volumeName())["ZONE"]; got != want {
			t.Errorf("the pod for claim %s saw zone %q, want %q", c.Name, got, want)
		}
	}
	before.delete()
	before.gone(soon)
	env := class.env(contract.Delete, before.volumeName())
	if env["ZONE"] != "west" || env["COLOR"] != "red" {
		t.Errorf("the delete pod saw zone %q and color %q, want the west of its claim's time, and red, which is new", env["ZONE"], env["COLOR"])
	}

	// To another image.
	class.edit(map[string]string{"image": nfsSubdirImage, "provision": "", "delete": "", "folder": "", "zone": "", "color": "",
		"export": class.dir() + "/volumes", "mount": "/export/" + class.id + "/volumes"})
	other := class.claim("other")
	other.bound(soon)
	if pods := shared.ran(contract.Provision, other.UID); len(pods) != 1 || pods[0].Spec.Containers[0].Image != nfsSubdirImage {
		t.Errorf("pods %v ran for claim other, want one of image %s", pods, nfsSubdirImage)
	}
	other.delete()
	other.gone(soon)
	// The claim that the scripts served goes by the scripts.
	class.edit(map[string]string{"image": shellImage, "provision": class.data["provision"], "delete": class.data["delete"], "folder": class.id, "mount": "", "export": exportDir})
	after.delete()
	after.gone(soon)
	s.ok(os.RemoveAll(class.dir() + "/volumes"))
	unchanged()
	if runs := strings.Join(class.runs(), "\n"); strings.Count(runs, "provision ") != 2 || strings.Count(runs, "delete ") != 2 {
		t.Errorf("the scripts ran as\n%s\nwant two for provision and two for delete", runs)
	}
}
