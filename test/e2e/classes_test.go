//go:build e2e

package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// TestOneImageManyClasses has three classes of one image that differ in properties, and one of another image beside them.
func TestOneImageManyClasses(t *testing.T) {
	t.Parallel()
	s := begin(t)
	classes := map[string]*class{}
	for suffix, archive := range map[string]string{"gold": "false", "iron": "true", "lead": "false"} {
		classes[suffix] = s.subdirClass(suffix, archive)
	}
	classes["shell"] = s.class("shell", setting{})
	claims := map[string]*claim{}
	for suffix, class := range classes {
		claims[suffix] = class.claim(suffix)
	}
	for suffix, c := range claims {
		c.bound(patient)
		if nfs := c.volume().Spec.NFS; nfs == nil || nfs.Path != c.directory() || !exists(c.directory()) {
			t.Errorf("class %s made %v, want a directory at %s", suffix, nfs, c.directory())
		}
	}
	claims["gold"].consume(shared.admin)
	claims["shell"].consume(shared.admin)
	for suffix, c := range claims {
		for _, pod := range shared.ran(contract.Provision, c.UID) {
			if got, want := pod.Spec.Containers[0].Image, c.class.data["image"]; got != want {
				t.Errorf("class %s ran image %s, want %s", suffix, got, want)
			}
		}
		c.delete()
	}
	for _, c := range claims {
		c.gone(patient)
	}
	iron := claims["iron"]
	archived := iron.class.dir() + "/volumes/archived-" + iron.volumeName()
	if !exists(archived) {
		t.Errorf("class iron archives, but %s does not exist", archived)
	}
	if gold := claims["gold"]; exists(gold.class.dir() + "/volumes/archived-" + gold.volumeName()) {
		t.Error("class gold does not archive, but there is an archive")
	}
	s.ok(os.RemoveAll(iron.class.dir() + "/volumes"))
	for _, suffix := range []string{"gold", "lead"} {
		s.ok(os.RemoveAll(classes[suffix].dir() + "/volumes")) // the image's marks
	}
}

// subdirClass is a class of the image nfs-subdir, whose export is the class's own directory.
func (s *scope) subdirClass(suffix, archive string) *class {
	s.Helper()
	id := s.name + "-" + suffix
	return s.class(suffix, setting{data: map[string]string{
		"image": nfsSubdirImage, "provision": "", "delete": "", "folder": "",
		"export": exportDir + "/" + id + "/volumes", "mount": "/export/" + id + "/volumes", "archive-on-delete": archive,
	}})
}

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
	class.edit(map[string]string{"image": nfsSubdirImage, "provision": "", "delete": "", "folder": "",
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
