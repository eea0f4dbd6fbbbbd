package images

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

// Another disk is mounted at the root, and has marks of its own: the volume is not taken for one that is gone.
func TestOtherDisk(t *testing.T) {
	c := newHostpath(t, nil)
	provision := c.provision(t)
	c.run(t, provision, 0).Expect(t, 0, "created")
	here, away := provision.Location(t), c.mount+"-away"
	if err := os.Rename(c.mount, away); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(c.mount, 0o777); err != nil {
		t.Fatal(err)
	}
	request := sdktest.Provision(map[string]string{"root": c.mount})
	request.VolumeName, request.Claim.UID = another, another[4:]
	provision = sdktest.NewPod(t, request, sdktest.Skeleton(request), c.api)
	c.run(t, provision, 0).Expect(t, 0, "created")
	there := provision.Location(t)

	var volume corev1.PersistentVolume
	if err := json.Unmarshal(c.api.Volume(c.name), &volume); err != nil {
		t.Fatal(err)
	}
	remove := sdktest.Delete(map[string]string{"root": c.mount})
	if remove.Location = volume.Annotations[contract.AnnLocation]; remove.Location != here || here == there {
		t.Errorf("the volume says that it is in %q, the pod said %q, and the other disk is %q", remove.Location, here, there)
	}
	for name, v := range map[string]*corev1.PersistentVolume{
		"is " + there + ", but volume " + c.name + " is in " + here:  &volume,
		"is " + there + ", but an earlier attempt worked in " + here: nil,
	} {
		pod := sdktest.NewPod(t, remove, v, nil)
		if got := c.run(t, pod, 0); got.Code != 1 || !strings.Contains(pod.Message(t), "the storage at "+c.mount+" "+name) {
			t.Errorf("on the other disk it ends with %d, saying %q", got.Code, pod.Message(t))
		}
	}
	if err := os.RemoveAll(c.mount); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(away, c.mount); err != nil {
		t.Fatal(err)
	}
	c.check(t, 0o777)
	c.run(t, sdktest.NewPod(t, remove, &volume, nil), 0).Expect(t, 0, "")
}

// "Unreachable" is not "gone".
func TestHostpathUnreachable(t *testing.T) {
	c := newHostpath(t, nil)
	marks := filepath.Dir(c.mark())
	c.run(t, c.delete(t), 0).Expect(t, 75,
		marks+" is not on node node-1; is the disk of "+c.mount+" mounted?")
	elsewhere := c
	elsewhere.node = "node-2"
	c.run(t, elsewhere.delete(t), 0).Expect(t, 69,
		c.dir()+" is on node node-2, and this is node node-1")
	if err := os.Remove(c.mount); err != nil {
		t.Fatal(err)
	}
	for _, pod := range []sdktest.Pod{c.delete(t), c.undo(t)} {
		c.run(t, pod, 0).Expect(t, 75, "node node-1 has no directory "+c.mount+"; is its disk mounted?")
	}
	c.run(t, c.provision(t), 0).Expect(t, 69,
		"node node-1 has no directory "+c.mount+`; does key "host-path" name it?`)
}
