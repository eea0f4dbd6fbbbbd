package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/utils/exec"

	"github.com/flex-provisioner/flex-provisioner/cmd/flex-node/driver"
)

const (
	target   = "iqn.2010-10.org.openstack:volume-1"
	password = "not-to-be-seen"
)

var path = driver.Path{Portal: netip.MustParseAddrPort("10.0.0.5:3260"), Target: target, LUN: 1}

// programs are those of the host, which end as they are told.
type programs struct {
	exec.Interface

	ran  []string
	exit map[string]int
}

type program struct {
	exec.Cmd

	of   *programs
	line string
}

func (p *programs) Command(name string, args ...string) exec.Cmd {
	return &program{of: p, line: strings.Join(append([]string{name}, args...), " ")}
}

func (p *program) SetEnv([]string) {}

func (p *program) CombinedOutput() ([]byte, error) {
	line := strings.TrimPrefix(p.line, "nsenter --target 1 --mount --net --ipc -- ")
	p.of.ran = append(p.of.ran, line)
	for end, code := range p.of.exit {
		if strings.HasSuffix(line, end) {
			return []byte("it\nfailed\n"), exec.CodeExitError{Err: fmt.Errorf("exit status %d", code), Code: code}
		}
	}

	return nil, nil
}

// newHost has files, each of them by its path below the host's root or sys.
func newHost(t *testing.T, files map[string]string) (*Host, *programs) {
	t.Helper()
	dir, run := t.TempDir(), &programs{exit: map[string]int{}}
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}

	return &Host{exec: run, root: dir, sys: dir + "/sys", records: dir + "/kubelet/volumes"}, run
}

func write(t *testing.T, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}

	if err != nil {
		t.Fatal(err)
	}
}

// sysfs is that of two sessions, one of which has two disks, and a map of one of them.
func sysfs() map[string]string {
	files := map[string]string{
		"sys/class/iscsi_session/session7/targetname": target + "\n", "sys/class/iscsi_session/session7/state": "LOGGED_IN\n",
		"sys/class/iscsi_connection/connection7:0/persistent_address": "10.0.0.5\n",
		"sys/class/iscsi_connection/connection7:0/persistent_port":    "3260\n",
		"sys/class/iscsi_session/session8/targetname":                 target + "\n", "sys/class/iscsi_session/session8/state": "FAILED\n",
		"sys/class/iscsi_connection/connection8:0/persistent_address": "2001:db8::5\n",
		"sys/class/iscsi_connection/connection8:0/persistent_port":    "3260\n",
		"sys/class/scsi_host/host3/scan":                              "", "sys/block/dm-0/dm/uuid": "mpath-36001405\n", "sys/block/dm-0/dm/name": "mpatha\n",
		"sys/block/dm-0/dev": "253:0\n", "sys/block/dm-0/size": "2097152\n",
	}
	for lun, name := range map[string]string{"1": "sda", "12": "sdb"} {
		device := "sys/devices/host3/session7/target3:0:0/3:0:0:" + lun
		files[device+"/wwid"] = "naa.600140500000000000000000000000" + lun + "\n"
		files[device+"/block/"+name+"/x"] = ""
		files["sys/class/scsi_device/3:0:0:"+lun+"/device/rescan"] = ""
		files["sys/class/scsi_device/3:0:0:"+lun+"/device/delete"] = ""
		files["sys/block/"+name+"/dev"] = "8:0\n"
		files["sys/block/"+name+"/size"] = "2097152\n"
	}
	files["sys/block/sda/holders/dm-0"] = ""

	return files
}

func newSysfs(t *testing.T) (*Host, *programs) {
	t.Helper()
	h, run := newHost(t, sysfs())
	if err := os.Symlink(h.sys+"/devices/host3/session7", h.sys+"/class/iscsi_session/session7/device"); err != nil {
		t.Fatal(err)
	}

	return h, run
}

// The disk of a path is that of its LUN, in a session with its target and portal.
func TestLink(t *testing.T) {
	h, _ := newSysfs(t)
	disk := driver.Disk{Device: driver.Device{Path: "/dev/sda", Number: unix.Mkdev(8, 0), Size: 1 << 30},
		WWID: "naa.6001405000000000000000000000001", Map: driver.Device{Path: "/dev/dm-0", Number: unix.Mkdev(253, 0), Size: 1 << 30}}
	of := func(change func(*driver.Path)) driver.Path {
		p := path
		change(&p)

		return p
	}
	for name, c := range map[string]struct {
		of   driver.Path
		want driver.Link
	}{
		"a disk":         {path, driver.Link{Session: "7", Others: true, Address: "3:0:0:1", Disk: disk}},
		"another LUN":    {of(func(p *driver.Path) { p.LUN = 2 }), driver.Link{Session: "7", Others: true}},
		"another target": {of(func(p *driver.Path) { p.Target += "2" }), driver.Link{}},
		"another port":   {of(func(p *driver.Path) { p.Portal = netip.MustParseAddrPort("10.0.0.5:3261") }), driver.Link{}},
		"another portal": {of(func(p *driver.Path) { p.Portal = netip.MustParseAddrPort("10.0.0.6:3260") }), driver.Link{}},
		"IPv6":           {of(func(p *driver.Path) { p.Portal = netip.MustParseAddrPort("[2001:db8::5]:3260") }), driver.Link{Session: "8"}},
	} {
		if got, err := h.Link(c.of); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}

	empty, _ := newHost(t, nil)
	if got, err := empty.Link(path); err != nil || got != (driver.Link{}) {
		t.Errorf("without iSCSI: %+v, %v", got, err)
	}
}

// The kernel is told of the LUN alone.
func TestOrders(t *testing.T) {
	h, _ := newSysfs(t)
	if err := errors.Join(h.Scan(context.Background(), path), h.Rescan("3:0:0:1"), h.Drop(driver.Link{Address: "3:0:0:12"})); err != nil {
		t.Fatal(err)
	}

	for name, want := range map[string]string{"scsi_host/host3/scan": "0 0 1", "scsi_device/3:0:0:1/device/rescan": "1",
		"scsi_device/3:0:0:1/device/delete": "", "scsi_device/3:0:0:12/device/delete": "1"} {
		if got := attribute(h.sys, "class", name); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}

	failed := path
	failed.Portal = netip.MustParseAddrPort("[2001:db8::5]:3260")
	err := h.Scan(context.Background(), failed)
	if want := `its session is "FAILED", and not LOGGED_IN`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}

	ended, cancel := context.WithCancel(context.Background())
	cancel()
	missing := path
	missing.LUN = 2
	err = h.Scan(ended, missing)
	if want := "no disk appears: has the array given the LUN to this node"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestLogin(t *testing.T) {
	const node, file = "iscsiadm -m node -T " + target + " -p 10.0.0.5:3260 ", "nodes/" + target + "/10.0.0.5,3260"
	settings := "node.name = " + target + "\nnode.session.auth.username = old\n# END RECORD\n"
	want := func(method string) []string {
		return []string{node + "-I default -o new", node + "-I default -o update -n node.startup -v manual",
			node + "-I default -o update -n node.session.scan -v manual",
			node + "-I default -o update -n node.session.initial_login_retry_max -v 1",
			node + "-I default -o update -n node.session.auth.authmethod -v " + method, node + "-I default --login"}
	}
	chap := driver.CHAP{Username: "node-1", Password: password}
	for name, c := range map[string]struct {
		chap    driver.CHAP
		files   map[string]string
		exit    int
		want    []string
		changed string
		fault   string
	}{
		"alone":       {driver.CHAP{}, nil, 0, want("None"), "", "<nil>"},
		"is there":    {driver.CHAP{}, nil, sessionExists, want("None"), "", "<nil>"},
		"a file":      {chap, map[string]string{"etc/iscsi/" + file: settings}, 0, want("CHAP"), "etc/iscsi/" + file, "<nil>"},
		"a directory": {chap, map[string]string{"var/lib/iscsi/" + file + ",1/default": settings}, 0, want("CHAP"), "var/lib/iscsi/" + file + ",1/default", "<nil>"},
		"refused": {chap, map[string]string{"etc/iscsi/" + file: settings}, 24, want("CHAP"), "etc/iscsi/" + file,
			node + "-I default --login: exit status 24: it failed"},
		"another record": {chap, map[string]string{"etc/iscsi/" + file + "1": settings}, 0, want("CHAP")[:5], "",
			"rpc error: code = FailedPrecondition desc = iscsiadm has its records neither in /etc/iscsi nor in /var/lib/iscsi of the host: CHAP cannot be set"},
	} {
		h, run := newHost(t, c.files)
		run.exit["--login"] = c.exit
		if c.exit == 0 {
			delete(run.exit, "--login")
		}

		if err := h.Login(path, c.chap); fmt.Sprint(err) != c.fault {
			t.Errorf("%s: %v, want %s", name, err, c.fault)
		}

		if !reflect.DeepEqual(run.ran, c.want) || strings.Contains(strings.Join(run.ran, " "), password) {
			t.Errorf("%s: ran\n%s\nwant\n%s", name, strings.Join(run.ran, "\n"), strings.Join(c.want, "\n"))
		}

		if c.changed == "" {
			continue
		}

		text := "node.name = " + target + "\n# END RECORD\nnode.session.auth.username = node-1\nnode.session.auth.password = " + password
		if got := attribute(h.root, c.changed); got != text {
			t.Errorf("%s: the record has %s", name, got)
		}
	}
}

func TestLogout(t *testing.T) {
	for name, exit := range map[string]map[string]int{"": {}, "nothing is there": {"-u": nothingIsThere, "delete": nothingIsThere}} {
		h, run := newSysfs(t)
		run.exit = exit
		want := []string{"iscsiadm -m session -r 7 -u", "iscsiadm -m node -T " + target + " -p 10.0.0.5:3260 -o delete"}
		if err := h.Logout(path); err != nil || !reflect.DeepEqual(run.ran, want) {
			t.Errorf("%s: ran %q, %v, want %q", name, run.ran, err, want)
		}
	}
}

func TestMultipath(t *testing.T) {
	h, run := newSysfs(t)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	disks := []driver.Disk{{Device: driver.Device{Path: "/dev/sdb"}}, {Map: driver.Device{Path: "/dev/dm-0"}}}
	if err := errors.Join(h.Join(ended, disks), h.ResizeMap(disks[1].Map)); err != nil {
		t.Error(err)
	}

	want := []string{"multipath -a /dev/sdb", "multipath /dev/sdb", "multipathd resize map mpatha", "multipathd show status"}
	if !h.Multipathd() || !reflect.DeepEqual(run.ran, want) {
		t.Errorf("ran %q, want %q", run.ran, want)
	}

	run.exit["status"] = 1
	if h.Multipathd() {
		t.Error("multipathd is said to run")
	}
}

// A record is read as it was written. What this version does not know is no record of nothing.
func TestRecords(t *testing.T) {
	h, _ := newHost(t, nil)
	if got, _, err := h.Records(); err != nil || len(got) > 0 {
		t.Errorf("%v, %v before the first", got, err)
	}

	r := driver.Record{Version: driver.RecordVersion, Volume: "pvc-1", Boot: "b", Paths: []driver.Path{path}, WWID: "naa.1"}
	for _, formatting := range []string{"", "naa.1"} {
		r.Formatting = formatting
		if err := h.Keep(r); err != nil {
			t.Fatal(err)
		}

		write(t, h.records+"/pvc-2.json.new", "{") // killed while it wrote
		got, boot, err := h.Records()
		if err != nil || len(boot) != 36 || !reflect.DeepEqual(got, []driver.Record{r}) {
			t.Errorf("%+v, %q, %v, want %+v", got, boot, err, r)
		}
	}

	text := `{"version":1,"volume":"pvc-1","boot":"b","paths":[{"portal":"10.0.0.5:3260","target":"` + target +
		`","lun":1}],"wwid":"naa.1","formatting":"naa.1"}`
	if got := attribute(h.records, "pvc-1.json"); got != text {
		t.Errorf("it is %s, want %s", got, text)
	}

	if err := errors.Join(h.Forget("pvc-1"), h.Forget("pvc-1")); err != nil {
		t.Error(err)
	}

	for text, want := range map[string]string{
		"{":                                   "read the record %s: unexpected end of JSON input",
		`{"version":2,"volume":"pvc-1"}`:      `the record %s is of version 2 and of volume "pvc-1": this flex-node does not know it`,
		`{"version":1,"volume":"../x/pvc-1"}`: `the record %s is of version 1 and of volume "../x/pvc-1": this flex-node does not know it`,
	} {
		write(t, h.records+"/pvc-1.json", text)
		want = fmt.Sprintf(want, h.records+"/pvc-1.json")
		if _, _, err := h.Records(); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestNodeID(t *testing.T) {
	const iqn, nqn = "iqn.2004-10.com.ubuntu:01:1a2b3c", "nqn.2014-08.org.nvmexpress:uuid:4c4c4544-0042-3510-8047-b4c04f564433"
	const initiator, hostNQN, port = "etc/iscsi/initiatorname.iscsi", "etc/nvme/hostnqn", "sys/class/fc_host/host1/port_name"
	all := map[string]string{initiator: "## a comment\n# InitiatorName=iqn.2004-10.com.example:no\n InitiatorName = " + iqn + " \nInitiatorAlias=a\n",
		hostNQN: nqn + "\n", port: "0x21000024ff3d2a1c\n", "sys/class/fc_host/host2/port_name": "0x21000024ff3d2a1d\n"}
	ports := map[string]string{initiator: all[initiator], hostNQN: all[hostNQN]}
	long := `{"iqn":"` + iqn + `","nqn":"` + nqn + `","wwpns":[`
	for i := range 6 {
		ports[fmt.Sprintf("sys/class/fc_host/host%d/port_name", i)] = "0x21000024ff3d2a1c\n"
		long += `"21000024ff3d2a1c",`
	}
	long = strings.TrimSuffix(long, ",") + `],"ip":"10.0.0.11"}`

	for name, c := range map[string]struct {
		files           map[string]string
		ip, want, fault string
	}{
		"its name alone": {nil, "", "node-1", "<nil>"},
		"an address":     {nil, "10.0.0.11", `{"ip":"10.0.0.11"}`, "<nil>"},
		"all": {all, "2001:db8::11", `{"iqn":"` + iqn + `","nqn":"` + nqn +
			`","wwpns":["21000024ff3d2a1c","21000024ff3d2a1d"],"ip":"2001:db8::11"}`, "<nil>"},
		"not yet made": {map[string]string{initiator: "GenerateName=yes\n"}, "", "node-1", "<nil>"},
		"no initiator": {map[string]string{initiator: "InitiatorName=node 1\n"}, "", "",
			`/etc/iscsi/initiatorname.iscsi: "node 1" is no name of an iSCSI initiator, such as iqn.2016-04.com.example:node-1`},
		"no NQN": {map[string]string{hostNQN: "node-1\n"}, "", "",
			`/etc/nvme/hostnqn: "node-1" is no name of an NVMe host, such as nqn.2014-08.org.nvmexpress:uuid:UUID`},
		"no port": {map[string]string{port: "0x0\n"}, "", "",
			`%s/` + port + `: "0" is no name of a Fibre Channel port: it has 16 hexadecimal digits`},
		"no address": {nil, "node-1", "", `NODE_IP: "node-1" is no IP address`},
		"too long": {ports, "10.0.0.11", "", fmt.Sprintf("what arrays have to know of this node has %d bytes, and Kubernetes takes 256: "+
			"give it a shorter name in /etc/iscsi/initiatorname.iscsi or /etc/nvme/hostnqn: %s", len(long), long)},
	} {
		h, _ := newHost(t, c.files)
		got, err := h.NodeID("node-1", c.ip)
		want := strings.Replace(c.fault, "%s", h.root, 1)
		if got != c.want || fmt.Sprint(err) != want {
			t.Errorf("%s: %s, %v, want %s, %s", name, got, err, c.want, want)
		}
	}
}
