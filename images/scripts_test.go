// Package images tests the images whose provisioners are scripts.
package images

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
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

func TestMain(m *testing.M) { sdktest.MainWithFlexctl(m) }

const (
	server = "10.0.0.1"
	export = "/srv/nfs"
	// another is a volume of another claim.
	another = "pvc-00000000-0000-4000-8000-000000000000"
)

// class is a storage class, and the one claim for it.
type class struct {
	image      string
	properties map[string]string
	api        *sdktest.Server
	name       string
	// script runs in place of the image's, if it is not empty.
	script string
	// directory is that of the volume, where it is not the volume's name. namespace is the claim's, team-a if empty.
	directory, namespace string
	// mount is the directory of the storage in the pod. People know it as the directory base of host, which at names in messages.
	mount, base, host, at string
	// node is where the volume is, for hostpath.
	node string
	// Messages: there is no volume, there is no mark of the volume, and there is no mark at all.
	missing, noMark, nothing string
	archives                 bool
}

// byName is a pattern of directories, which gives the claim of these tests the directory claimDirectory.
const (
	byName         = "${.PVC.namespace}.${.PVC.name}"
	claimDirectory = "team-a.data"
)

func newHostpath(t *testing.T, more map[string]string) class {
	root := t.TempDir()
	c := class{image: "hostpath", properties: map[string]string{"root": root}, api: sdktest.NewServer(t), name: sdktest.Provision(nil).VolumeName,
		mount: root, base: root, host: sdktest.Node, at: "node " + sdktest.Node, node: sdktest.Node}
	maps.Copy(c.properties, more)
	if more["path-pattern"] == byName {
		c.directory = claimDirectory
	}
	c.missing = root + "/" + c.name + " is not on node node-1; is the disk of " + root + " mounted?"
	c.noMark = " has no mark in " + filepath.Dir(c.mark()) + ", so it is not removed; remove it by hand"
	c.nothing = "nothing was made here, or its disk is not mounted"
	return c
}

func newNFS(t *testing.T, more map[string]string) class {
	mount := t.TempDir()
	c := class{image: "nfs-subdir", properties: map[string]string{"server": server, "export": export, "mount": mount}, api: sdktest.NewServer(t),
		name: sdktest.Provision(nil).VolumeName, mount: mount, base: export, host: server, at: server, archives: more["archive-on-delete"] == "true"}
	maps.Copy(c.properties, more)
	if more["path-pattern"] == byName {
		c.directory = claimDirectory
	}
	c.missing = export + "/" + c.name + " is not on " + server + "; is the export mounted at " + mount + "?"
	c.noMark = " has no mark, so it is not removed; remove it by hand"
	return c
}

var archive = map[string]string{"archive-on-delete": "true"}

// each runs a test for each image, and for one that archives what it deletes. The test gets a function that makes a new class.
func each(t *testing.T, test func(t *testing.T, newClass func() class)) {
	for name, newOf := range map[string]func(*testing.T) class{
		"hostpath":           func(t *testing.T) class { return newHostpath(t, nil) },
		"hostpath by name":   func(t *testing.T) class { return newHostpath(t, map[string]string{"path-pattern": byName}) },
		"nfs-subdir by name": func(t *testing.T) class { return newNFS(t, map[string]string{"path-pattern": byName}) },
		"nfs-subdir, archives by name": func(t *testing.T) class {
			return newNFS(t, map[string]string{"path-pattern": byName, "archive-on-delete": "true"})
		},
		"nfs-subdir":           func(t *testing.T) class { return newNFS(t, nil) },
		"nfs-subdir, archives": func(t *testing.T) class { return newNFS(t, archive) },
	} {
		t.Run(name, func(t *testing.T) { test(t, func() class { return newOf(t) }) })
	}
}

func (c class) dirname() string { return cmp.Or(c.directory, c.name) }
func (c class) dir() string     { return filepath.Join(c.mount, c.dirname()) }
func (c class) held() string {
	return filepath.Join(c.mount, ".flex-provisioner", "names", c.dirname())
}
func (c class) mark() string     { return filepath.Join(c.mount, ".flex-provisioner", c.name) }
func (c class) archived() string { return filepath.Join(c.mount, "archived-"+c.name) }

func (c class) source() (source corev1.PersistentVolumeSource, affinity *corev1.VolumeNodeAffinity) {
	if c.image == "hostpath" {
		source.Local = &corev1.LocalVolumeSource{Path: c.dir()}
		return source, sdk.NodeAffinity(corev1.LabelHostname, c.node)
	}
	source.NFS = &corev1.NFSVolumeSource{Server: server, Path: export + "/" + c.dirname()}
	return source, nil
}

// run runs the provisioner in a pod, until a point at which it is killed; 0 for none.
func (c class) run(t *testing.T, pod sdktest.Pod, killAt int) sdktest.Result {
	return sdktest.RunScript(t, cmp.Or(c.script, c.image+"/provisioner.sh"), pod, killAt)
}

// about is the request, about the volume of the class.
func (c class) about(request contract.Request) contract.Request {
	request.VolumeName, request.Claim.UID = c.name, c.name[len("pvc-"):]
	request.Claim.Namespace = cmp.Or(c.namespace, request.Claim.Namespace)
	return request
}

func (c class) provision(t *testing.T) sdktest.Pod {
	request := c.about(sdktest.Provision(c.properties))
	return sdktest.NewPod(t, request, sdktest.Skeleton(request), c.api)
}

func (c class) delete(t *testing.T) sdktest.Pod {
	request := c.about(sdktest.Delete(c.properties))
	volume := sdktest.Skeleton(request)
	volume.Spec.PersistentVolumeSource, volume.Spec.NodeAffinity = c.source()
	return sdktest.NewPod(t, request, volume, nil)
}

func (c class) expand(t *testing.T) sdktest.Pod {
	request := sdktest.Expand(c.properties)
	volume := sdktest.Skeleton(request)
	volume.Spec.PersistentVolumeSource, volume.Spec.NodeAffinity = c.source()
	return sdktest.NewPod(t, request, volume, nil)
}

func (c class) undo(t *testing.T) sdktest.Pod {
	return sdktest.NewPod(t, c.about(sdktest.Delete(c.properties)), nil, nil)
}

func TestProvision(t *testing.T) {
	each(t, func(t *testing.T, newClass func() class) {
		c := newClass()
		// The second one is an attempt after one whose end was lost.
		for _, want := range []string{"created", "exists already"} {
			c.run(t, c.provision(t), 0).Expect(t, 0, "persistentvolume/"+c.name+" "+want)
		}
		c.check(t, 0o777)
	})
}

func TestProvisionAtOnce(t *testing.T) {
	each(t, func(t *testing.T, newClass func() class) {
		c := newClass()
		var group sync.WaitGroup
		for range 4 {
			pod := c.provision(t)
			group.Go(func() { c.run(t, pod, 0).Expect(t, 0, "persistentvolume/"+c.name) })
		}
		group.Wait()
		c.check(t, 0o777)
	})
}

// Killed before and after every command, the provisioner gets there the next time, or is undone without a trace.
func TestProvisionKilled(t *testing.T) {
	each(t, func(t *testing.T, newClass func() class) {
		for at, ended := 1, false; !ended; at++ {
			c := newClass()
			ended = c.run(t, c.provision(t), at).Code != sdktest.Killed
			if ended && at < 8 {
				t.Fatalf("the script has only %d points", at-1)
			}
			c.run(t, c.provision(t), 0).Expect(t, 0, "persistentvolume/"+c.name)
			c.check(t, 0o777)

			c = newClass()
			c.run(t, c.provision(t), at)
			c.run(t, c.undo(t), 0).Expect(t, 0, "")
			c.checkGone(t)
		}
	})
}

// Directories get the mode and the owner of the class. chown takes the setgid bit away, unless chmod comes after it.
func TestModeAndOwner(t *testing.T) {
	user, group := os.Getuid(), os.Getgid()
	if user == 0 {
		user, group = 12345, 54321
	}
	each(t, func(t *testing.T, newClass func() class) {
		c := newClass()
		c.properties["mode"], c.properties["owner"] = "2750", fmt.Sprintf("%d:%d", user, group)
		c.run(t, c.provision(t), 0).Expect(t, 0, "created")
		c.check(t, 0o750|os.ModeSetgid)
		info, err := os.Stat(c.dir())
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Sys().(*syscall.Stat_t); int(got.Uid) != user || int(got.Gid) != group {
			t.Errorf("the owner is %d:%d, want %s", got.Uid, got.Gid, c.properties["owner"])
		}
	})
}

// A volume keeps the properties that it was made with. It can be removed although its class has others, which are not known.
func TestUnknownPropertyLater(t *testing.T) {
	each(t, func(t *testing.T, newClass func() class) {
		c := newClass()
		c.fill(t)
		c.properties["color"] = "red"
		c.run(t, c.provision(t), 0).Expect(t, 64, `not known: "color"; `)
		c.run(t, c.expand(t), 0).Expect(t, 0, "")
		c.run(t, c.delete(t), 0).Expect(t, 0, "")
		c.checkDeleted(t)
	})
}

// There is nothing to make larger, but it has to be there.
func TestExpand(t *testing.T) {
	each(t, func(t *testing.T, newClass func() class) {
		c := newClass()
		c.run(t, c.expand(t), 0).Expect(t, 1, c.missing)
		c.fill(t)
		for range 2 {
			c.run(t, c.expand(t), 0).Expect(t, 0, "")
		}
		c.check(t, 0o777)
	})
}

func TestDelete(t *testing.T) {
	each(t, func(t *testing.T, newClass func() class) {
		c := newClass()
		outside := filepath.Join(t.TempDir(), "outside")
		writeFile(t, outside)
		c.fill(t)
		if err := os.Symlink(filepath.Dir(outside), filepath.Join(c.dir(), "link")); err != nil {
			t.Fatal(err)
		}
		others := filepath.Join(c.mount, another, "file")
		writeFile(t, others)
		for range 2 {
			c.run(t, c.delete(t), 0).Expect(t, 0, "")
			c.checkDeleted(t)
		}
		for _, file := range []string{outside, others} {
			if _, err := os.Stat(file); err != nil {
				t.Errorf("the delete went too far: %v", err)
			}
		}
	})
}

func TestDeleteAtOnce(t *testing.T) {
	each(t, func(t *testing.T, newClass func() class) {
		c := newClass()
		c.fill(t)
		var group sync.WaitGroup
		for range 4 {
			pod := c.delete(t)
			// One of them may stumble over what another just removed: it is tried again.
			group.Go(func() { c.run(t, pod, 0) })
		}
		group.Wait()
		c.run(t, c.delete(t), 0).Expect(t, 0, "")
		c.checkDeleted(t)
	})
}

// An rm fails when another one removed the directory first. What is gone is gone.
func TestDeleteAfterAnother(t *testing.T) {
	for _, c := range []class{newHostpath(t, nil), newNFS(t, nil)} {
		t.Run(c.image, func(t *testing.T) {
			c.fill(t)
			t.Chdir(c.image) // the script sources the provisioner from there
			sdktest.RunScript(t, "../testdata/delete-after-another.sh", c.delete(t), 0).Expect(t, 0, "can't remove")
			c.checkGone(t)
		})
	}
}

func TestDeleteKilled(t *testing.T) {
	each(t, func(t *testing.T, newClass func() class) {
		for at, ended := 1, false; !ended; at++ {
			c := newClass()
			c.fill(t)
			ended = c.run(t, c.delete(t), at).Code != sdktest.Killed
			if ended && at < 6 {
				t.Fatalf("the script has only %d points", at-1)
			}
			c.run(t, c.delete(t), 0).Expect(t, 0, "")
			c.checkDeleted(t)
		}
	})
}

func TestUndoOfNothing(t *testing.T) {
	each(t, func(t *testing.T, newClass func() class) {
		c := newClass()
		c.run(t, c.undo(t), 0).Expect(t, 0, "")
		c.checkGone(t)
	})
}

// A directory without a mark is somebody else's. Nothing of it is touched.
func TestForeignDirectory(t *testing.T) {
	each(t, func(t *testing.T, newClass func() class) {
		c := newClass()
		file := filepath.Join(c.dir(), "file")
		writeFile(t, file)
		if err := os.MkdirAll(filepath.Dir(c.mark()), 0o755); err != nil {
			t.Fatal(err)
		}
		named := c.base + "/" + c.dirname() + " on " + c.at
		notOurs := " is not ours; move it out of the way"
		if c.directory != "" {
			notOurs = " is not ours, and not kept for this claim; move it out of the way"
		}
		for _, call := range []struct {
			name string
			pod  sdktest.Pod
			code int
			text string
		}{
			{"provision", c.provision(t), 1, named + notOurs},
			{"delete", c.delete(t), 1, named + c.noMark},
			{"undo", c.undo(t), 0, ""},
		} {
			c.run(t, call.pod, 0).Expect(t, call.code, call.text)
			if got := call.pod.Message(t); got != call.text {
				t.Errorf("%s: message %q, want %q", call.name, got, call.text)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %v", call.name, err)
			}
		}
		if c.api.Tries() != 0 {
			t.Errorf("the API server was asked %d times", c.api.Tries())
		}
	})
}

func TestBadInput(t *testing.T) {
	const path = `: write an absolute path of letters, digits, '.', '_' and '-'`
	type properties = map[string]string
	for _, c := range []struct {
		image      string
		properties properties
		volume     string
		text       string
	}{
		{"hostpath", nil, "", `property "root" is missing: name a directory of the node, the same as in key "host-path"`},
		{"hostpath", properties{"root": "srv"}, "", `property "root" is "srv"` + path},
		{"hostpath", properties{"root": "/srv/../etc"}, "", `property "root" is "/srv/../etc"` + path},
		{"hostpath", properties{"root": "/srv/.."}, "", `property "root" is "/srv/.."` + path},
		{"hostpath", properties{"root": `/srv", x: "`}, "", `property "root" is "/srv", x: ""` + path},
		{"hostpath", properties{"root": "  "}, "", `property "root" is missing: name a directory of the node, the same as in key "host-path"`},
		{"hostpath", properties{"root": "/srv srv"}, "", `property "root" is "/srv srv"` + path + ", or several with spaces between them"},
		{"hostpath", properties{"root": "/srv/.. /mnt"}, "", `property "root" is "/srv/.. /mnt"` + path},
		{"hostpath", properties{"root": "/srv\n/mnt"}, "", path[2:]},
		{"hostpath", properties{"root": "/srv/* /mnt"}, "", `property "root" is "/srv/* /mnt"` + path},
		{"hostpath", properties{"root": "/srv /srv/x"}, "", `property "root" is "/srv /srv/x", and one directory is or contains another one: name directories that lie beside each other`},
		{"hostpath", properties{"root": "/srv/x /srv/xy /srv"}, "", `property "root" is "/srv/x /srv/xy /srv", and one directory is or contains another one`},
		{"hostpath", properties{"root": "/srv /srv"}, "", `property "root" is "/srv /srv", and one directory is or contains another one`},
		{"hostpath", properties{"root": "/srv", "mode": "rwx"}, "", `property "mode" is "rwx": write octal digits such as 0777`},
		{"hostpath", properties{"root": "/srv", "owner": "nobody:1"}, "", `property "owner" is "nobody:1": write a user and a group as numbers, such as 1000:1000`},
		{"hostpath", properties{"root": "/srv", "Mode ": "0770", "size-limit": "1"}, "", `not known: "Mode ", "size-limit"; the provisioner knows the properties keep-on-delete, mode, owner, path-pattern, root, snapshot-copy: correct`},
		{"hostpath", properties{"root": "/srv", "keep-on-delete": "true"}, "", `property "keep-on-delete" needs "path-pattern"`},
		{"hostpath", properties{"root": "/srv", "keep-on-delete": "yes", "path-pattern": "x"}, "", `property "keep-on-delete" is "yes": write "true" or "false"`},
		{"hostpath", properties{"root": "/srv"}, "pvc-1", `"pvc-1" is no name of a volume, pvc-UID`},
		{"hostpath", properties{"root": "/srv"}, "../etc", `"../etc" is no name of a volume, pvc-UID`},
		{"hostpath", properties{"root": "/srv"}, sdktest.Provision(nil).VolumeName + "\nx", "\n  x\" is no name of a volume, pvc-UID"},
		{"nfs-subdir", properties{"export": "/e"}, "", `property "server" is missing: name the NFS server`},
		{"nfs-subdir", properties{"server": server}, "", `property "export" is missing: name the directory that the server exports`},
		{"nfs-subdir", properties{"server": `a", path: "/`, "export": "/e"}, "", `property "server" is "a", path: "/": write a host name or an address`},
		{"nfs-subdir", properties{"server": server, "export": "e"}, "", `property "export" is "e"` + path},
		{"nfs-subdir", properties{"server": server, "export": "/e\n"}, "", path[2:]},
		{"nfs-subdir", properties{"server": server, "export": "/e", "archive-on-delete": "yes"}, "", `property "archive-on-delete" is "yes": write "true" or "false"`},
		{"nfs-subdir", properties{"server": server, "export": "/e", "mode": "rwx"}, "", `property "mode" is "rwx": write octal digits such as 0777`},
		{"nfs-subdir", properties{"server": server, "export": "/e", "owner": "1000"}, "", `property "owner" is "1000": write a user and a group as numbers, such as 1000:1000`},
		{"nfs-subdir", properties{"server": server, "export": "/e", "owner": "1:1\n2"}, "", "such as 1000:1000"},
		{"nfs-subdir", properties{"server": server, "export": "/e", "pathPattern": "x"}, "", `not known: "pathPattern"; the provisioner knows the properties archive-on-delete, export, `},
		{"nfs-subdir", properties{"server": server, "export": "/e", "path-pattern": "x", "keep-on-delete": "true", "archive-on-delete": "true"}, "", `property "keep-on-delete" needs "path-pattern", and no "archive-on-delete"`},
		{"nfs-subdir", properties{"server": server, "export": "/e"}, "../etc", `"../etc" is no name of a volume, pvc-UID`},
	} {
		request := sdktest.Provision(c.properties)
		if c.volume != "" {
			request.VolumeName = c.volume
		}
		pod := sdktest.NewPod(t, request, sdktest.Skeleton(request), nil)
		class{image: c.image}.run(t, pod, 0).Expect(t, 64, c.text)
	}
}

// TestList: what has a mark is listed, with the command that removes it, and nothing is changed. What was archived is not listed.
func TestList(t *testing.T) {
	each(t, func(t *testing.T, newClass func() class) {
		c := newClass()
		list := func() sdktest.Result { return c.run(t, sdktest.NewPod(t, sdktest.List(c.properties), nil, nil), 0) }
		if got := list(); got.Code != 69 || !strings.Contains(got.Output, c.nothing) {
			t.Errorf("without marks ended with %d: %s", got.Code, got.Output)
		}
		c.run(t, c.provision(t), 0).Expect(t, 0, "created")
		if err := os.Mkdir(c.mount+"/lost+found", 0o700); err != nil {
			t.Fatal(err)
		}
		held := ""
		if c.directory != "" {
			held = c.base + "/.flex-provisioner/names/" + c.directory + " "
		}
		want := "storage " + c.name + " ssh " + c.host + " rm -rf -- " + c.base + "/" + c.dirname() + " " + held + c.base + "/.flex-provisioner/" + c.name + "\n"
		if got := list(); got.Code != 0 || got.Output != want {
			t.Errorf("ended with %d and printed %q, want %q", got.Code, got.Output, want)
		}
		c.run(t, c.delete(t), 0).Expect(t, 0, "")
		if got := list(); got.Code != 0 || got.Output != "" {
			t.Errorf("after the delete ended with %d and printed %q", got.Code, got.Output)
		}
	})
}

// fill makes the volume and puts files into it.
func (c class) fill(t *testing.T) {
	t.Helper()
	c.run(t, c.provision(t), 0).Expect(t, 0, "created")
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
	if err := json.Unmarshal(c.api.Volume(c.name), &volume); err != nil {
		t.Fatal(err)
	}
	source, affinity := c.source()
	if got := volume.Spec.PersistentVolumeSource; !reflect.DeepEqual(got, source) {
		t.Errorf("volume source %v, want %v", got, source)
	}
	if got := volume.Spec.NodeAffinity; !reflect.DeepEqual(got, affinity) {
		t.Errorf("node affinity %v, want %v", got, affinity)
	}
}

// checkDeleted is checkGone of a volume that was filled, which is archived or not.
func (c class) checkDeleted(t *testing.T) {
	t.Helper()
	c.checkGone(t)
	data, err := os.ReadFile(filepath.Join(c.archived(), "a", "b", "file"))
	if kept := err == nil && string(data) == "data"; kept != c.archives || !c.archives && !os.IsNotExist(err) {
		t.Errorf("archived file: %q, %v", data, err)
	}
}

// checkGone is that neither the directory nor its mark is there, and that no volume holds the directory's name.
func (c class) checkGone(t *testing.T) {
	t.Helper()
	for _, path := range []string{c.dir(), c.mark(), c.held()} {
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
