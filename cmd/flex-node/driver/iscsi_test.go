package driver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
)

const (
	iqn     = "iqn.2010-10.org.openstack:volume-1"
	wwid    = "naa.60014050000000000000000000000001"
	pathA   = "10.0.0.5:3260/" + iqn + "/1"
	pathB   = "10.0.0.6:3260/" + iqn + "/1"
	other   = "pvc-00000000-0000-4000-8000-000000000002"
	secret  = "not-to-be-seen"
	boundAt = "/kubelet/pod/other"
)

// stored is what an array has of a volume.
type stored struct {
	wwid    string
	size    int64
	content Content
	fsSize  int64
}

// attached is a disk of the node. It knows what it was told when it was scanned.
type attached struct {
	Disk
	of *stored
}

// node is an array and a node in memory. Somebody may kill the process at a change, before it was made or after it.
type node struct {
	Host

	t *testing.T
	// luns are what the array has at a target/LUN, and dead are portals that do not answer.
	luns map[string]*stored
	dead map[string]bool

	boot       string
	records    map[string]Record
	sessions   map[string]CHAP
	disks      map[string]*attached
	mounts     map[string]Mount
	foreign    map[string]string
	protected  map[string]bool
	multipathd bool
	noMap      bool

	changes []string
	dieAt   int
	after   bool
	fails   bool
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{t: t, boot: "boot-1", luns: map[string]*stored{iqn + "/1": blank(wwid)}, dead: map[string]bool{},
		records: map[string]Record{}, foreign: map[string]string{}, multipathd: true}
	n.reboot("boot-1")

	return n
}

func blank(wwid string) *stored {
	return &stored{wwid: wwid, size: gibi, content: Content{Blank: true}}
}

// reboot takes away all but files.
func (n *node) reboot(boot string) {
	n.boot, n.sessions, n.disks, n.mounts, n.protected = boot, map[string]CHAP{}, map[string]*attached{}, map[string]Mount{}, map[string]bool{}
}

// kill has the process die at a change, or where it fails the change be an error.
func (n *node) kill(at int, after bool) { n.changes, n.dieAt, n.after = nil, at, after }

func (n *node) change(name string, do func()) error {
	n.changes = append(n.changes, name)
	dies := len(n.changes) == n.dieAt
	if !dies || n.after {
		do()
	}

	if dies && n.fails {
		return errKilled
	}

	if dies {
		panic(errKilled)
	}

	return nil
}

func lunOf(p Path) string { return fmt.Sprintf("%s/%d", p.Target, p.LUN) }

// number is of the last letter of a device.
func number(path string) uint64 { return uint64(path[len(path)-1]) }

func (n *node) Records() ([]Record, string, error) {
	return slices.Collect(maps.Values(n.records)), n.boot, nil
}

func (n *node) Link(p Path) (l Link, err error) {
	if _, found := n.sessions[p.login()]; found {
		l.Session = p.login()
	}

	for text, d := range n.disks {
		of, err := parsePath(text)
		if err != nil {
			return l, err
		}

		if of == p {
			l.Address, l.Disk = text, d.Disk
		} else if of.login() == p.login() {
			l.Others = true
		}
	}

	return l, nil
}

func (n *node) Devices() ([]Device, error)         { return nil, nil }
func (n *node) Multipathd() bool                   { return n.multipathd }
func (n *node) Mounted(path string) (Mount, error) { return n.mounts[path], nil }
func (n *node) Usage(string) (Usage, error)        { return Usage{Bytes: Amounts{3, 2, 1}}, nil }

func (n *node) Users(d Device) (string, error) {
	if who := n.foreign[d.Path]; who != "" {
		return who, nil
	}

	for path, m := range n.mounts {
		if m.Number == d.Number {
			return d.Path + " is mounted at " + path, nil
		}
	}

	return "", nil
}

// of is what a device has.
func (n *node) of(d Device) *stored {
	for _, a := range n.disks {
		if a.Path == d.Path || a.Map.Path == d.Path {
			return a.of
		}
	}
	n.t.Fatalf("%s is not there", d.Path)

	return nil
}

func (n *node) Probe(d Device) (Content, error) { return n.of(d).content, nil }

func (n *node) Keep(r Record) error {
	return n.change("keep", func() { n.records[r.Volume] = r })
}

func (n *node) Forget(volume string) error {
	return n.change("forget", func() { delete(n.records, volume) })
}

func (n *node) Login(p Path, c CHAP) error {
	if !slices.ContainsFunc(slices.Collect(maps.Values(n.records)), func(r Record) bool { return r.Boot == n.boot && slices.Contains(r.Paths, p) }) {
		n.t.Errorf("login to %s, of which there is no record", p)
	}

	if n.dead[p.Portal.String()] {
		return errors.New("iscsiadm: connection timed out")
	}

	return n.change("login", func() { n.sessions[p.login()] = c })
}

func (n *node) Scan(_ context.Context, p Path) error {
	if _, found := n.sessions[p.login()]; !found {
		n.t.Errorf("scan of %s without a session", p)
	}

	of := n.luns[lunOf(p)]
	if of == nil {
		return errors.New("no disk appears")
	}

	return n.change("scan", func() {
		if n.disks[p.String()] == nil {
			letter := string(rune('a' + len(n.disks)))
			n.disks[p.String()] = &attached{of: of, Disk: Disk{WWID: of.wwid,
				Device: Device{Path: "/dev/sd" + letter, Number: number(letter), Size: of.size}}}
		}
	})
}

func (n *node) Rescan(address string) error {
	return n.change("rescan", func() {
		d := n.disks[address]
		if of := n.luns[address[strings.Index(address, "/")+1:]]; !n.dead[address[:strings.Index(address, "/")]] {
			d.of, d.WWID, d.Size = of, of.wwid, of.size
		}
	})
}

func (n *node) Join(_ context.Context, disks []Disk) error {
	if n.noMap {
		return nil
	}

	return n.change("join", func() {
		for _, d := range disks {
			a := n.disks[n.addressOf(d.Path)]
			a.Map = Device{Path: "/dev/dm-" + a.of.wwid[len(a.of.wwid)-1:], Number: number(a.of.wwid), Size: a.Size}
		}
	})
}

func (n *node) addressOf(path string) string {
	for address, d := range n.disks {
		if d.Path == path {
			return address
		}
	}

	return ""
}

func (n *node) ResizeMap(d Device) error {
	return n.change("resize", func() {
		for _, a := range n.disks {
			if a.Map.Path == d.Path {
				a.Map.Size = a.Size
			}
		}
	})
}

func (n *node) Protect(d Device) error {
	return n.change("protect", func() { n.protected[d.Path] = true })
}

func (n *node) MakeFileSystem(v Volume, d Device) error {
	of := n.of(d)
	if of.content.FSType != "" || !of.content.Blank && n.records[v.ID].Formatting != of.wwid {
		n.t.Errorf("format of a disk with %+v", of.content)
	}

	of.content = Content{} // half of it
	return n.change("mkfs", func() { of.content, of.fsSize = Content{FSType: v.FSType}, of.size })
}

func (n *node) Wipe(d Device) error {
	return n.change("wipe", func() { n.of(d).content = Content{Blank: true} })
}

func (n *node) Flush(d Device) error {
	return n.change("flush", func() {
		for _, a := range n.disks {
			if a.Map.Path == d.Path {
				a.Map = Device{}
			}
		}
	})
}

func (n *node) Drop(l Link) error {
	if users, _ := n.Users(l.Disk.Device); users != "" || l.Disk.Map.Path != "" {
		n.t.Errorf("drop of %s, which has %s %s", l.Disk.Path, users, l.Disk.Map.Path)
	}

	return n.change("drop", func() { delete(n.disks, l.Address) })
}

func (n *node) Logout(p Path) error {
	for text := range n.disks {
		if of, _ := parsePath(text); of.login() == p.login() {
			n.t.Errorf("logout of %s with the disk of %s", p.login(), text)
		}
	}

	return n.change("logout", func() { delete(n.sessions, p.login()) })
}

func (n *node) Mount(_ context.Context, v Volume, d Device, path string) error {
	of := n.of(d)
	if of.content.FSType != v.FSType {
		n.t.Errorf("mount of %+v", of.content)
	}

	return n.change("mount", func() { n.mounts[path] = Mount{Number: d.Number, ReadOnly: v.ReadOnly} })
}

func (n *node) Grow(d Device, _ string) error {
	return n.change("grow", func() { n.of(d).fsSize = d.Size })
}

func (n *node) Bind(from, to string, _ []string) error {
	return n.change("bind "+from, func() {
		n.mounts[to] = n.mounts[from]
		if strings.HasPrefix(from, "/dev/") {
			n.mounts[to] = Mount{Number: number(from), Raw: true}
		}
	})
}

func (n *node) Unmount(path string) error {
	return n.change("unmount", func() { delete(n.mounts, path) })
}
func (n *node) Remove(string) error { return n.change("remove", func() {}) }

// empty is an error for what the node has of any volume.
func (n *node) empty() error {
	if len(n.records)+len(n.sessions)+len(n.disks)+len(n.mounts) > 0 {
		return fmt.Errorf("records %v, sessions %v, disks %v and mounts %v are left", n.records, n.sessions, n.disks, n.mounts)
	}

	return nil
}

// volume is one of iscsi, as the kubelet asks for it.
type lunVolume struct {
	id, staging, target string
	capability          *csi.VolumeCapability
	published           map[string]string
	secrets             map[string]string
}

func newVolume(c *csi.VolumeCapability, paths ...string) lunVolume {
	return lunVolume{id: id, staging: staging, target: target, capability: c,
		published: map[string]string{"paths": strings.Join(paths, " ")}}
}

func (v lunVolume) request() *csi.NodeStageVolumeRequest {
	return &csi.NodeStageVolumeRequest{VolumeId: v.id, StagingTargetPath: v.staging, VolumeCapability: v.capability,
		VolumeContext: map[string]string{"stager": "iscsi"}, PublishContext: v.published, Secrets: v.secrets}
}

// driver is a new process on the node.
func (n *node) driver() *Node {
	return &Node{Host: n, ID: `{"ip":"10.0.0.11"}`, Name: "node-1", Stagers: []string{"iscsi"}}
}

// do makes a call in a new process.
func (n *node) do(v lunVolume, call string) error {
	d, ctx := n.driver(), klog.NewContext(context.Background(), klog.Logger{})
	var err error
	switch call {
	case "stage":
		_, err = d.NodeStageVolume(ctx, v.request())
	case "publish":
		_, err = d.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{VolumeId: v.id, StagingTargetPath: v.staging,
			TargetPath: v.target, VolumeCapability: v.capability})
	case "expand":
		_, err = d.NodeExpandVolume(ctx, &csi.NodeExpandVolumeRequest{VolumeId: v.id, VolumePath: v.target,
			CapacityRange: &csi.CapacityRange{RequiredBytes: 2 * gibi}})
	case "unpublish":
		_, err = d.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: v.id, TargetPath: v.target})
	case "unstage":
		_, err = d.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: v.id, StagingTargetPath: v.staging})
	}

	return err
}

// must makes calls, each of them twice, that have to succeed.
func (n *node) must(v lunVolume, calls ...string) {
	n.t.Helper()
	for _, call := range calls {
		for range 2 {
			if err := n.do(v, call); err != nil {
				n.t.Fatalf("%s: %v", call, err)
			}
		}
	}
}

// killed makes a call in a process that dies at a change, and says whether it came to that.
func (n *node) killed(v lunVolume, call string, at int, after bool) (dies bool) {
	n.t.Helper()
	n.kill(at, after)
	defer func() {
		n.kill(0, false)
		if p := recover(); p != nil && p != any(errKilled) {
			panic(p)
		} else if p != nil {
			dies = true
		}
	}()

	if err := n.do(v, call); err != nil {
		n.t.Errorf("%s, killed at %d: %v", call, at, err)
	}

	return false
}

// wantFault is that a call ends with a code and a text, and says nothing of the password.
func wantFault(t *testing.T, name string, err error, code codes.Code, want string) {
	t.Helper()
	if status.Code(err) != code || status.Convert(err).Message() != want {
		t.Errorf("%s: error %v, want %s: %s", name, err, code, want)
	}

	if strings.Contains(fmt.Sprint(err), secret) {
		t.Errorf("%s: the error has the password: %v", name, err)
	}
}

func shared(c *csi.VolumeCapability, mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
	c.AccessMode.Mode = mode

	return c
}

func TestLUNSteps(t *testing.T) {
	for name, c := range map[string]struct {
		v     lunVolume
		alone bool
		want  string
	}{
		"a file system": {newVolume(mounted("ext4"), pathA), false,
			"keep login scan rescan keep keep mkfs keep mount rescan grow bind /kubelet/staging " +
				"unmount remove unmount drop logout forget"},
		"a raw device": {newVolume(raw(), pathA), false,
			"keep login scan rescan keep bind /dev/sda unmount remove drop logout forget"},
		"two paths": {newVolume(mounted("xfs"), pathA, pathB), false,
			"keep login scan login scan rescan rescan join keep keep mkfs keep mount rescan rescan grow " +
				"bind /kubelet/staging unmount remove unmount flush drop drop logout logout forget"},
		"a raw device, two paths": {newVolume(raw(), pathA, pathB), false,
			"keep login scan login scan rescan rescan join keep bind /dev/dm-1 unmount remove flush drop drop logout logout forget"},
		"without multipathd": {newVolume(raw(), pathA, pathB), true,
			"keep login scan rescan keep bind /dev/sda unmount remove drop logout logout forget"},
	} {
		n := newNode(t)
		n.multipathd = !c.alone
		for _, call := range []string{"stage", "publish", "unpublish", "unstage"} {
			if err := n.do(c.v, call); err != nil {
				t.Errorf("%s: %s: %v", name, call, err)
			}
		}

		if got := strings.Join(n.changes, " "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}

		if err := n.empty(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Wherever the process is killed, the same call goes on from there, and the other one takes all away. After a reboot too.
func TestLUNKilled(t *testing.T) {
	for name, v := range map[string]lunVolume{
		"a file system":           newVolume(mounted("ext4"), pathA),
		"a file system, by two":   newVolume(mounted("xfs"), pathA, pathB),
		"a raw device":            newVolume(raw(), pathA),
		"a raw device, by two":    newVolume(raw(), pathA, pathB),
		"a dead portal beside it": newVolume(mounted("ext4"), "10.0.0.7:3260/"+iqn+"/1", pathA),
	} {
		for _, next := range []string{"stage", "unstage", "reboot and stage", "reboot and unstage"} {
			for _, after := range []bool{false, true} {
				dies := true
				for at := 1; dies; at++ {
					n := newNode(t)
					n.dead["10.0.0.7:3260"] = true
					dies = n.killed(v, "stage", at, after)
					if strings.HasPrefix(next, "reboot") {
						n.reboot("boot-2")
					}

					if strings.HasSuffix(next, "unstage") {
						n.must(v, "unstage")
						if err := n.empty(); err != nil {
							t.Errorf("%s, killed at %d, then %s: %v", name, at, next, err)
						}
					}

					half := next == "reboot and unstage" && v.capability.GetMount() != nil && n.luns[iqn+"/1"].content == Content{}
					if half { // another node could not have known
						continue
					}

					n.must(v, "stage", "publish", "unpublish")
					if !n.killed(v, "unstage", at, after) && at == 1 {
						t.Errorf("%s: nothing is changed", name)
					}

					n.must(v, "unstage")
					if err := n.empty(); err != nil {
						t.Errorf("%s, killed at %d, %s: %v", name, at, next, err)
					}
				}
			}
		}
	}
}

// Whichever change fails, the same call goes on from there. What is left has the kubelet ask to unstage it.
func TestLUNFailures(t *testing.T) {
	for _, v := range []lunVolume{newVolume(mounted("ext4"), pathA, pathB), newVolume(raw(), pathA)} {
		for at := 1; at <= 24; at++ {
			for _, after := range []bool{false, true} {
				n := newNode(t)
				n.fails = true
				n.kill(at, after)
				for _, call := range []string{"stage", "publish", "unpublish", "unstage"} {
					err := n.do(v, call)
					if err != nil && call == "stage" && n.empty() != nil && status.Code(err) != codes.Unavailable {
						t.Errorf("change %d fails: %v, and %v", at, err, n.empty())
					}

					if call == "stage" && slices.Contains(n.changes, "wipe") {
						t.Errorf("a failed mkfs is followed by %v", n.changes)
					}

					if err != nil {
						err = n.do(v, call)
					}

					if err != nil {
						t.Errorf("change %d fails: %s once more: %v", at, call, err)
					}
				}

				if err := n.empty(); err != nil {
					t.Errorf("change %d fails: %v", at, err)
				}
			}
		}
	}
}

// Another node may have mounted what this one made, before it was told so. Half of a file system is made anew here, and
// is wiped where the volume leaves: no other node would format it.
func TestHalfFormatted(t *testing.T) {
	v := newVolume(mounted("ext4"), pathA)
	of := func(n *node) *stored { return n.luns[iqn+"/1"] }
	interrupted := func() *node {
		n := newNode(t)
		if !n.killed(v, "stage", 7, false) || of(n).content != (Content{}) || n.records[id].Formatting != wwid {
			t.Fatalf("killed after %v with %+v", n.changes, of(n).content)
		}

		return n
	}

	n := interrupted()
	n.must(v, "unstage")
	if !of(n).content.Blank {
		t.Errorf("unstaged, the disk has %+v", of(n).content)
	}

	n = interrupted()
	of(n).content = Content{FSType: "ext4"}
	n.changes = nil
	n.must(v, "stage")
	if slices.Contains(n.changes, "mkfs") || n.records[id].Formatting != "" {
		t.Errorf("it is formatted by %v, %+v", n.changes, n.records[id])
	}

	n = interrupted()
	n.reboot("boot-2")
	n.must(v, "stage")
	if of(n).content.FSType != "ext4" {
		t.Errorf("after the reboot the disk has %+v", of(n).content)
	}

	n = interrupted()
	n.reboot("boot-2")
	n.changes = nil
	n.must(v, "unstage")
	if got := strings.Join(n.changes, " "); got != "logout forget" {
		t.Errorf("unstaged after the reboot by %s", got)
	}

	n = interrupted()
	n.luns[iqn+"/1"] = &stored{wwid: "naa.60014050000000000000000000000002", size: gibi}
	n.reboot("boot-2")
	wantFault(t, "another disk", n.do(v, "stage"), codes.Unavailable, "the disk of volume "+id+
		" is not empty, and has no file system that is known: it is neither mounted nor formatted")
}

func TestLUNRefused(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat(pathA+" ", 17))
	portal := "the portal has to be ADDRESS:PORT, or [ADDRESS]:PORT for IPv6, in its shortest form"
	local := "the portal is no address of another machine"
	lun := "the LUN has to be a number of at most 32767"
	target := "the target has to be a name such as iqn.2010-10.org.openstack:volume-1"
	published := map[string]struct{ paths, want string }{
		"no paths":      {"", "publish_context.paths is missing"},
		"a space":       {" ", `publish_context.paths has "": a path is PORTAL/IQN/LUN`},
		"two spaces":    {pathA + "  " + pathB, `publish_context.paths has "": a path is PORTAL/IQN/LUN`},
		"a line":        {pathA + "\n", `publish_context.paths has "` + pathA + `\n": ` + lun},
		"too many":      {long, "publish_context.paths has more than 16 paths"},
		"twice":         {pathA + " " + pathA, `publish_context.paths has "` + pathA + `": it is there twice`},
		"a name":        {"storage:3260/" + iqn + "/1", `publish_context.paths has "storage:3260/` + iqn + `/1": ` + portal},
		"no port":       {"10.0.0.5/" + iqn + "/1", `publish_context.paths has "10.0.0.5/` + iqn + `/1": ` + portal},
		"port 0":        {"10.0.0.5:0/" + iqn + "/1", `publish_context.paths has "10.0.0.5:0/` + iqn + `/1": ` + portal},
		"zeros":         {"10.0.0.5:03260/" + iqn + "/1", `publish_context.paths has "10.0.0.5:03260/` + iqn + `/1": ` + portal},
		"a zone":        {"[fe80::1%eth0]:3260/" + iqn + "/1", `publish_context.paths has "[fe80::1%eth0]:3260/` + iqn + `/1": ` + portal},
		"long IPv6":     {"[2001:DB8::1]:3260/" + iqn + "/1", `publish_context.paths has "[2001:DB8::1]:3260/` + iqn + `/1": ` + portal},
		"loopback":      {"127.0.0.1:3260/" + iqn + "/1", `publish_context.paths has "127.0.0.1:3260/` + iqn + `/1": ` + local},
		"loopback IPv6": {"[::1]:3260/" + iqn + "/1", `publish_context.paths has "[::1]:3260/` + iqn + `/1": ` + local},
		"mapped":        {"[::ffff:127.0.0.1]:3260/" + iqn + "/1", `publish_context.paths has "[::ffff:127.0.0.1]:3260/` + iqn + `/1": ` + local},
		"mapped too":    {"[::ffff:10.0.0.5]:3260/" + iqn + "/1", `publish_context.paths has "[::ffff:10.0.0.5]:3260/` + iqn + `/1": ` + local},
		"anywhere":      {"0.0.0.0:3260/" + iqn + "/1", `publish_context.paths has "0.0.0.0:3260/` + iqn + `/1": ` + local},
		"a folder":      {"10.0.0.5:3260/../1", `publish_context.paths has "10.0.0.5:3260/../1": ` + target},
		"an option":     {"10.0.0.5:3260/--logoutall=all/1", `publish_context.paths has "10.0.0.5:3260/--logoutall=all/1": ` + target},
		"a shell":       {"10.0.0.5:3260/iqn.2010-10.a:$(id)/1", `publish_context.paths has "10.0.0.5:3260/iqn.2010-10.a:$(id)/1": ` + target},
		"one part more": {pathA + "/1", `publish_context.paths has "` + pathA + `/1": a path is PORTAL/IQN/LUN`},
		"no LUN":        {"10.0.0.5:3260/" + iqn + "/", `publish_context.paths has "10.0.0.5:3260/` + iqn + `/": ` + lun},
		"LUN -1":        {"10.0.0.5:3260/" + iqn + "/-1", `publish_context.paths has "10.0.0.5:3260/` + iqn + `/-1": ` + lun},
		"all LUNs":      {"10.0.0.5:3260/" + iqn + "/-", `publish_context.paths has "10.0.0.5:3260/` + iqn + `/-": ` + lun},
		"LUN 40000":     {"10.0.0.5:3260/" + iqn + "/40000", `publish_context.paths has "10.0.0.5:3260/` + iqn + `/40000": ` + lun},
	}
	for name, c := range published {
		n := newNode(t)
		wantFault(t, name, n.do(newVolume(raw(), strings.Split(c.paths, "\x00")...), "stage"), codes.InvalidArgument, c.want)
		if len(n.changes) > 0 {
			t.Errorf("%s: %v", name, n.changes)
		}
	}

	lacks := func(key string) string {
		return fmt.Sprintf("the volume's Secret has no %q of 1 to 255 printable characters, without a space or line end around them", key)
	}
	form := "it has to be naa. or eui. and lower-case hexadecimal digits"
	for name, c := range map[string]struct {
		change func(*csi.NodeStageVolumeRequest)
		want   string
	}{
		"any stager": {func(r *csi.NodeStageVolumeRequest) { r.VolumeContext["stager"] = "loop" },
			`volumeAttributes.stager is "loop": this node's flex-node has iscsi (--stagers)`},
		"an attribute": {func(r *csi.NodeStageVolumeRequest) { r.VolumeContext["directory"] = "/" },
			`volumeAttributes has "directory": stager alone is known to iscsi`},
		"any key": {func(r *csi.NodeStageVolumeRequest) { r.PublishContext["device"] = "/dev/sda" },
			`publish_context has "device": paths and wwid are known`},
		"no WWID":    {func(r *csi.NodeStageVolumeRequest) { r.PublishContext["wwid"] = "" }, `publish_context.wwid is "": ` + form},
		"another ID": {func(r *csi.NodeStageVolumeRequest) { r.PublishContext["wwid"] = "3600140500" }, `publish_context.wwid is "3600140500": ` + form},
		"its own name": {func(r *csi.NodeStageVolumeRequest) { r.VolumeId = "../" + id },
			`volumeHandle is "../` + id + `": it has to be the volume's name, of at most 58 letters, digits, '-' and '.'`},
		"many writers of a file system": {func(r *csi.NodeStageVolumeRequest) {
			r.VolumeCapability = shared(mounted("ext4"), csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER)
		}, "access mode MULTI_NODE_MULTI_WRITER: a file system is one node's at a time, or nobody writes to it"},
		"one writer of many": {func(r *csi.NodeStageVolumeRequest) {
			r.VolumeCapability = shared(raw(), csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER)
		}, "access mode MULTI_NODE_SINGLE_WRITER: a file system is one node's at a time, or nobody writes to it"},
		"no password": {func(r *csi.NodeStageVolumeRequest) { r.Secrets = map[string]string{"node-1.username": "a"} }, lacks("node-1.password")},
		"no username": {func(r *csi.NodeStageVolumeRequest) { r.Secrets = map[string]string{"node-1.password": secret} }, lacks("node-1.username")},
		"a line end": {func(r *csi.NodeStageVolumeRequest) {
			r.Secrets = map[string]string{"node-1.username": "a", "node-1.password": secret + "\n"}
		}, lacks("node-1.password")},
		"a setting": {func(r *csi.NodeStageVolumeRequest) {
			r.Secrets = map[string]string{"node-1.username": "a", "node-1.password": secret + "\nnode.startup = automatic"}
		}, lacks("node-1.password")},
		"a long one": {func(r *csi.NodeStageVolumeRequest) {
			r.Secrets = map[string]string{"node-1.username": "a", "node-1.password": strings.Repeat("a", 256)}
		}, lacks("node-1.password")},
	} {
		n := newNode(t)
		r := newVolume(raw(), pathA).request()
		c.change(r)
		_, err := n.driver().NodeStageVolume(context.Background(), r)
		wantFault(t, name, err, codes.InvalidArgument, c.want)
		if len(n.changes) > 0 {
			t.Errorf("%s: %v", name, n.changes)
		}
	}
}

// What a node finds decides, and in doubt nothing is left.
func TestLUNFound(t *testing.T) {
	second := blank("naa.60014050000000000000000000000002")
	beside := newVolume(raw(), "10.0.0.5:3260/"+iqn+"/2")
	beside.id, beside.staging, beside.target = other, "/kubelet/staging/other", boundAt
	for name, c := range map[string]struct {
		prepare func(n *node, v *lunVolume)
		block   bool
		paths   []string
		code    codes.Code
		want    string
	}{
		"no portal answers": {func(n *node, _ *lunVolume) { n.dead["10.0.0.5:3260"], n.dead["10.0.0.6:3260"] = true, true }, true,
			[]string{pathA, pathB}, codes.Unavailable, "no path to volume " + id + " works: " + pathA +
				": iscsiadm: connection timed out; " + pathB + ": iscsiadm: connection timed out"},
		"no LUN": {func(n *node, _ *lunVolume) { delete(n.luns, iqn+"/1") }, true, []string{pathA}, codes.Unavailable,
			"no path to volume " + id + " works: " + pathA + ": no disk appears"},
		"another WWID": {func(_ *node, v *lunVolume) { v.published["wwid"] = "naa.6001405000000000" }, true, []string{pathA},
			codes.FailedPrecondition, `/dev/sda has the WWID "` + wwid + `", and volume ` + id +
				` has "naa.6001405000000000": the array has given its LUN to another volume, or a path leads elsewhere`},
		"two volumes": {func(n *node, _ *lunVolume) { n.luns[iqn+"/2"] = second }, true,
			[]string{pathA, "10.0.0.6:3260/" + iqn + "/2"}, codes.FailedPrecondition,
			`/dev/sdb has the WWID "` + second.wwid + `", and volume ` + id + ` has "` + wwid +
				`": the array has given its LUN to another volume, or a path leads elsewhere`},
		"no WWID at all": {func(n *node, _ *lunVolume) { n.luns[iqn+"/1"].wwid = "" }, true, []string{pathA},
			codes.FailedPrecondition, `/dev/sda has the WWID "", and volume ` + id +
				` has "": the array has given its LUN to another volume, or a path leads elsewhere`},
		"no map": {func(n *node, _ *lunVolume) { n.noMap = true }, true, []string{pathA, pathB}, codes.Unavailable,
			"multipathd runs, and makes no map of the disks of volume " + id + ": multipath -v3 /dev/sda"},
		"the node's own": {func(n *node, _ *lunVolume) { n.foreign["/dev/sda"] = "dm-0 has /dev/sda" }, true, []string{pathA},
			codes.FailedPrecondition, `claim volume "` + id + `": its disk is in use already: dm-0 has /dev/sda`},
		"somebody's data": {func(n *node, _ *lunVolume) { n.luns[iqn+"/1"].content = Content{} }, false, []string{pathA},
			codes.FailedPrecondition, "the disk of volume " + id +
				" is not empty, and has no file system that is known: it is neither mounted nor formatted"},
		"another type": {func(n *node, _ *lunVolume) { n.luns[iqn+"/1"].content = Content{FSType: "xfs"} }, false, []string{pathA},
			codes.FailedPrecondition, "the disk of volume " + id + ` has "xfs", and the volume's fsType is ext4`},
		"a blank one for readers": {func(_ *node, v *lunVolume) {
			v.capability = shared(mounted("ext4"), csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY)
		}, false, []string{pathA}, codes.FailedPrecondition, "the disk of volume " + id + " is blank, and nobody may write to it"},
		"another volume's LUN": {func(n *node, _ *lunVolume) {
			n.luns[iqn+"/2"] = second
			n.must(beside, "stage")
		}, true, []string{"10.0.0.7:3260/" + iqn + "/2"}, codes.FailedPrecondition,
			"path 10.0.0.7:3260/" + iqn + "/2 of volume " + id + " is volume " + other + "'s on this node"},
		"another volume's disk": {func(n *node, _ *lunVolume) {
			n.luns[iqn+"/2"] = n.luns[iqn+"/1"]
			n.must(beside, "stage")
		}, true, []string{pathA}, codes.FailedPrecondition,
			`WWID "` + wwid + `" of volume ` + id + " is volume " + other + "'s on this node"},
		"something in place": {func(n *node, _ *lunVolume) { n.mounts[staging] = Mount{Number: 4} }, false, []string{pathA},
			codes.Unavailable, "something else is mounted at the staging path of volume " + id},
	} {
		n := newNode(t)
		v := newVolume(mounted("ext4"), c.paths...)
		if c.block {
			v.capability = raw()
		}

		c.prepare(n, &v)
		v.secrets = map[string]string{"node-1.username": "a", "node-1.password": secret}
		wantFault(t, name, n.do(v, "stage"), c.code, c.want)
		delete(n.records, other)
		if n.records[id].Volume != "" || len(n.disks)+len(n.sessions) > 2 {
			t.Errorf("%s: %v", name, n.empty())
		}
	}
}

// A path that works is enough. Those that did not are tried again.
func TestLUNPaths(t *testing.T) {
	n := newNode(t)
	v := newVolume(mounted("ext4"), pathA, pathB)
	n.dead["10.0.0.5:3260"] = true
	n.must(v, "stage")
	if len(n.disks) != 1 {
		t.Errorf("disks %v", n.disks)
	}

	n.dead = nil
	n.must(v, "stage", "publish")
	if len(n.disks) != 2 || n.mounts[target] != (Mount{Number: number(wwid)}) {
		t.Errorf("disks %v, mounts %v", n.disks, n.mounts)
	}

	n.must(v, "unpublish", "unstage")
	if err := n.empty(); err != nil {
		t.Error(err)
	}

	// What is mounted without a map stays so, also when multipathd is started.
	n.multipathd = false
	n.must(v, "stage", "publish")
	n.multipathd = true
	n.must(v, "stage", "publish")
	if len(n.disks) != 1 || n.mounts[staging] != (Mount{Number: number("a")}) {
		t.Errorf("disks %v, mounts %v", n.disks, n.mounts)
	}
}

// Volumes share a target. Its session ends with the last of them, and not before.
func TestSharedTarget(t *testing.T) {
	n := newNode(t)
	n.luns[iqn+"/2"] = blank("naa.60014050000000000000000000000002")
	v := newVolume(mounted("ext4"), pathA, pathB)
	w := newVolume(raw(), "10.0.0.5:3260/"+iqn+"/2")
	w.id, w.staging, w.target = other, "/kubelet/staging/other", boundAt
	n.must(v, "stage", "publish")
	n.must(w, "stage", "publish")
	n.must(v, "unpublish", "unstage")
	if len(n.sessions) != 1 || len(n.disks) != 1 || n.disks["10.0.0.5:3260/"+iqn+"/2"] == nil {
		t.Errorf("sessions %v, disks %v", n.sessions, n.disks)
	}

	wantFault(t, "in use", n.do(w, "unstage"), codes.Unavailable,
		"volume "+other+" is still in use: /dev/sdc is mounted at "+boundAt)
	n.must(w, "unpublish", "unstage")
	if err := n.empty(); err != nil {
		t.Error(err)
	}

	// A disk of another program's keeps the session, and a record of before the last boot does not.
	n.must(v, "stage")
	n.records[other] = Record{Version: 1, Volume: other, Boot: "boot-0", Paths: n.records[id].Paths}
	anothers := "10.0.0.6:3260/" + iqn + "/9"
	n.disks[anothers] = &attached{}
	n.must(v, "unstage")
	if _, kept := n.sessions["10.0.0.6:3260 "+iqn]; len(n.sessions) != 1 || !kept || n.disks[anothers] == nil {
		t.Errorf("sessions %v, disks %v", n.sessions, n.disks)
	}

	n.sessions["10.0.0.5:3260 "+iqn] = CHAP{}
	n.must(w, "unstage")
	if len(n.sessions) != 2 {
		t.Errorf("sessions %v", n.sessions)
	}

	n.reboot(n.boot)

	// Another one that has begun, and has no disk yet, needs the session too.
	n.must(v, "stage")
	n.records[other] = Record{Version: 1, Volume: other, Boot: n.boot, Paths: []Path{n.records[id].Paths[1]}}
	n.must(v, "unstage")
	if _, kept := n.sessions["10.0.0.6:3260 "+iqn]; len(n.sessions) != 1 || !kept {
		t.Errorf("sessions %v", n.sessions)
	}

	n.must(w, "unstage")
	if err := n.empty(); err != nil {
		t.Error(err)
	}
}

// Each node may have its own name and password, and no one knows those of others.
func TestCHAP(t *testing.T) {
	for name, c := range map[string]struct {
		secrets map[string]string
		want    CHAP
	}{
		"none":          {nil, CHAP{}},
		"of this node":  {map[string]string{"node-1.username": "a", "node-1.password": "b c#"}, CHAP{"a", "b c#"}},
		"of other ones": {map[string]string{"node-2.username": "a", "node-2.password": "\n", "password": "c"}, CHAP{}},
	} {
		n := newNode(t)
		v := newVolume(raw(), pathA)
		v.secrets = c.secrets
		n.must(v, "stage")
		if got := n.sessions["10.0.0.5:3260 "+iqn]; got != c.want {
			t.Errorf("%s: logged in as %q, want %q", name, got.Username, c.want.Username)
		}
	}

	if text := fmt.Sprintf("%v %+v", CHAP{"a", secret}, Volume{CHAP: CHAP{"a", secret}}); strings.Contains(text, secret) {
		t.Errorf("printed as %s", text)
	}
}

// The array has given the LUN to another volume, or was attached anew.
func TestLUNChanged(t *testing.T) {
	n := newNode(t)
	v := newVolume(raw(), pathA)
	n.must(v, "stage", "publish")
	n.disks[pathA].WWID = "naa.60014050000000000000000000000003"
	wantFault(t, "another disk", n.do(v, "stage"), codes.Unavailable, `/dev/sda has the WWID `+
		`"naa.60014050000000000000000000000003", and volume `+id+` has "`+wwid+
		`": the array has given its LUN to another volume, or a path leads elsewhere`)
	n.must(v, "unpublish", "unstage")

	n.must(v, "stage", "publish")
	moved := newVolume(raw(), "10.0.0.5:3260/"+iqn+"/7")
	n.luns[iqn+"/7"] = n.luns[iqn+"/1"]
	wantFault(t, "in use", n.do(moved, "stage"), codes.Unavailable, `reach otherwise volume "`+id+`": volume `+id+
		` is still in use: /dev/sda is mounted at `+target)
	n.must(v, "unpublish")
	n.must(moved, "stage")
	if len(n.disks) != 1 || n.disks["10.0.0.5:3260/"+iqn+"/7"] == nil {
		t.Errorf("disks %v", n.disks)
	}

	n.luns[iqn+"/8"] = blank("naa.60014050000000000000000000000008")
	anew := newVolume(raw(), "10.0.0.5:3260/"+iqn+"/8")
	anew.published["wwid"] = "naa.60014050000000000000000000000008"
	n.must(anew, "stage", "unstage")
	v.capability, moved.capability = mounted("ext4"), mounted("ext4")
	n.must(v, "stage")
	wantFault(t, "mounted", n.do(moved, "stage"), codes.Unavailable,
		"volume "+id+" is mounted, and now has other paths: drain the node")
}

// Many nodes may read a file system to which nobody writes, its journal neither.
func TestReaders(t *testing.T) {
	n := newNode(t)
	n.luns[iqn+"/1"].content = Content{FSType: "ext4"}
	v := newVolume(shared(mounted("ext4"), csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY), pathA)
	n.must(v, "stage", "publish")
	if !n.protected["/dev/sda"] || !n.mounts[staging].ReadOnly || slices.Contains(n.changes, "grow") {
		t.Errorf("protected %v, mounts %v after %v", n.protected, n.mounts, n.changes)
	}

	many := newVolume(shared(raw(), csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER), pathA)
	n.must(v, "unpublish", "unstage")
	n.protected = map[string]bool{}
	n.must(many, "stage", "publish")
	if n.protected["/dev/sda"] {
		t.Error("a raw device of many writers is protected")
	}
}

// Every path has to know the size, and then the map of them.
func TestLUNExpand(t *testing.T) {
	n := newNode(t)
	v := newVolume(mounted("ext4"), pathA, pathB)
	n.must(v, "stage", "publish")
	early := fmt.Sprintf("grow volume %q: the disk of volume %s has %d bytes on this node, and not yet %d", id, id, gibi, 2*gibi)
	wantFault(t, "too early", n.do(v, "expand"), codes.Unavailable, early)
	n.luns[iqn+"/1"].size = 2 * gibi
	n.dead["10.0.0.6:3260"] = true
	wantFault(t, "one path", n.do(v, "expand"), codes.Unavailable, early)
	n.dead = nil
	n.must(v, "expand")
	if got := n.luns[iqn+"/1"].fsSize; got != 2*gibi {
		t.Errorf("the file system has %d", got)
	}

	r, err := n.driver().NodeGetVolumeStats(context.Background(), &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: target})
	if err != nil || r.GetUsage()[0].GetTotal() != 3 {
		t.Errorf("usage %v, %v", r, err)
	}
}

func TestCheckStagers(t *testing.T) {
	if err := CheckStagers([]string{"loop", "iscsi"}); err != nil {
		t.Error(err)
	}

	wantFault(t, "any", CheckStagers([]string{"loop", "nvme"}), codes.InvalidArgument, `--stagers has "nvme": loop and iscsi are known`)
}
