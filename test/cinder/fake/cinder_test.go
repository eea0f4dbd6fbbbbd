package fake_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// create makes a volume and returns the statuses that the next shows see, until one comes twice or the volume is gone.
func create(t *testing.T, f *fake.Cinder) (id string, seen []string) {
	t.Helper()
	status, answer, err := call(t.Context(), f, "POST", "/volumes", `{"volume": {"size": 1, "name": "v"}}`)
	if err != nil || status != 202 {
		t.Fatalf("create: %d %s %v", status, answer, err)
	}
	id = f.Volume("v").ID
	return id, watch(t, f, id)
}

func watch(t *testing.T, f *fake.Cinder, id string) (seen []string) {
	t.Helper()
	for {
		code, answer, err := call(t.Context(), f, "GET", "/volumes/"+id, "")
		if err != nil {
			t.Fatal(err)
		}
		if code == 404 {
			return append(seen, "gone")
		}
		_, rest, _ := strings.Cut(answer, `"status":"`)
		status, _, _ := strings.Cut(rest, `"`)
		if slices.Contains(seen, status) && status != "creating" && status != "deleting" {
			return seen
		}
		seen = append(seen, status)
	}
}

func TestPace(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(*fake.Cinder)
		created []string
		deleted []string
	}{
		{"as it comes", func(*fake.Cinder) {}, []string{"creating", "available"}, []string{"deleting", "gone"}},
		{"at once", func(f *fake.Cinder) { f.SetPace(fake.Reads(0)) }, []string{"available"}, []string{"gone"}},
		{"slow", func(f *fake.Cinder) { f.SetPace(fake.Reads(3)) }, []string{"creating", "creating", "creating", "available"}, []string{"deleting", "deleting", "deleting", "gone"}},
		{"no host", func(f *fake.Cinder) { f.FailCreate("") }, []string{"creating", "error"}, []string{"gone"}},
		{"broken backend", func(f *fake.Cinder) { f.FailCreate("no") }, []string{"creating", "error"}, []string{"deleting", "gone"}},
		{"stuck", func(f *fake.Cinder) { f.FailDelete() }, []string{"creating", "available"}, []string{"deleting", "error_deleting"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := fake.New(t)
			c.prepare(f)
			id, created := create(t, f)
			if !reflect.DeepEqual(created, c.created) {
				t.Errorf("created: %q, want %q", created, c.created)
			}
			if status, answer, err := call(t.Context(), f, "DELETE", "/volumes/"+id, ""); err != nil || status != 202 {
				t.Fatalf("delete: %d %s %v", status, answer, err)
			}
			if deleted := watch(t, f, id); !reflect.DeepEqual(deleted, c.deleted) {
				t.Errorf("deleted: %q, want %q", deleted, c.deleted)
			}
		})
	}
}

func TestPaceByTime(t *testing.T) {
	f := fake.New(t, fake.WithPace(fake.After(20*time.Millisecond)))
	began := time.Now()
	_, seen := create(t, f)
	if seen[len(seen)-1] != "available" || time.Since(began) < 20*time.Millisecond {
		t.Errorf("%q after %s, want available after 20 ms", seen, time.Since(began))
	}
}

// Every connection is given out, and those that need more of the connector refuse one that has not.
func TestConnections(t *testing.T) {
	const plain = `"host": "n", "initiator": "iqn.2026-01.io.flex-provisioner:n"`
	for _, c := range []struct {
		name      string
		give      fake.Connection
		connector string
		status    int
		contains  string
	}{
		{"iscsi", fake.ISCSI(), plain, 200, `"target_lun":1`},
		{"iscsi without initiator", fake.ISCSI(), `"host": "n"`, 400, "Connector doesn't have required information: initiator"},
		{"multipath", fake.ISCSIMultipath("10.0.0.1:3260", "10.0.0.2:3260"), plain + `, "multipath": true`, 200, `"target_portals":["10.0.0.1:3260","10.0.0.2:3260"]`},
		{"multipath not asked for", fake.ISCSIMultipath("10.0.0.1:3260", "10.0.0.2:3260"), plain, 200, `"target_portal":"10.0.0.1:3260"`},
		{"plural only", fake.ISCSIPluralOnly("iqn.2026-01.x:y", 3, "10.0.0.1:3260"), plain, 200, `"target_luns":[3]`},
		{"shared", fake.ISCSIShared("iqn.2026-01.x:array"), plain, 200, `"target_iqn":"iqn.2026-01.x:array"`},
		{"discovery", fake.ISCSIDiscoveryCHAP("u", "p"), plain, 200, `"discovery_auth_password":"p"`},
		{"fc", fake.FibreChannel(), `"wwpns": ["1000"], "wwnns": ["2000"]`, 200, `"initiator_target_map":{"1000":[`},
		{"fc without hba", fake.FibreChannel(), plain, 400, "Connector doesn't have required information: wwpns, wwnns"},
		{"rbd", fake.RBD(), plain, 200, `"driver_volume_type":"rbd"`},
		{"nvme", fake.NVMeOF(), `"nqn": "nqn.x"`, 200, `"target_port":4420`},
		{"nvme 2", fake.NVMeOF2(), `"nqn": "nqn.x"`, 200, `"portals":[["127.0.0.1",4420,"tcp"]`},
		{"nfs", fake.NFS(), plain, 200, `"mount_point_base":"/var/lib/cinder/mnt"`},
		{"encrypted", fake.Encrypted(), plain, 200, `"encrypted":true`},
		{"raw", fake.Raw("vmdk", map[string]any{"volume": "vm-1"}).With("profile_id", 7).As("VMDK"), plain, 200, `"profile_id":7`},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := fake.New(t, fake.WithConnection(c.give))
			id := f.AddVolume(fake.Volume{}).ID
			status, answer, err := call(t.Context(), f, "POST", "/volumes/"+id+"/action", `{"os-initialize_connection": {"connector": {`+c.connector+`}}}`)
			if err != nil || status != c.status || !strings.Contains(answer, c.contains) {
				t.Errorf("%d %s %v, want %d with %s", status, answer, err, c.status, c.contains)
			}
			if got, want := len(f.State().Exports), 1; (got == want) != (c.status == 200) {
				t.Errorf("%d exports", got)
			}
		})
	}
}

func TestBeforeYoga(t *testing.T) {
	for _, c := range []struct {
		name   string
		f      *fake.Cinder
		path   string
		status int
	}{
		{"today, a name", fake.New(t), "/kubernetes/volumes", 404},
		{"today, an id", fake.New(t), "/" + fake.NoauthProject + "/volumes", 200},
		{"today, none", fake.New(t), "/volumes", 200},
		{"today, another's", fake.New(t), "/22222222222222222222222222222222/volumes", 400},
		{"before, another's", fake.New(t, fake.BeforeYoga()), "/kubernetes/volumes", 400},
		{"before, none", fake.New(t, fake.BeforeYoga()), "/volumes", 404},
	} {
		if status, answer, err := call(t.Context(), c.f, "GET", c.path, ""); err != nil || status != c.status {
			t.Errorf("%s: %d %s %v, want %d", c.name, status, answer, err, c.status)
		}
	}
}

// A reader may look but not touch, and a member sees nothing of other projects.
func TestRoles(t *testing.T) {
	f := fake.New(t, fake.WithKeystone(
		fake.Identity{User: "reader", Password: "reader-password", Project: "one", Roles: []string{"reader"}},
		fake.Identity{User: "member", Password: "member-password", Project: "two"},
	))
	mine := f.AddVolume(fake.Volume{Name: "mine"}).ID
	other := f.AddVolume(fake.Volume{Name: "other", Project: f.Identities()[1].ProjectID}).ID
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/volumes/" + mine, "", 200},
		{"GET", "/volumes/" + other, "", 404},
		{"POST", "/volumes/" + mine + "/action", reserve, 403},
		{"DELETE", "/volumes/" + mine, "", 403},
	} {
		status, answer := withToken(t, f, f.Token(), c.method, c.path, c.body)
		if status != c.status {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, status, answer, c.status)
		}
	}
	token := f.Token()
	f.RevokeTokens()
	if status, answer := withToken(t, f, token, "GET", "/volumes", ""); status != 401 {
		t.Errorf("with a revoked token: %d %s, want 401", status, answer)
	}
}
