package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	id      = "pvc-00000000-0000-4000-8000-000000000001"
	images  = "/var/lib/flex-loop"
	staging = "/kubelet/staging"
	target  = "/kubelet/pod/target"
	gibi    = 1 << 30
)

var (
	errKilled = errors.New("killed")
	loopAlone = []string{"loop"}
)

// fake is a node in memory. It fails at a change: before it, or after it.
type fake struct {
	Host

	image   Image
	noImage error
	content Content
	devices []Device
	mounts  map[string]Mount
	fsSize  int64
	usage   func() (Usage, error)

	changes   []string
	failAt    int
	failAfter bool
}

func newFake() *fake {
	return &fake{image: Image{File: FileID{Device: 1, Inode: 2}, Size: gibi}, content: Content{Blank: true},
		mounts: map[string]Mount{}}
}

// change does one if it is not the one that fails.
func (f *fake) change(name string, do func()) error {
	f.changes = append(f.changes, name)
	fails := len(f.changes) == f.failAt
	if !fails || f.failAfter {
		do()
	}

	if fails {
		return errKilled
	}

	return nil
}

func (f *fake) Records() ([]Record, string, error)      { return nil, "boot", nil }
func (f *fake) Image(Volume) (Image, error)             { return f.image, f.noImage }
func (f *fake) Devices() ([]Device, error)              { return f.devices, nil }
func (f *fake) Mounted(path string) (Mount, error)      { return f.mounts[path], nil }
func (f *fake) Content(Volume, Device) (Content, error) { return f.content, nil }
func (f *fake) Usage(string) (Usage, error)             { return f.usage() }
func (f *fake) Remove(string) error                     { return f.change("remove", func() {}) }
func (f *fake) Grow(Device, string) error {
	return f.change("grow", func() { f.fsSize = f.devices[0].Size })
}
func (f *fake) Detach(context.Context, Device) error {
	return f.change("detach", func() { f.devices = nil })
}
func (f *fake) Unmount(path string) error {
	return f.change("unmount", func() { delete(f.mounts, path) })
}
func (f *fake) Resize(Device, []string) (s int64, e error) {
	return f.resized(), f.change("resize", func() { f.devices[0].Size = f.image.Size })
}
func (f *fake) resized() int64 { return f.image.Size }

func (f *fake) Attach(v Volume) error {
	return f.change("attach", func() {
		f.devices = append(f.devices, Device{Path: "/dev/loop7", Number: 7, File: f.image.File, Size: f.image.Size, Volume: v.ID, Marked: true})
	})
}

func (f *fake) Format(v Volume, _ Device) error {
	f.content = Content{Formatting: true}
	return f.change("format", func() { f.content, f.fsSize = Content{FSType: v.FSType}, f.devices[0].Size })
}

func (f *fake) Mount(_ context.Context, _ Volume, d Device, path string) error {
	return f.change("mount", func() { f.mounts[path] = Mount{Number: d.Number} })
}

func (f *fake) Bind(from, to string, _ []string) error {
	return f.change("bind "+from, func() {
		f.mounts[to] = f.mounts[from]
		if from == "/dev/loop7" {
			f.mounts[to] = Mount{Number: 7, Raw: true}
		}
	})
}

func stageRequest(change func(*csi.NodeStageVolumeRequest)) *csi.NodeStageVolumeRequest {
	r := &csi.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: staging, VolumeCapability: mounted("ext4"),
		VolumeContext: map[string]string{"stager": "loop", "directory": images}}
	if change != nil {
		change(r)
	}

	return r
}

func mounted(fsType string) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fsType}}}
}

func raw() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}}
}

// calls that have to come to the same end, however often they are made.
func calls(n *Node, c *csi.VolumeCapability) []func() error {
	ctx := context.Background()

	return []func() error{
		func() error {
			_, err := n.NodeStageVolume(ctx, stageRequest(func(r *csi.NodeStageVolumeRequest) { r.VolumeCapability = c }))
			return err
		},
		func() error {
			_, err := n.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{VolumeId: id, StagingTargetPath: staging,
				TargetPath: target, VolumeCapability: c})

			return err
		},
		func() error {
			_, err := n.NodeExpandVolume(ctx, &csi.NodeExpandVolumeRequest{VolumeId: id, VolumePath: target,
				CapacityRange: &csi.CapacityRange{RequiredBytes: gibi}})

			return err
		},
		func() error {
			_, err := n.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: target})
			return err
		},
		func() error {
			_, err := n.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: staging})
			return err
		},
	}
}

func TestSteps(t *testing.T) {
	for _, c := range []struct {
		name string
		of   *csi.VolumeCapability
		want string
	}{
		{"a file system", mounted("xfs"), "attach format mount resize grow bind /kubelet/staging resize grow unmount remove unmount detach"},
		{"a raw device", raw(), "attach bind /dev/loop7 resize unmount remove detach"},
	} {
		f := newFake()
		n := &Node{Host: f, Stagers: loopAlone, Directories: []string{images}}
		for i, call := range calls(n, c.of) {
			if err := call(); err != nil {
				t.Errorf("%s: call %d: %v", c.name, i, err)
			}
		}

		if got := strings.Join(f.changes, " "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// Whichever change fails, before or after it was made, the same call goes on from there the next time. A failed stage
// leaves no device of which the kubelet would know nothing.
func TestFailures(t *testing.T) {
	for _, of := range []*csi.VolumeCapability{mounted("ext4"), raw()} {
		for at := 1; at <= 12; at++ {
			for _, after := range []bool{false, true} {
				f := newFake()
				f.failAt, f.failAfter = at, after
				n := &Node{Host: f, Stagers: loopAlone, Directories: []string{images}}
				for i, call := range calls(n, of) {
					err := call()
					left := i == 0 && len(f.devices) > 0
					if err != nil && left && status.Code(err) != codes.Unavailable {
						t.Errorf("change %d fails: a device is left, and the error is %v", at, err)
					}

					if err != nil {
						err = call()
					}

					if err != nil {
						t.Errorf("change %d fails: call %d once more: %v", at, i, err)
					}
				}

				if len(f.devices)+len(f.mounts) > 0 {
					t.Errorf("change %d fails: %v and %v are left", at, f.devices, f.mounts)
				}
			}
		}
	}
}

// After its own restart the kubelet stages again what pods use. Where the storage is not there for a moment, they keep
// it, and the kubelet is to unstage it when they end.
func TestStagedAgain(t *testing.T) {
	for _, of := range []*csi.VolumeCapability{mounted("ext4"), raw()} {
		f := newFake()
		n := &Node{Host: f, Stagers: loopAlone, Directories: []string{images}}
		all := calls(n, of)
		for _, call := range all[:2] {
			if err := call(); err != nil {
				t.Fatal(err)
			}
		}

		f.noImage, f.changes = status.Error(codes.NotFound, "no image"), nil
		err := all[0]()
		if status.Code(err) != codes.Unavailable || status.Convert(err).Message() != "no image" || len(f.changes) > 0 {
			t.Errorf("error %v after %v", err, f.changes)
		}
	}
}

// A volume that grew while nobody used it has all of its size when it is staged.
func TestGrownBeforeStage(t *testing.T) {
	f := newFake()
	n := &Node{Host: f, Stagers: loopAlone, Directories: []string{images}}
	all := calls(n, mounted("ext4"))
	for _, call := range []func() error{all[0], all[4], func() error { f.image.Size = 2 * gibi; return nil }, all[0]} {
		if err := call(); err != nil {
			t.Fatal(err)
		}
	}

	if f.fsSize != 2*gibi {
		t.Errorf("the file system has %d", f.fsSize)
	}
}

func TestStageRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*csi.NodeStageVolumeRequest)
		want   string
	}{
		"no ID":        {func(r *csi.NodeStageVolumeRequest) { r.VolumeId = "" }, "volume_id is missing"},
		"no path":      {func(r *csi.NodeStageVolumeRequest) { r.StagingTargetPath = "" }, "staging_target_path is missing"},
		"no access":    {func(r *csi.NodeStageVolumeRequest) { r.VolumeCapability.AccessType = nil }, "volume_capability is missing"},
		"up":           {func(r *csi.NodeStageVolumeRequest) { r.VolumeId = ".." }, `volumeHandle is "..": it has to be the volume's name, of at most 58 letters, digits, '-' and '.'`},
		"a path":       {func(r *csi.NodeStageVolumeRequest) { r.VolumeId = "a/b" }, `volumeHandle is "a/b": it has to be the volume's name, of at most 58 letters, digits, '-' and '.'`},
		"hidden":       {func(r *csi.NodeStageVolumeRequest) { r.VolumeId = ".flex-provisioner" }, `volumeHandle is ".flex-provisioner": it has to be the volume's name, of at most 58 letters, digits, '-' and '.'`},
		"a NUL":        {func(r *csi.NodeStageVolumeRequest) { r.VolumeId = "a\x00" }, `volumeHandle is "a\x00": it has to be the volume's name, of at most 58 letters, digits, '-' and '.'`},
		"huge":         {func(r *csi.NodeStageVolumeRequest) { r.VolumeId = strings.Repeat("a", 1<<20) }, `volumeHandle is "` + strings.Repeat("a", 64) + `": it has to be the volume's name, of at most 58 letters, digits, '-' and '.'`},
		"no stager":    {func(r *csi.NodeStageVolumeRequest) { delete(r.VolumeContext, "stager") }, `volumeAttributes.stager is "": this node's flex-node has loop (--stagers)`},
		"any stager":   {func(r *csi.NodeStageVolumeRequest) { r.VolumeContext["stager"] = "exec:sh" }, `volumeAttributes.stager is "exec:sh": this node's flex-node has loop (--stagers)`},
		"any field":    {func(r *csi.NodeStageVolumeRequest) { r.VolumeContext["image"] = "/etc/shadow" }, `volumeAttributes has "image": stager and directory are known`},
		"below":        {func(r *csi.NodeStageVolumeRequest) { r.VolumeContext["directory"] += "/a" }, `volumeAttributes.directory is "/var/lib/flex-loop/a": this node's flex-node has /var/lib/flex-loop, /exports/silver (--directory)`},
		"up from it":   {func(r *csi.NodeStageVolumeRequest) { r.VolumeContext["directory"] += "/.." }, `volumeAttributes.directory is "/var/lib/flex-loop/..": this node's flex-node has /var/lib/flex-loop, /exports/silver (--directory)`},
		"no directory": {func(r *csi.NodeStageVolumeRequest) { delete(r.VolumeContext, "directory") }, `volumeAttributes.directory is "": this node's flex-node has /var/lib/flex-loop, /exports/silver (--directory)`},
		"many nodes": {func(r *csi.NodeStageVolumeRequest) {
			r.VolumeCapability.AccessMode.Mode = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
		}, "access mode MULTI_NODE_MULTI_WRITER: an image is one node's at a time"},
		"a file system": {func(r *csi.NodeStageVolumeRequest) { r.VolumeCapability = mounted("btrfs") }, `fsType is "btrfs": it has to be ext4 or xfs`},
	} {
		f := newFake()
		n := &Node{Host: f, Stagers: loopAlone, Directories: []string{images, "/exports/silver"}}
		_, err := n.NodeStageVolume(context.Background(), stageRequest(c.change))
		if status.Code(err) != codes.InvalidArgument || status.Convert(err).Message() != c.want || len(f.changes) > 0 {
			t.Errorf("%s: %v after %v, want %s", name, err, f.changes, c.want)
		}
	}
}

// What the node has decides, and in doubt nothing is changed.
func TestToStage(t *testing.T) {
	image := Image{File: FileID{1, 2}, Size: gibi}
	own := Device{Path: "/dev/loop7", Number: 7, File: image.File, Volume: id, Marked: true}
	losetup := Device{Path: "/dev/loop3", Number: 3, File: image.File, Volume: id}
	other := Device{Path: "/dev/loop4", Number: 4, File: FileID{1, 3}, Volume: "pvc-other", Marked: true}
	replaced := own
	replaced.File = FileID{1, 9}
	at := func(number uint64) Mount { return Mount{Number: number} }
	for name, c := range map[string]struct {
		block bool
		s     state
		want  step
		fault string
	}{
		"new":                 {s: state{devices: []Device{other}}, want: attach},
		"mounted read-only":   {s: state{devices: []Device{own}, staged: Mount{Number: 7, ReadOnly: true}, grown: true}, want: done},
		"attached by others":  {s: state{devices: []Device{losetup}}, fault: "the image of volume " + id + " has /dev/loop3 already, which is not the volume's: losetup -d /dev/loop3"},
		"attached twice":      {s: state{devices: []Device{own, losetup}}, fault: "the image of volume " + id + " has /dev/loop3 already, which is not the volume's: losetup -d /dev/loop3"},
		"replaced":            {s: state{devices: []Device{replaced}}, fault: "/dev/loop7 of volume " + id + " has another file than /var/lib/flex-loop/" + id + "/image, which was replaced: put it back, or drain the node"},
		"blank":               {s: state{devices: []Device{own}, content: Content{Blank: true}}, want: format},
		"lost":                {s: state{devices: []Device{own}, content: Content{Blank: true, Formatted: true}}, fault: "the image of volume " + id + " had a file system, and its beginning is empty: it is not formatted again; restore it, or remove the file formatted beside it"},
		"half formatted":      {s: state{devices: []Device{own}, content: Content{FSType: "ext4", Formatting: true}}, want: format},
		"somebody's":          {s: state{devices: []Device{own}}, fault: "the image of volume " + id + " is not empty, and has no file system that is known: it is neither mounted nor formatted"},
		"of another type":     {s: state{devices: []Device{own}, content: Content{FSType: "LVM2_member"}}, fault: "the image of volume " + id + ` has "LVM2_member", and the volume's fsType is ext4`},
		"formatted":           {s: state{devices: []Device{own}, content: Content{FSType: "ext4"}}, want: mount},
		"mounted":             {s: state{devices: []Device{own}, staged: at(7)}, want: grow},
		"grown":               {s: state{devices: []Device{own}, staged: at(7), grown: true}, want: done},
		"something in place":  {s: state{devices: []Device{own}, staged: at(4)}, fault: "something else is mounted at the staging path of volume " + id},
		"nothing but a mount": {s: state{staged: at(4)}, fault: "something else is mounted at the staging path of volume " + id},
		"a raw device":        {block: true, s: state{devices: []Device{own}}, want: done},
	} {
		c.s.image = image
		got, err := toStage(Volume{ID: id, Stager: "loop", Directory: images, FSType: "ext4", Block: c.block}, c.s)
		if got != c.want || status.Convert(err).Message() != c.fault {
			t.Errorf("%s: %q, %v, want %q, %s", name, got, err, c.want, c.fault)
		}
	}
}

func TestToPublish(t *testing.T) {
	own := Device{Path: "/dev/loop7", Number: 7, Volume: id, Marked: true}
	for name, c := range map[string]struct {
		block, readOnly bool
		s               state
		want            step
		fault           string
	}{
		"not staged":         {s: state{}, fault: "volume " + id + " is not staged"},
		"attached alone":     {s: state{devices: []Device{own}}, fault: "volume " + id + " is not staged"},
		"another's staged":   {s: state{devices: []Device{own}, staged: Mount{Number: 4}}, fault: "volume " + id + " is not staged"},
		"staged":             {s: state{devices: []Device{own}, staged: Mount{Number: 7}}, want: bind},
		"published":          {s: state{devices: []Device{own}, staged: Mount{Number: 7}, target: Mount{Number: 7}}, want: done},
		"something in place": {s: state{devices: []Device{own}, staged: Mount{Number: 7}, target: Mount{Number: 4}}, fault: "something else is mounted at the target path of volume " + id},
		"staged read-only":   {s: state{devices: []Device{own}, staged: Mount{Number: 7, ReadOnly: true}, target: Mount{Number: 7, ReadOnly: true}}, want: done},
		"read-only":          {readOnly: true, s: state{devices: []Device{own}, staged: Mount{Number: 7}, target: Mount{Number: 7, ReadOnly: true}}, want: done},
		"not yet read-only":  {readOnly: true, s: state{devices: []Device{own}, staged: Mount{Number: 7}, target: Mount{Number: 7}}, want: unmount},
		"a raw device":       {block: true, s: state{devices: []Device{own}}, want: bind},
		"a raw device there": {block: true, s: state{devices: []Device{own}, target: Mount{Number: 7, Raw: true}}, want: done},
		"of the other mode":  {block: true, s: state{devices: []Device{own}, target: Mount{Number: 7}}, fault: "something else is mounted at the target path of volume " + id},
	} {
		got, err := toPublish(Volume{ID: id, Block: c.block}, c.readOnly, c.s)
		if got != c.want || status.Convert(err).Message() != c.fault {
			t.Errorf("%s: %q, %v, want %q, %s", name, got, err, c.want, c.fault)
		}
	}
}

// The author of a pod could write attributes.
func TestEphemeralRefused(t *testing.T) {
	n := &Node{Host: newFake()}
	_, err := n.NodePublishVolume(context.Background(), &csi.NodePublishVolumeRequest{VolumeId: id, TargetPath: target,
		StagingTargetPath: staging, VolumeCapability: mounted("ext4"), VolumeContext: map[string]string{ephemeral: "true"}})
	want := "a volume in the spec of a pod: only persistent volumes are known"
	if status.Code(err) != codes.InvalidArgument || status.Convert(err).Message() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// A node may learn late of a size.
func TestExpandTooEarly(t *testing.T) {
	n := &Node{Host: newFake(), Stagers: loopAlone, Directories: []string{images}}
	all := calls(n, mounted("ext4"))
	for _, call := range all[:2] {
		if err := call(); err != nil {
			t.Fatal(err)
		}
	}

	_, err := n.NodeExpandVolume(context.Background(), &csi.NodeExpandVolumeRequest{VolumeId: id, VolumePath: target,
		CapacityRange: &csi.CapacityRange{RequiredBytes: 2 * gibi}})
	want := fmt.Sprintf("the image of volume %s has %d bytes on this node, and not yet %d", id, gibi, 2*gibi)
	if status.Code(err) != codes.Unavailable || status.Convert(err).Message() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// Storage that does not answer keeps one call, and no caller.
func TestStatsHang(t *testing.T) {
	f := newFake()
	n := &Node{Host: f, Stagers: loopAlone, Directories: []string{images}}
	for _, call := range calls(n, mounted("ext4"))[:2] {
		if err := call(); err != nil {
			t.Fatal(err)
		}
	}

	answers := make(chan Usage)
	f.usage = func() (Usage, error) { return <-answers, nil }
	stats := func(ctx context.Context) (*csi.NodeGetVolumeStatsResponse, error) {
		return n.NodeGetVolumeStats(ctx, &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: target})
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, want := range []codes.Code{codes.DeadlineExceeded, codes.Aborted} {
		if _, err := stats(ctx); status.Code(err) != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}

	answers <- Usage{}
	f.usage = func() (Usage, error) { return Usage{Bytes: Amounts{3, 2, 1}}, nil }
	for {
		r, err := stats(context.Background())
		if status.Code(err) == codes.Aborted { // the first call ends
			continue
		}

		if err != nil || r.GetUsage()[0].GetAvailable() != 1 {
			t.Errorf("usage %v, %v", r, err)
		}

		return
	}
}

func TestBusy(t *testing.T) {
	var b busy
	end, err := b.begin("volume a")
	if err != nil {
		t.Fatal(err)
	}

	if _, err := b.begin("volume a"); status.Code(err) != codes.Aborted {
		t.Errorf("a second call: %v", err)
	}

	end()
	if _, err := b.begin("volume a"); err != nil {
		t.Error(err)
	}
}
