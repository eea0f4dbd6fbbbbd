package images

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

const (
	mebi = 1 << 20
	// nodeDriver is the driver of flex-node.
	nodeDriver = "dispatcher.flex-provisioner.io"
)

func newLoop(t *testing.T, root string, more map[string]string) class {
	c := class{image: "loop", properties: map[string]string{"root": root}, api: sdktest.NewServer(t),
		name: sdktest.Provision(nil).VolumeName, mount: root, base: root, host: sdktest.Node, at: "node " + sdktest.Node, node: sdktest.Node}
	for name, value := range more {
		c.properties[name] = value
	}

	return c
}

func (c class) img() string { return filepath.Join(c.dir(), "image") }

// loopPod is a pod for the request, with the size.
func (c class) loopPod(t *testing.T, r contract.Request, size int64, exists bool) sdktest.Pod {
	r = c.about(r)
	r.SizeBytes = size
	var volume *corev1.PersistentVolume
	if r.Operation == contract.Provision || exists {
		volume = sdktest.Skeleton(r)
	}

	return sdktest.NewPod(t, r, volume, c.api)
}

func (c class) make(t *testing.T, size int64) sdktest.Pod {
	return c.loopPod(t, sdktest.Provision(c.properties), size, true)
}

func (c class) larger(t *testing.T, size int64) sdktest.Pod {
	return c.loopPod(t, sdktest.Expand(c.properties), size, true)
}

func (c class) gone(t *testing.T) sdktest.Pod {
	return c.loopPod(t, sdktest.Delete(c.properties), 0, true)
}

func (c class) wantImage(t *testing.T, when string, size int64) {
	t.Helper()
	info, err := os.Stat(c.img())
	if err != nil || info.Size() != size || info.Mode() != 0o600 {
		t.Errorf("%s: image %v, %v, want %d bytes", when, info, err, size)
	}

	if left, _ := filepath.Glob(c.mount + "/.pvc-*"); len(left) > 0 {
		t.Errorf("%s: %v is left", when, left)
	}
}

func (c class) wantNone(t *testing.T, when string) {
	t.Helper()
	for _, path := range []string{c.dir(), c.mark()} {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s: %s: %v", when, path, err)
		}
	}

	if left, _ := filepath.Glob(c.mount + "/.pvc-*"); len(left) > 0 {
		t.Errorf("%s: %v is left", when, left)
	}
}

func TestLoop(t *testing.T) {
	export := map[string]string{"export": "nfs://10.0.0.1/srv/nfs", "directory": "/exports/silver", "driver": "fast.example.com"}
	for name, c := range map[string]struct {
		more     map[string]string
		want     corev1.CSIPersistentVolumeSource
		affinity *corev1.VolumeNodeAffinity
	}{
		"on a node": {nil, corev1.CSIPersistentVolumeSource{Driver: nodeDriver,
			VolumeAttributes: map[string]string{"stager": "loop"}}, sdk.NodeAffinity(corev1.LabelHostname, sdktest.Node)},
		"on an export": {export, corev1.CSIPersistentVolumeSource{Driver: "fast.example.com",
			VolumeAttributes: map[string]string{"stager": "loop", "directory": "/exports/silver"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, t.TempDir(), c.more)
			if c.affinity != nil {
				c.want.VolumeAttributes["directory"] = l.mount
			}

			c.want.VolumeHandle = l.name
			request := l.about(sdktest.Provision(l.properties))
			request.SizeBytes = mebi - 1
			if c.more != nil {
				request.Mounts = []contract.Mount{{Claim: "silver-export", Path: l.mount, Source: c.more["export"]}}
			}

			pod := sdktest.NewPod(t, request, sdktest.Skeleton(request), l.api)
			l.run(t, pod, 0).Expect(t, 0, "persistentvolume/"+l.name+" created")
			l.wantImage(t, "made", mebi)
			var volume corev1.PersistentVolume
			if err := json.Unmarshal(l.api.Volume(l.name), &volume); err != nil {
				t.Fatal(err)
			}

			if !reflect.DeepEqual(volume.Spec.CSI, &c.want) || !reflect.DeepEqual(volume.Spec.NodeAffinity, c.affinity) {
				t.Errorf("the volume has %+v, %+v", volume.Spec.CSI, volume.Spec.NodeAffinity)
			}
		})
	}
}

// Killed before and after every command, every operation gets there the next time.
func TestLoopKilled(t *testing.T) {
	for at, ended := 1, 0; ended < 3; at++ {
		ended = 0
		count := func(r sdktest.Result) {
			if r.Code != sdktest.Killed {
				ended++
			}
		}
		c := newLoop(t, t.TempDir(), nil)
		when := fmt.Sprintf("killed at %d", at)
		count(c.run(t, c.make(t, mebi), at))
		c.run(t, c.make(t, mebi), 0).Expect(t, 0, "persistentvolume/"+c.name)
		c.wantImage(t, when, mebi)
		count(c.run(t, c.larger(t, 3*mebi), at))
		c.run(t, c.larger(t, 3*mebi), 0).Expect(t, 0, "")
		c.wantImage(t, when, 3*mebi)
		c.run(t, c.larger(t, 2*mebi), 0).Expect(t, 0, "")
		c.wantImage(t, when+", not made smaller", 3*mebi)
		count(c.run(t, c.gone(t), at))
		for range 2 {
			c.run(t, c.gone(t), 0).Expect(t, 0, "")
			c.wantNone(t, when)
		}

		c.run(t, c.make(t, mebi), at)
		c.run(t, c.undo(t), 0).Expect(t, 0, "")
		c.wantNone(t, when+", undone")
		if ended == 3 && at < 8 {
			t.Fatalf("the script has only %d points", at-1)
		}
	}
}

func TestLoopAtOnce(t *testing.T) {
	c := newLoop(t, t.TempDir(), nil)
	var group sync.WaitGroup
	for range 4 {
		pod := c.make(t, mebi)
		group.Go(func() { c.run(t, pod, 0).Expect(t, 0, "persistentvolume/"+c.name) })
	}
	group.Wait()
	c.wantImage(t, "four at once", mebi)
}

// What an image has already is not touched, as a node may write there at the same time.
func TestLoopGrowsAtTheEnd(t *testing.T) {
	c := newLoop(t, t.TempDir(), nil)
	c.run(t, c.make(t, mebi), 0).Expect(t, 0, "created")
	for _, size := range []int64{0, mebi} { // a hole
		if err := os.Truncate(c.img(), size); err != nil {
			t.Fatal(err)
		}
	}

	c.run(t, c.larger(t, 3*mebi), 0).Expect(t, 0, "")
	var stat syscall.Stat_t
	if err := syscall.Stat(c.img(), &stat); err != nil || stat.Size != 3*mebi || stat.Blocks*512 != 2*mebi {
		t.Errorf("the image has %d bytes in %d blocks, %v", stat.Size, stat.Blocks, err)
	}
}

// A disk without room is no place for the claim, and an image there stays as it is.
func TestLoopRoom(t *testing.T) {
	c := newLoop(t, t.TempDir(), nil)
	c.run(t, c.make(t, 1<<60), 0).Expect(t, 69, "Mi, and the claim asks for 1099511627776Mi")
	if entries, err := os.ReadDir(c.mount); err != nil || len(entries) > 0 {
		t.Errorf("it made %v, %v", entries, err)
	}

	c.run(t, c.make(t, mebi), 0).Expect(t, 0, "created")
	c.run(t, c.larger(t, 1<<60), 0).Expect(t, 64, "Mi more, and the claim asks for 1099511627775Mi more")
	c.wantImage(t, "refused", mebi)
}

func TestLoopForeign(t *testing.T) {
	c := newLoop(t, t.TempDir(), nil)
	c.run(t, c.next().make(t, mebi), 0).Expect(t, 0, "created")
	writeFile(t, c.img())
	named := c.dir() + " on node " + sdktest.Node
	c.run(t, c.make(t, mebi), 0).Expect(t, 1, named+" is not ours; move it out of the way")
	c.run(t, c.gone(t), 0).Expect(t, 1, named+" has no mark, so it is not removed; remove it by hand")
	c.run(t, c.undo(t), 0).Expect(t, 0, "")
	if data, err := os.ReadFile(c.img()); err != nil || string(data) != "data" {
		t.Errorf("it has %q, %v", data, err)
	}

	list := c.run(t, sdktest.NewPod(t, sdktest.List(c.properties), nil, nil), 0)
	marks := c.mount + "/.flex-provisioner/"
	if want := "storage " + another + " ssh " + sdktest.Node + " rm -rf -- " + c.mount + "/" + another + " " + marks + another + "\n"; list.Output != want {
		t.Errorf("listed %q, want %q", list.Output, want)
	}
}

// "Not mounted" is not "gone".
func TestLoopUnreachable(t *testing.T) {
	c := newLoop(t, t.TempDir(), nil)
	at := c.mount + " on node " + sdktest.Node
	c.run(t, c.gone(t), 0).Expect(t, 75, at+" has no .flex-provisioner; is it mounted?")
	c.run(t, c.larger(t, mebi), 0).Expect(t, 1, "volume "+c.name+" is not in "+at+"; is that mounted?")
	if err := os.Remove(c.mount); err != nil {
		t.Fatal(err)
	}

	c.run(t, c.undo(t), 0).Expect(t, 75, "node node-1 has no directory "+c.mount+"; is it mounted?")
	c.run(t, c.make(t, mebi), 0).Expect(t, 69, "node node-1 has no directory "+c.mount)
}

func TestLoopBadInput(t *testing.T) {
	root := t.TempDir()
	for name, c := range map[string]struct {
		properties map[string]string
		want       string
	}{
		"root":      {map[string]string{"root": "/a/../b"}, `property "root" is "/a/../b": write an absolute path`},
		"directory": {map[string]string{"directory": `/a", x: "`}, `property "directory" is "/a", x: "": write a path that flex-node has as --directory`},
		"driver":    {map[string]string{"driver": "a, x: b"}, `property "driver" is "a, x: b": write the name of flex-node's driver`},
		"export":    {map[string]string{"export": "10.0.0.1:/a"}, `property "export" is "10.0.0.1:/a": write nfs://SERVER/DIRECTORY`},
		"other":     {map[string]string{"mode": "0777"}, `not known: "mode"; the provisioner knows the properties directory, driver, export, root, smartclone`},
	} {
		l := newLoop(t, root, c.properties)
		if got := l.run(t, l.make(t, mebi), 0); got.Code != 64 || !strings.Contains(got.Output, c.want) {
			t.Errorf("%s: %d, %s, want %s", name, got.Code, got.Output, c.want)
		}
	}
}

// Without reflinks there is no copy of one moment.
func TestLoopNoReflink(t *testing.T) {
	c := newLoop(t, t.TempDir(), nil)
	c.run(t, c.make(t, mebi), 0).Expect(t, 0, "created")
	got := c.run(t, c.take(t), 0)
	if got.Code == 0 {
		t.Skip("this file system has reflinks")
	}

	got.Expect(t, 64, "cannot share data between files, as XFS and btrfs can")
	clone := c.next()
	request := clone.about(sdktest.Provision(c.properties))
	request.Source = &contract.Source{Namespace: "team-a", Name: "data", VolumeName: c.name}
	clone.run(t, sdktest.NewPod(t, request, sdktest.Skeleton(request), c.api), 0).Expect(t, 1, "cannot share data between files")
	clone.run(t, clone.undo(t), 0).Expect(t, 0, "")
	clone.wantNone(t, "undone")
}
