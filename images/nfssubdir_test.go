package images

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

// TestSharedExport: a provisioner of any user can make its marks beside those of another class.
func TestSharedExport(t *testing.T) {
	c := newNFS(t, nil)
	c.run(t, c.provision(t), 0).Expect(t, 0, "created")
	info, err := os.Stat(filepath.Dir(c.mark()))
	if err != nil {
		t.Fatal(err)
	}
	if want := os.ModeDir | os.ModeSticky | 0o777; info.Mode() != want {
		t.Errorf("the directory of the marks has mode %v, want %v", info.Mode(), want)
	}
}

// What an earlier archive holds is never overwritten or mixed up with.
func TestDeleteArchiveInTheWay(t *testing.T) {
	c := newNFS(t, archive)
	c.fill(t)
	writeFile(t, filepath.Join(c.archived(), "older"))
	pod := c.delete(t)
	if got := c.run(t, pod, 0); got.Code != 1 {
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

// "Unreachable" is not "gone".
func TestNFSUnreachable(t *testing.T) {
	c := newNFS(t, nil)
	c.run(t, c.delete(t), 0).Expect(t, 75,
		filepath.Dir(c.mark())+" is not there; is the export "+export+" of "+server+" mounted at "+c.mount+"?")
	if err := os.Remove(c.mount); err != nil {
		t.Fatal(err)
	}
	for _, pod := range []sdktest.Pod{c.delete(t), c.undo(t)} {
		c.run(t, pod, 0).Expect(t, 75, "the export is not mounted at "+c.mount)
	}
	c.run(t, c.provision(t), 0).Expect(t, 64,
		"the export is not mounted at "+c.mount+`; key "mount-claims" does that`)
}

// Addresses of either kind, and names, are taken.
func TestServers(t *testing.T) {
	for _, address := range []string{"10.0.0.1", "fd00::1", "[fd00::1]", "nfs-1.example.com"} {
		c := newNFS(t, map[string]string{"server": address})
		c.run(t, c.provision(t), 0).Expect(t, 0, "created")
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
		c := newNFS(t, nil)
		if row.property != "" {
			c.properties["mounted-export"] = row.property
		}
		want := ""
		if row.code != 0 {
			want = "claim exports, mounted at " + c.mount + ", is the export " + row.source + ", but the class names " + same + ": let mount-claims mount that one; if both are the same, write them alike"
		}
		pod := mounted(c, sdktest.Provision(c.properties), row.source)
		got := c.run(t, pod, 0)
		if got.Code != row.code || pod.Message(t) != want {
			t.Errorf("%s: provision ends with %d, saying %q\n%s", row.name, got.Code, pod.Message(t), got.Output)
		}
		if files, _ := os.ReadDir(c.mount); row.code != 0 && len(files) > 0 {
			t.Errorf("%s: it made %v", row.name, files)
		}
		pod = mounted(c, sdktest.Delete(c.properties), row.source)
		if got := c.run(t, pod, 0); (got.Code == 0) != (row.code == 0) || pod.Message(t) != want {
			t.Errorf("%s: delete ends with %d, saying %q", row.name, got.Code, pod.Message(t))
		}
	}
}

// The class's properties and mounts are those of the volume, but what is mounted there is another export, which has marks of its own.
func TestOtherExportInItsPlace(t *testing.T) {
	c := newNFS(t, nil)
	provision := c.provision(t)
	c.run(t, provision, 0).Expect(t, 0, "created")
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
	other := newNFS(t, nil)
	first := sdktest.Provision(other.properties)
	first.VolumeName, first.Claim.UID = another, another[4:]
	pod := sdktest.NewPod(t, first, sdktest.Skeleton(first), other.api)
	c.run(t, pod, 0).Expect(t, 0, "created")
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
		got := c.run(t, pod, 0)
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
	c.run(t, sdktest.NewPod(t, request, &volume, nil), 0).Expect(t, 0, "")
	c.checkGone(t)
}

// Provisions that meet a fresh export at once agree on its ID.
func TestFreshExportAtOnce(t *testing.T) {
	c := newNFS(t, nil)
	pods := make([]sdktest.Pod, 4)
	var group sync.WaitGroup
	for i := range pods {
		request := sdktest.Provision(c.properties)
		request.VolumeName = fmt.Sprintf("pvc-00000000-0000-4000-8000-00000000000%d", i)
		request.Claim.UID = strings.TrimPrefix(request.VolumeName, "pvc-")
		pods[i] = sdktest.NewPod(t, request, sdktest.Skeleton(request), c.api)
		group.Go(func() { c.run(t, pods[i], 0).Expect(t, 0, "created") })
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
	c := newNFS(t, nil)
	c.fill(t)
	id := filepath.Join(c.mount, ".flex-provisioner.id")
	if err := os.Remove(id); err != nil {
		t.Fatal(err)
	}
	c.run(t, c.expand(t), 0).Expect(t, 0, "")
	c.run(t, c.delete(t), 0).Expect(t, 0, "")
	c.checkGone(t)
	if _, err := os.Stat(id); !os.IsNotExist(err) {
		t.Errorf("a delete made an ID: %v", err)
	}
	c.run(t, c.provision(t), 0).Expect(t, 0, "exists already")
	if _, err := os.Stat(id); err != nil {
		t.Error(err)
	}
}

// A slash at the end of the export is no second one in the path, nor is the export of a server that has one alone.
func TestExportWithSlash(t *testing.T) {
	for export, path := range map[string]string{export + "/": export + "/", "/": "/"} {
		c := newNFS(t, map[string]string{"export": export})
		request := sdktest.Provision(c.properties)
		request.Mounts = []contract.Mount{{Claim: "exports", Source: contract.NFSSource(server, export), Path: c.mount}}
		c.run(t, sdktest.NewPod(t, request, sdktest.Skeleton(request), c.api), 0).Expect(t, 0, "created")
		var volume corev1.PersistentVolume
		if err := json.Unmarshal(c.api.Volume(c.name), &volume); err != nil {
			t.Fatal(err)
		}
		if got := volume.Spec.NFS.Path; got != path+c.name {
			t.Errorf("export %s: the volume is %s, want %s", export, got, path+c.name)
		}
		c.run(t, c.delete(t), 0).Expect(t, 0, "")
		c.checkGone(t)
	}
}
