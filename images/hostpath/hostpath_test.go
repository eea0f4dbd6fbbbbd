// Package hostpath is the test of the image hostpath, whose provisioner is a script.
package hostpath

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

func TestMain(m *testing.M) { sdktest.MainWithFlexctl(m) }

const script = "provisioner.sh"

// class is a storage class on a node: the root directory and the API server.
type class struct {
	root   string
	server *sdktest.Server
	name   string
}

func newClass(t *testing.T) class {
	return class{t.TempDir(), sdktest.NewServer(t), sdktest.Provision(nil).VolumeName}
}

func (c class) dir() string  { return filepath.Join(c.root, c.name) }
func (c class) mark() string { return filepath.Join(c.root, ".flex-provisioner", c.name) }

func (c class) provision(t *testing.T) sdktest.Pod {
	request := sdktest.Provision(map[string]string{"root": c.root})
	return sdktest.NewPod(t, request, sdktest.Skeleton(request), c.server)
}

// delete is the pod for a volume of the node.
func (c class) delete(t *testing.T, node string) sdktest.Pod {
	request := sdktest.Delete(map[string]string{"root": c.root})
	volume := sdktest.Skeleton(request)
	volume.Spec.Local = &corev1.LocalVolumeSource{Path: c.dir()}
	volume.Spec.NodeAffinity = sdk.NodeAffinity(corev1.LabelHostname, node)
	return sdktest.NewPod(t, request, volume, nil)
}

func (c class) expand(t *testing.T) sdktest.Pod {
	request := sdktest.Expand(map[string]string{"root": c.root})
	return sdktest.NewPod(t, request, sdktest.Skeleton(request), nil)
}

func (c class) undo(t *testing.T) sdktest.Pod {
	return sdktest.NewPod(t, sdktest.Delete(map[string]string{"root": c.root}), nil, nil)
}

func TestProvision(t *testing.T) {
	c := newClass(t)
	// The second one is an attempt after one whose end was lost.
	for _, want := range []string{"created", "exists already"} {
		sdktest.RunScript(t, script, c.provision(t), 0).Expect(t, 0, "persistentvolume/"+c.name+" "+want)
	}
	c.check(t, 0o777)
}

// Another disk is mounted at the root, and has marks of its own: the volume is not taken for one that is gone.
func TestOtherDisk(t *testing.T) {
	c := newClass(t)
	provision := c.provision(t)
	sdktest.RunScript(t, script, provision, 0).Expect(t, 0, "created")
	here, away := provision.Location(t), c.root+"-away"
	if err := os.Rename(c.root, away); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(c.root, 0o777); err != nil {
		t.Fatal(err)
	}
	request := sdktest.Provision(map[string]string{"root": c.root})
	request.VolumeName, request.Claim.UID = "pvc-00000000-0000-4000-8000-000000000000", "00000000-0000-4000-8000-000000000000"
	provision = sdktest.NewPod(t, request, sdktest.Skeleton(request), c.server)
	sdktest.RunScript(t, script, provision, 0).Expect(t, 0, "created")
	there := provision.Location(t)

	var volume corev1.PersistentVolume
	if err := json.Unmarshal(c.server.Volume(c.name), &volume); err != nil {
		t.Fatal(err)
	}
	remove := sdktest.Delete(map[string]string{"root": c.root})
	if remove.Location = volume.Annotations[contract.AnnLocation]; remove.Location != here || here == there {
		t.Errorf("the volume says that it is in %q, the pod said %q, and the other disk is %q", remove.Location, here, there)
	}
	for name, v := range map[string]*corev1.PersistentVolume{
		"is " + there + ", but volume " + c.name + " is in " + here:  &volume,
		"is " + there + ", but an earlier attempt worked in " + here: nil,
	} {
		pod := sdktest.NewPod(t, remove, v, nil)
		if got := sdktest.RunScript(t, script, pod, 0); got.Code != 1 || !strings.Contains(pod.Message(t), "the storage at "+c.root+" "+name) {
			t.Errorf("on the other disk it ends with %d, saying %q", got.Code, pod.Message(t))
		}
	}
	if err := os.RemoveAll(c.root); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(away, c.root); err != nil {
		t.Fatal(err)
	}
	c.check(t, 0o777)
	sdktest.RunScript(t, script, sdktest.NewPod(t, remove, &volume, nil), 0).Expect(t, 0, "")
}

func TestProvisionMode(t *testing.T) {
	c := newClass(t)
	request := sdktest.Provision(map[string]string{"root": c.root, "mode": "2750"})
	pod := sdktest.NewPod(t, request, sdktest.Skeleton(request), c.server)
	sdktest.RunScript(t, script, pod, 0).Expect(t, 0, "created")
	c.check(t, 0o750|os.ModeSetgid)
}

func TestProvisionAtOnce(t *testing.T) {
	c := newClass(t)
	var group sync.WaitGroup
	for range 4 {
		pod := c.provision(t)
		group.Go(func() { sdktest.RunScript(t, script, pod, 0).Expect(t, 0, "persistentvolume/"+c.name) })
	}
	group.Wait()
	c.check(t, 0o777)
}

// Killed before and after every command, the provisioner gets there the next time, or is undone without a trace.
func TestProvisionKilled(t *testing.T) {
	for at, ended := 1, false; !ended; at++ {
		c := newClass(t)
		ended = sdktest.RunScript(t, script, c.provision(t), at).Code != sdktest.Killed
		if ended && at < 8 {
			t.Fatalf("the script has only %d points", at-1)
		}
		sdktest.RunScript(t, script, c.provision(t), 0).Expect(t, 0, "persistentvolume/"+c.name)
		c.check(t, 0o777)

		c = newClass(t)
		sdktest.RunScript(t, script, c.provision(t), at)
		sdktest.RunScript(t, script, c.undo(t), 0).Expect(t, 0, "")
		c.checkGone(t)
	}
}

// There is nothing to make larger, but it has to be there.
func TestExpand(t *testing.T) {
	c := newClass(t)
	missing := c.dir() + " is not on node node-1; is the disk of " + c.root + " mounted?"
	sdktest.RunScript(t, script, c.expand(t), 0).Expect(t, 1, missing)
	c.fill(t)
	for range 2 {
		sdktest.RunScript(t, script, c.expand(t), 0).Expect(t, 0, "")
	}
	c.check(t, 0o777)
}

func TestDelete(t *testing.T) {
	c := newClass(t)
	outside := filepath.Join(t.TempDir(), "outside")
	writeFile(t, outside)
	c.fill(t)
	if err := os.Symlink(filepath.Dir(outside), filepath.Join(c.dir(), "link")); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(c.root, "pvc-00000000-0000-4000-8000-000000000000", "file")
	writeFile(t, other)
	for range 2 {
		sdktest.RunScript(t, script, c.delete(t, sdktest.Node), 0).Expect(t, 0, "")
		c.checkGone(t)
	}
	for _, file := range []string{outside, other} {
		if _, err := os.Stat(file); err != nil {
			t.Errorf("the delete went too far: %v", err)
		}
	}
}

func TestDeleteAtOnce(t *testing.T) {
	c := newClass(t)
	c.fill(t)
	var group sync.WaitGroup
	for range 4 {
		pod := c.delete(t, sdktest.Node)
		// One of them may stumble over what another just removed: it is tried again.
		group.Go(func() { sdktest.RunScript(t, script, pod, 0) })
	}
	group.Wait()
	sdktest.RunScript(t, script, c.delete(t, sdktest.Node), 0).Expect(t, 0, "")
	c.checkGone(t)
}

// An rm fails when another one removed the directory first. What is gone is gone.
func TestDeleteAfterAnother(t *testing.T) {
	c := newClass(t)
	c.fill(t)
	sdktest.RunScript(t, "../testdata/delete-after-another.sh", c.delete(t, sdktest.Node), 0).Expect(t, 0, "can't remove")
	c.checkGone(t)
}

func TestDeleteKilled(t *testing.T) {
	for at, ended := 1, false; !ended; at++ {
		c := newClass(t)
		c.fill(t)
		ended = sdktest.RunScript(t, script, c.delete(t, sdktest.Node), at).Code != sdktest.Killed
		if ended && at < 8 {
			t.Fatalf("the script has only %d points", at-1)
		}
		sdktest.RunScript(t, script, c.delete(t, sdktest.Node), 0).Expect(t, 0, "")
		c.checkGone(t)
	}
}

func TestUndoOfNothing(t *testing.T) {
	c := newClass(t)
	sdktest.RunScript(t, script, c.undo(t), 0).Expect(t, 0, "")
	c.checkGone(t)
}

// A directory without a mark is somebody else's. Nothing of it is touched.
func TestForeignDirectory(t *testing.T) {
	c := newClass(t)
	file := filepath.Join(c.dir(), "file")
	writeFile(t, file)
	if err := os.MkdirAll(filepath.Dir(c.mark()), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, call := range []struct {
		name string
		pod  sdktest.Pod
		code int
		text string
	}{
		{"provision", c.provision(t), 1, c.dir() + " on node node-1 is not ours; move it out of the way"},
		{"delete", c.delete(t, sdktest.Node), 1,
			c.dir() + " on node node-1 has no mark in " + filepath.Dir(c.mark()) + ", so it is not removed; remove it by hand"},
		{"undo", c.undo(t), 0, ""},
	} {
		sdktest.RunScript(t, script, call.pod, 0).Expect(t, call.code, call.text)
		if got := call.pod.Message(t); got != call.text {
			t.Errorf("%s: message %q, want %q", call.name, got, call.text)
		}
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%s: %v", call.name, err)
		}
	}
	if c.server.Tries() != 0 {
		t.Errorf("the API server was asked %d times", c.server.Tries())
	}
}

// "Unreachable" is not "gone".
func TestUnreachable(t *testing.T) {
	c := newClass(t)
	marks := filepath.Dir(c.mark())
	sdktest.RunScript(t, script, c.delete(t, sdktest.Node), 0).Expect(t, 75,
		marks+" is not on node node-1; is the disk of "+c.root+" mounted?")
	sdktest.RunScript(t, script, c.delete(t, "node-2"), 0).Expect(t, 69,
		c.dir()+" is on node node-2, and this is node node-1")
	if err := os.Remove(c.root); err != nil {
		t.Fatal(err)
	}
	for _, pod := range []sdktest.Pod{c.delete(t, sdktest.Node), c.undo(t)} {
		sdktest.RunScript(t, script, pod, 0).Expect(t, 75, "node node-1 has no directory "+c.root+"; is its disk mounted?")
	}
	sdktest.RunScript(t, script, c.provision(t), 0).Expect(t, 69,
		"node node-1 has no directory "+c.root+`; does key "host-path" name it?`)
}

func TestBadInput(t *testing.T) {
	path := `: write an absolute path of letters, digits, '.', '_' and '-'`
	for _, c := range []struct {
		properties map[string]string
		volume     string
		text       string
	}{
		{nil, "", `property "root" is missing: name a directory of the node, the same as in key "host-path"`},
		{map[string]string{"root": "srv"}, "", `property "root" is "srv"` + path},
		{map[string]string{"root": "/srv/../etc"}, "", `property "root" is "/srv/../etc"` + path},
		{map[string]string{"root": "/srv/.."}, "", `property "root" is "/srv/.."` + path},
		{map[string]string{"root": `/srv", x: "`}, "", `property "root" is "/srv", x: ""` + path},
		{map[string]string{"root": "/srv", "mode": "rwx"}, "", `property "mode" is "rwx": write octal digits such as 0777`},
		{map[string]string{"root": "/srv"}, "pvc-1", `"pvc-1" is no name of a volume, pvc-UID`},
		{map[string]string{"root": "/srv"}, "../etc", `"../etc" is no name of a volume, pvc-UID`},
		{map[string]string{"root": "/srv"}, sdktest.Provision(nil).VolumeName + "\nx", "\n  x\" is no name of a volume, pvc-UID"},
	} {
		request := sdktest.Provision(c.properties)
		if c.volume != "" {
			request.VolumeName = c.volume
		}
		pod := sdktest.NewPod(t, request, sdktest.Skeleton(request), nil)
		sdktest.RunScript(t, script, pod, 0).Expect(t, 64, c.text)
	}
}

// fill makes the volume and puts files into it.
func (c class) fill(t *testing.T) {
	t.Helper()
	sdktest.RunScript(t, script, c.provision(t), 0).Expect(t, 0, "created")
	writeFile(t, filepath.Join(c.dir(), "a", "b", "file"))
}

// check is that the directory and the volume are there and fit.
func (c class) check(t *testing.T, mode os.FileMode) {
	t.Helper()
	info, err := os.Stat(c.dir())
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode() &^ os.ModeDir; got != mode {
		t.Errorf("mode of the directory is %v, want %v", got, mode)
	}
	var volume corev1.PersistentVolume
	if err := json.Unmarshal(c.server.Volume(c.name), &volume); err != nil {
		t.Fatal(err)
	}
	want := corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: c.dir()}}
	if !reflect.DeepEqual(volume.Spec.PersistentVolumeSource, want) {
		t.Errorf("volume source %v, want %v", volume.Spec.PersistentVolumeSource, want)
	}
	if want := sdk.NodeAffinity(corev1.LabelHostname, sdktest.Node); !reflect.DeepEqual(volume.Spec.NodeAffinity, want) {
		t.Errorf("node affinity %v, want %v", volume.Spec.NodeAffinity, want)
	}
}

// checkGone is that neither the directory nor its mark is there.
func (c class) checkGone(t *testing.T) {
	t.Helper()
	for _, path := range []string{c.dir(), c.mark()} {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s is there still, or %v", path, err)
		}
	}
}

func writeFile(t *testing.T, file string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
}
