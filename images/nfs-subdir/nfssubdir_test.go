// Package nfssubdir is the test of the image nfs-subdir, whose provisioner is a script.
package nfssubdir

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

func TestMain(m *testing.M) { sdktest.MainWithFlexctl(m) }

const (
	script = "provisioner.sh"
	server = "10.0.0.1"
	export = "/srv/nfs"
)

// class is a storage class: where the export is mounted, its properties and the API server.
type class struct {
	mount      string
	properties map[string]string
	api        *sdktest.Server
	name       string
}

func newClass(t *testing.T, more map[string]string) class {
	c := class{t.TempDir(), map[string]string{"server": server, "export": export}, sdktest.NewServer(t), sdktest.Provision(nil).VolumeName}
	c.properties["mount"] = c.mount
	maps.Copy(c.properties, more)
	return c
}

var archive = map[string]string{"archive-on-delete": "true"}

func (c class) dir() string      { return filepath.Join(c.mount, c.name) }
func (c class) mark() string     { return filepath.Join(c.mount, ".flex-provisioner", c.name) }
func (c class) archived() string { return filepath.Join(c.mount, "archived-"+c.name) }

func (c class) provision(t *testing.T) sdktest.Pod {
	request := sdktest.Provision(c.properties)
	return sdktest.NewPod(t, request, sdktest.Skeleton(request), c.api)
}

func (c class) delete(t *testing.T) sdktest.Pod {
	request := sdktest.Delete(c.properties)
	volume := sdktest.Skeleton(request)
	volume.Spec.NFS = &corev1.NFSVolumeSource{Server: server, Path: export + "/" + c.name}
	return sdktest.NewPod(t, request, volume, nil)
}

func (c class) expand(t *testing.T) sdktest.Pod {
	request := sdktest.Expand(c.properties)
	return sdktest.NewPod(t, request, sdktest.Skeleton(request), nil)
}

func (c class) undo(t *testing.T) sdktest.Pod {
	return sdktest.NewPod(t, sdktest.Delete(c.properties), nil, nil)
}

func TestProvision(t *testing.T) {
	// A slash at the end of the export is no second one in the path.
	for _, exported := range []string{export, export + "/"} {
		c := newClass(t, map[string]string{"export": exported})
		// The second one is an attempt after one whose end was lost.
		for _, want := range []string{"created", "exists already"} {
			sdktest.RunScript(t, script, c.provision(t), 0).Expect(t, 0, "persistentvolume/"+c.name+" "+want)
		}
		c.check(t)
	}
}

// TestSharedExport: a provisioner of any user can make its marks beside those of another class.
func TestSharedExport(t *testing.T) {
	c := newClass(t, nil)
	sdktest.RunScript(t, script, c.provision(t), 0).Expect(t, 0, "created")
	info, err := os.Stat(filepath.Dir(c.mark()))
	if err != nil {
		t.Fatal(err)
	}
	if want := os.ModeDir | os.ModeSticky | 0o777; info.Mode() != want {
		t.Errorf("the directory of the marks has mode %v, want %v", info.Mode(), want)
	}
}

func TestProvisionAtOnce(t *testing.T) {
	c := newClass(t, nil)
	var group sync.WaitGroup
	for range 4 {
		pod := c.provision(t)
		group.Go(func() { sdktest.RunScript(t, script, pod, 0).Expect(t, 0, "persistentvolume/"+c.name) })
	}
	group.Wait()
	c.check(t)
}

// Killed before and after every command, the provisioner gets there the next time, or is undone without a trace.
func TestProvisionKilled(t *testing.T) {
	for at, ended := 1, false; !ended; at++ {
		c := newClass(t, nil)
		ended = sdktest.RunScript(t, script, c.provision(t), at).Code != sdktest.Killed
		if ended && at < 8 {
			t.Fatalf("the script has only %d points", at-1)
		}
		sdktest.RunScript(t, script, c.provision(t), 0).Expect(t, 0, "persistentvolume/"+c.name)
		c.check(t)

		c = newClass(t, nil)
		sdktest.RunScript(t, script, c.provision(t), at)
		sdktest.RunScript(t, script, c.undo(t), 0).Expect(t, 0, "")
		c.checkGone(t)
	}
}

// There is nothing to make larger, but it has to be there.
func TestExpand(t *testing.T) {
	c := newClass(t, nil)
	sdktest.RunScript(t, script, c.expand(t), 0).Expect(t, 1,
		export+"/"+c.name+" is not on "+server+"; is the export mounted at "+c.mount+"?")
	c.fill(t)
	for range 2 {
		sdktest.RunScript(t, script, c.expand(t), 0).Expect(t, 0, "")
	}
	c.check(t)
}

func TestDelete(t *testing.T) {
	c := newClass(t, nil)
	c.fill(t)
	other := filepath.Join(c.mount, "pvc-00000000-0000-4000-8000-000000000000", "file")
	writeFile(t, other)
	for range 2 {
		sdktest.RunScript(t, script, c.delete(t), 0).Expect(t, 0, "")
		c.checkGone(t)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("the delete went too far: %v", err)
	}
	if _, err := os.Stat(c.archived()); !os.IsNotExist(err) {
		t.Errorf("archive: %v, want none", err)
	}
}

func TestDeleteArchives(t *testing.T) {
	c := newClass(t, archive)
	c.fill(t)
	for range 2 {
		sdktest.RunScript(t, script, c.delete(t), 0).Expect(t, 0, "")
		c.checkGone(t)
		c.checkArchived(t)
	}
}

// What an earlier archive holds is never overwritten or mixed up with.
func TestDeleteArchiveInTheWay(t *testing.T) {
	c := newClass(t, archive)
	c.fill(t)
	writeFile(t, filepath.Join(c.archived(), "older"))
	pod := c.delete(t)
	if got := sdktest.RunScript(t, script, pod, 0); got.Code != 1 {
		t.Errorf("exit code %d, want 1:\n%s", got.Code, got.Output)
	}
	if want := export + "/archived-" + c.name + " on " + server + " is in the way; rename it"; pod.Message(t) != want {
		t.Errorf("message %q, want %q", pod.Message(t), want)
	}
	for _, file := range []string{filepath.Join(c.archived(), "older"), filepath.Join(c.dir(), "a", "b", "file")} {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
}

func TestDeleteAtOnce(t *testing.T) {
	for _, more := range []map[string]string{nil, archive} {
		c := newClass(t, more)
		c.fill(t)
		var group sync.WaitGroup
		for range 4 {
			pod := c.delete(t)
			// One of them may stumble over what another just removed: it is tried again.
			group.Go(func() { sdktest.RunScript(t, script, pod, 0) })
		}
		group.Wait()
		sdktest.RunScript(t, script, c.delete(t), 0).Expect(t, 0, "")
		c.checkGone(t)
		if more != nil {
			c.checkArchived(t)
		}
	}
}

// An rm fails when another one removed the directory first. What is gone is gone.
func TestDeleteAfterAnother(t *testing.T) {
	c := newClass(t, nil)
	c.fill(t)
	sdktest.RunScript(t, "../testdata/delete-after-another.sh", c.delete(t), 0).Expect(t, 0, "can't remove")
	c.checkGone(t)
}

func TestDeleteKilled(t *testing.T) {
	for _, more := range []map[string]string{nil, archive} {
		for at, ended := 1, false; !ended; at++ {
			c := newClass(t, more)
			c.fill(t)
			ended = sdktest.RunScript(t, script, c.delete(t), at).Code != sdktest.Killed
			if ended && at < 6 {
				t.Fatalf("the script has only %d points", at-1)
			}
			sdktest.RunScript(t, script, c.delete(t), 0).Expect(t, 0, "")
			c.checkGone(t)
			if more != nil {
				c.checkArchived(t)
			}
		}
	}
}

func TestUndoOfNothing(t *testing.T) {
	c := newClass(t, archive)
	sdktest.RunScript(t, script, c.undo(t), 0).Expect(t, 0, "")
	c.checkGone(t)
}

// A directory without a mark is somebody else's. Nothing of it is touched.
func TestForeignDirectory(t *testing.T) {
	for _, more := range []map[string]string{nil, archive} {
		c := newClass(t, more)
		file := filepath.Join(c.dir(), "file")
		writeFile(t, file)
		if err := os.MkdirAll(filepath.Dir(c.mark()), 0o755); err != nil {
			t.Fatal(err)
		}
		remote := export + "/" + c.name + " on " + server
		for _, call := range []struct {
			name string
			pod  sdktest.Pod
			code int
			text string
		}{
			{"provision", c.provision(t), 1, remote + " is not ours; move it out of the way"},
			{"delete", c.delete(t), 1, remote + " has no mark, so it is not removed; remove it by hand"},
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
	}
}

// "Unreachable" is not "gone".
func TestUnreachable(t *testing.T) {
	c := newClass(t, nil)
	sdktest.RunScript(t, script, c.delete(t), 0).Expect(t, 75,
		filepath.Dir(c.mark())+" is not there; is the export "+export+" of "+server+" mounted at "+c.mount+"?")
	if err := os.Remove(c.mount); err != nil {
		t.Fatal(err)
	}
	for _, pod := range []sdktest.Pod{c.delete(t), c.undo(t)} {
		sdktest.RunScript(t, script, pod, 0).Expect(t, 75, "the export is not mounted at "+c.mount)
	}
	sdktest.RunScript(t, script, c.provision(t), 0).Expect(t, 64,
		"the export is not mounted at "+c.mount+`; key "mount-claims" does that`)
}

func TestBadInput(t *testing.T) {
	for _, c := range []struct {
		server, export, archive, volume, text string
	}{
		{"", "/e", "", "", `property "server" is missing: name the NFS server`},
		{"10.0.0.1", "", "", "", `property "export" is missing: name the directory that the server exports`},
		{`a", path: "/`, "/e", "", "", `property "server" is "a", path: "/": write a host name or an address`},
		{"10.0.0.1", "e", "", "", `property "export" is "e": write an absolute path of letters, digits, '.', '_' and '-'`},
		{"10.0.0.1", "/e\n", "", "", `write an absolute path of letters, digits, '.', '_' and '-'`},
		{"10.0.0.1", "/e", "yes", "", `property "archive-on-delete" is "yes": write "true" or "false"`},
		{"10.0.0.1", "/e", "", "../etc", `"../etc" is no name of a volume, pvc-UID`},
	} {
		properties := map[string]string{"server": c.server, "export": c.export, "archive-on-delete": c.archive}
		request := sdktest.Provision(properties)
		if c.volume != "" {
			request.VolumeName = c.volume
		}
		pod := sdktest.NewPod(t, request, sdktest.Skeleton(request), nil)
		sdktest.RunScript(t, script, pod, 0).Expect(t, 64, c.text)
	}
}

// Addresses of either kind, and names, are taken.
func TestServers(t *testing.T) {
	for _, address := range []string{"10.0.0.1", "fd00::1", "[fd00::1]", "nfs-1.example.com"} {
		c := newClass(t, map[string]string{"server": address})
		sdktest.RunScript(t, script, c.provision(t), 0).Expect(t, 0, "created")
		var volume corev1.PersistentVolume
		if err := json.Unmarshal(c.api.Volume(c.name), &volume); err != nil {
			t.Fatal(err)
		}
		if got := volume.Spec.NFS.Server; got != address {
			t.Errorf("server %q, want %q", got, address)
		}
	}
}

// A pod of the class has another export mounted than the class's properties say. Nothing is made or removed there, and both are named.
func TestOtherExportMounted(t *testing.T) {
	mounted := func(c class, request contract.Request, source string) sdktest.Pod {
		request.Mounts = []contract.Mount{{Claim: "exports", Source: source, Path: c.mount}}
		var volume *corev1.PersistentVolume
		if request.Operation != contract.Delete {
			volume = sdktest.Skeleton(request)
		}
		return sdktest.NewPod(t, request, volume, c.api)
	}
	const other, same = "nfs://" + server + "/srv/e2", "nfs://" + server + export
	for _, row := range []struct {
		name, source, property string
		code                   int // of the provision
	}{
		{"the same", same, "", 0},
		{"another one", other, "", 64},
		{"the same by another name", "nfs://nas" + export, "", 64},
		{"the same by another name that the class knows", "nfs://nas" + export, "nfs://nas" + export, 0},
		{"what is no nfs", "csi:nfs.csi.k8s.io/x", "", 0},
		{"what is not known", "", "", 0},
	} {
		c := newClass(t, nil)
		if row.property != "" {
			c.properties["mounted-export"] = row.property
		}
		want := ""
		if row.code != 0 {
			want = "claim exports, mounted at " + c.mount + ", is the export " + row.source + ", but the class names " + same + ": let mount-claims mount that one; if both are the same, write them alike"
		}
		pod := mounted(c, sdktest.Provision(c.properties), row.source)
		got := sdktest.RunScript(t, script, pod, 0)
		if got.Code != row.code || pod.Message(t) != want {
			t.Errorf("%s: provision ends with %d, saying %q\n%s", row.name, got.Code, pod.Message(t), got.Output)
		}
		if files, _ := os.ReadDir(c.mount); row.code != 0 && len(files) > 0 {
			t.Errorf("%s: it made %v", row.name, files)
		}
		pod = mounted(c, sdktest.Delete(c.properties), row.source)
		if got := sdktest.RunScript(t, script, pod, 0); (got.Code == 0) != (row.code == 0) || pod.Message(t) != want {
			t.Errorf("%s: delete ends with %d, saying %q", row.name, got.Code, pod.Message(t))
		}
	}
}

// The class's properties and mounts are those of the volume, but what is mounted there is another export, which has marks of its own.
func TestOtherExportInItsPlace(t *testing.T) {
	c := newClass(t, nil)
	provision := c.provision(t)
	sdktest.RunScript(t, script, provision, 0).Expect(t, 0, "created")
	file := filepath.Join(c.dir(), "file")
	writeFile(t, file)
	here := provision.Location(t)
	var volume corev1.PersistentVolume
	if err := json.Unmarshal(c.api.Volume(c.name), &volume); err != nil {
		t.Fatal(err)
	}
	if got := volume.Annotations[contract.AnnLocation]; got != here || len(here) != 32 {
		t.Errorf("the volume says that it is in %q, the pod said %q", got, here)
	}
	other := newClass(t, nil)
	first := sdktest.Provision(other.properties)
	first.VolumeName, first.Claim.UID = "pvc-00000000-0000-4000-8000-000000000000", "00000000-0000-4000-8000-000000000000"
	pod := sdktest.NewPod(t, first, sdktest.Skeleton(first), other.api)
	sdktest.RunScript(t, script, pod, 0).Expect(t, 0, "created")
	there := pod.Location(t)
	for name, row := range map[string]struct {
		request contract.Request
		volume  *corev1.PersistentVolume
	}{
		"delete":    {sdktest.Delete(c.properties), &volume},
		"undo":      {sdktest.Delete(c.properties), nil},
		"expand":    {sdktest.Expand(c.properties), &volume},
		"provision": {sdktest.Provision(c.properties), sdktest.Skeleton(sdktest.Provision(c.properties))},
	} {
		row.request.Location = here
		row.request.Properties = maps.Clone(c.properties)
		row.request.Properties["mount"] = other.mount
		pod := sdktest.NewPod(t, row.request, row.volume, c.api)
		got := sdktest.RunScript(t, script, pod, 0)
		named := strings.Contains(pod.Message(t), here) && strings.Contains(pod.Message(t), there)
		if got.Code != 1 || !named && name != "expand" {
			t.Errorf("%s in the other export ends with %d, saying %q", name, got.Code, pod.Message(t))
		}
		if files, _ := os.ReadDir(filepath.Join(other.mount, ".flex-provisioner")); len(files) != 1 {
			t.Errorf("%s: the other export has the marks %v", name, files)
		}
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	request := sdktest.Delete(c.properties)
	request.Location = here
	sdktest.RunScript(t, script, sdktest.NewPod(t, request, &volume, nil), 0).Expect(t, 0, "")
	c.checkGone(t)
}

// Provisions that meet a fresh export at once agree on its ID.
func TestFreshExportAtOnce(t *testing.T) {
	c := newClass(t, nil)
	pods := make([]sdktest.Pod, 4)
	var group sync.WaitGroup
	for i := range pods {
		request := sdktest.Provision(c.properties)
		request.VolumeName = fmt.Sprintf("pvc-00000000-0000-4000-8000-00000000000%d", i)
		request.Claim.UID = strings.TrimPrefix(request.VolumeName, "pvc-")
		pods[i] = sdktest.NewPod(t, request, sdktest.Skeleton(request), c.api)
		group.Go(func() { sdktest.RunScript(t, script, pods[i], 0).Expect(t, 0, "created") })
	}
	group.Wait()
	for _, pod := range pods {
		if got, want := pod.Location(t), pods[0].Location(t); got != want || got == "" {
			t.Errorf("one says that it is in %q, another one in %q", got, want)
		}
	}
}

// An export of before has marks and no ID. Its volumes are deleted as before, and the next provision gives it one.
func TestExportOfBefore(t *testing.T) {
	c := newClass(t, nil)
	c.fill(t)
	id := filepath.Join(c.mount, ".flex-provisioner.id")
	if err := os.Remove(id); err != nil {
		t.Fatal(err)
	}
	sdktest.RunScript(t, script, c.expand(t), 0).Expect(t, 0, "")
	sdktest.RunScript(t, script, c.delete(t), 0).Expect(t, 0, "")
	c.checkGone(t)
	if _, err := os.Stat(id); !os.IsNotExist(err) {
		t.Errorf("a delete made an ID: %v", err)
	}
	sdktest.RunScript(t, script, c.provision(t), 0).Expect(t, 0, "exists already")
	if _, err := os.Stat(id); err != nil {
		t.Error(err)
	}
}

// fill makes the volume and puts files into it.
func (c class) fill(t *testing.T) {
	t.Helper()
	sdktest.RunScript(t, script, c.provision(t), 0).Expect(t, 0, "created")
	writeFile(t, filepath.Join(c.dir(), "a", "b", "file"))
}

// check is that the directory and the volume are there and fit.
func (c class) check(t *testing.T) {
	t.Helper()
	info, err := os.Stat(c.dir())
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o777 {
		t.Errorf("mode of the directory is %v, want 0777", got)
	}
	var volume corev1.PersistentVolume
	if err := json.Unmarshal(c.api.Volume(c.name), &volume); err != nil {
		t.Fatal(err)
	}
	want := corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: server, Path: export + "/" + c.name}}
	if !reflect.DeepEqual(volume.Spec.PersistentVolumeSource, want) {
		t.Errorf("volume source %v, want %v", volume.Spec.PersistentVolumeSource, want)
	}
	if volume.Spec.NodeAffinity != nil {
		t.Errorf("node affinity %v, want none", volume.Spec.NodeAffinity)
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

func (c class) checkArchived(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(c.archived(), "a", "b", "file"))
	if err != nil || string(data) != "data" {
		t.Errorf("archived file: %q, %v", data, err)
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
