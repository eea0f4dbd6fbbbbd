//go:build conformance

// These tests attach loop devices and mount file systems, in a mount namespace of their own. They need root, e2fsprogs
// and xfsprogs.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flex-provisioner/flex-provisioner/cmd/flex-node/driver"
	"github.com/flex-provisioner/flex-provisioner/cmd/flex-node/host"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

const (
	ownMounts = "FLEX_NODE_TEST_OWN_MOUNTS"
	// work has the calls of a process that dies at the change dieAt.
	work  = "FLEX_NODE_TEST_WORK"
	dieAt = "FLEX_NODE_TEST_DIE_AT"

	mebi = 1 << 20
	// size is the least for which mkfs.xfs makes a file system.
	size = 300 * mebi
)

func TestMain(m *testing.M) {
	if os.Getenv(work) != "" {
		os.Exit(doWork())
	}

	if os.Getenv(ownMounts) != "" {
		sdktest.MainWithFlexctl(m)
	}

	again := exec.Command(os.Args[0], os.Args[1:]...)
	again.Env = append(os.Environ(), ownMounts+"=1")
	again.Stdout, again.Stderr = os.Stdout, os.Stderr
	again.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if err := again.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// mortal kills the process before a change.
type mortal struct {
	driver.Host
	changes *int
	at      int
}

const killed = 137

func (m mortal) die() {
	*m.changes++
	if *m.changes == m.at {
		os.Exit(killed)
	}
}

func (m mortal) Attach(v driver.Volume) error { m.die(); return m.Host.Attach(v) }

func (m mortal) Detach(ctx context.Context, d driver.Device) error {
	m.die()
	return m.Host.Detach(ctx, d)
}

func (m mortal) Resize(d driver.Device, dirs []string) (int64, error) {
	m.die()
	return m.Host.Resize(d, dirs)
}

func (m mortal) Format(v driver.Volume, d driver.Device) error { m.die(); return m.Host.Format(v, d) }

func (m mortal) Mount(ctx context.Context, v driver.Volume, d driver.Device, path string) error {
	m.die()
	return m.Host.Mount(ctx, v, d, path)
}

func (m mortal) Grow(d driver.Device, path string) error { m.die(); return m.Host.Grow(d, path) }

func (m mortal) Bind(from, to string, options []string) error {
	m.die()
	return m.Host.Bind(from, to, options)
}

func (m mortal) Unmount(path string) error { m.die(); return m.Host.Unmount(path) }
func (m mortal) Remove(path string) error  { m.die(); return m.Host.Remove(path) }

// volume is one volume, and its paths.
type volume struct {
	node            *driver.Node
	id, dir         string
	fsType          string // empty for a raw device
	staging, target string
	// ownMounts is CLONE_NEWNS for calls by a process with mounts of its own, as a container has them.
	ownMounts uintptr
}

func newVolume(t *testing.T, dir, fsType string) volume {
	t.Helper()
	v := namedVolume(t, dir, fsType, "test-"+strings.ToLower(rand.Text()))
	must(t, os.Mkdir(v.folder(), 0o700))
	run(t, "fallocate", "-l", strconv.Itoa(size), v.image())

	return v
}

// namedVolume is one whose image somebody else makes.
func namedVolume(t *testing.T, dir, fsType, id string) volume {
	t.Helper()
	v := volume{id: id, dir: dir, fsType: fsType}
	kubelet := t.TempDir()
	v.staging, v.target = filepath.Join(kubelet, "staging"), filepath.Join(kubelet, "pod", "target")
	v.node = &driver.Node{Host: host.New(""), Stagers: []string{"loop"}, Directories: []string{dir}}
	must(t, os.MkdirAll(v.staging, 0o750))
	t.Cleanup(func() {
		_, _ = v.unpublish()
		_, _ = v.unstage()
		v.wantDevices(t, 0)
	})

	return v
}

func (v volume) folder() string { return filepath.Join(v.dir, v.id) }
func (v volume) image() string  { return filepath.Join(v.folder(), "image") }

func (v volume) capability() *csi.VolumeCapability {
	c := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{
		Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER}}
	if v.fsType == "" {
		c.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
	} else {
		c.AccessType = &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: v.fsType}}
	}

	return c
}

func (v volume) stage() (any, error) {
	return v.node.NodeStageVolume(context.Background(), &csi.NodeStageVolumeRequest{VolumeId: v.id,
		StagingTargetPath: v.staging, VolumeCapability: v.capability(),
		VolumeContext: map[string]string{"stager": "loop", "directory": v.dir}})
}

func (v volume) publish() (any, error) {
	return v.node.NodePublishVolume(context.Background(), &csi.NodePublishVolumeRequest{VolumeId: v.id,
		StagingTargetPath: v.staging, TargetPath: v.target, VolumeCapability: v.capability()})
}

func (v volume) unpublish() (any, error) {
	return v.node.NodeUnpublishVolume(context.Background(), &csi.NodeUnpublishVolumeRequest{VolumeId: v.id,
		TargetPath: v.target})
}

func (v volume) unstage() (any, error) {
	return v.node.NodeUnstageVolume(context.Background(), &csi.NodeUnstageVolumeRequest{VolumeId: v.id,
		StagingTargetPath: v.staging})
}

func (v volume) expand(to int64) (*csi.NodeExpandVolumeResponse, error) {
	return v.node.NodeExpandVolume(context.Background(), &csi.NodeExpandVolumeRequest{VolumeId: v.id,
		VolumePath: v.target, StagingTargetPath: v.staging, CapacityRange: &csi.CapacityRange{RequiredBytes: to}})
}

func (v volume) stats(t *testing.T) *csi.VolumeUsage {
	t.Helper()
	r, err := v.node.NodeGetVolumeStats(context.Background(), &csi.NodeGetVolumeStatsRequest{VolumeId: v.id,
		VolumePath: v.target})
	must(t, err)

	return r.GetUsage()[0]
}

var calls = map[string]func(volume) (any, error){
	"stage": volume.stage, "publish": volume.publish, "unpublish": volume.unpublish, "unstage": volume.unstage,
}

// do makes calls, which have to succeed.
func (v volume) do(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := calls[name](v); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// doKilled makes calls in a process that dies before a change. ended reports whether it did not come to that.
func (v volume) doKilled(t *testing.T, at int, names ...string) (ended bool) {
	t.Helper()
	process := exec.Command(os.Args[0])
	process.SysProcAttr = &syscall.SysProcAttr{Unshareflags: v.ownMounts}
	process.Env = append(os.Environ(), work+"="+strings.Join([]string{
		strings.Join(names, ","), v.id, v.dir, v.fsType, v.staging, v.target}, " "), fmt.Sprintf("%s=%d", dieAt, at))
	output, err := process.CombinedOutput()
	if err != nil && process.ProcessState.ExitCode() != killed {
		t.Fatalf("killed at change %d: %v: %s", at, err, output)
	}

	return err == nil
}

func doWork() int {
	parts := strings.Split(os.Getenv(work), " ")
	at, err := strconv.Atoi(os.Getenv(dieAt))
	if err != nil {
		panic(err)
	}

	v := volume{id: parts[1], dir: parts[2], fsType: parts[3], staging: parts[4], target: parts[5]}
	v.node = &driver.Node{Host: mortal{host.New(""), new(int), at}, Stagers: []string{"loop"}, Directories: []string{v.dir}}
	for name := range strings.SplitSeq(parts[0], ",") {
		if _, err := calls[name](v); err != nil {
			fmt.Println(name, err)
			return 1
		}
	}

	return 0
}

func (v volume) wantDevices(t *testing.T, want int) {
	t.Helper()
	devices, err := host.New("").Devices()
	must(t, err)
	devices = slices.DeleteFunc(devices, func(d driver.Device) bool { return d.Volume != v.id || !d.Marked })
	if len(devices) != want {
		t.Errorf("volume %s has the devices %v, want %d", v.id, devices, want)
	}
}

// directIO reports whether the device of the volume writes past the cache of the node.
func (v volume) directIO(t *testing.T) bool {
	t.Helper()
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	must(t, err)
	for _, path := range files {
		if file, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(file)) == v.image() {
			direct, err := os.ReadFile(filepath.Join(filepath.Dir(path), "dio"))
			must(t, err)

			return string(direct) == "1\n"
		}
	}
	t.Errorf("%s has no device", v.image())

	return false
}

// wantNoLoop asks the kernel for devices that have the image.
func (v volume) wantNoLoop(t *testing.T) {
	t.Helper()
	attached, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	must(t, err)
	for _, path := range attached {
		if file, err := os.ReadFile(path); err == nil && strings.Contains(string(file), v.id) {
			t.Errorf("%s is %s", path, file)
		}
	}
}

// wantError is that a call ends with the code, and says the text.
func wantError(t *testing.T, err error, code codes.Code, text string) {
	t.Helper()
	if status.Code(err) != code || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want %s with %q", err, code, text)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}

	return string(out)
}

// disks are directories on file systems of nodes.
func disks(t *testing.T, test func(t *testing.T, dir string)) {
	t.Run("on the root", func(t *testing.T) { test(t, t.TempDir()) })
	for _, fsType := range []string{"xfs", "btrfs"} {
		t.Run("on "+fsType, func(t *testing.T) { test(t, newDisk(t, fsType)) })
	}
}

func newDisk(t *testing.T, fsType string) string {
	t.Helper()
	file, dir := filepath.Join(t.TempDir(), "disk"), t.TempDir()
	run(t, "truncate", "-s", "2G", file)
	run(t, "mkfs."+fsType, "-q", file)
	run(t, "mount", "-o", "loop", file, dir)
	t.Cleanup(func() { run(t, "umount", dir) })

	return dir
}

// fill writes until the file system is full, and says how much that was.
func fill(t *testing.T, path string) (written int64) {
	t.Helper()
	file, err := os.Create(path)
	must(t, err)
	defer file.Close()

	block := make([]byte, mebi)
	for {
		n, err := file.Write(block)
		written += int64(n)
		if errors.Is(err, syscall.ENOSPC) {
			return written
		}

		must(t, err)
	}
}

// canGrow reports whether this machine's root may grow a file system in use.
func canGrow(fsType string) bool {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}

	_, rest, _ := strings.Cut(string(data), "CapEff:\t")
	effective, err := strconv.ParseUint(rest[:16], 16, 64)

	return err == nil && (fsType != "ext4" || effective>>unix.CAP_SYS_RESOURCE&1 == 1)
}

func TestFileSystem(t *testing.T) {
	disks(t, func(t *testing.T, dir string) {
		for _, fsType := range []string{"ext4", "xfs"} {
			t.Run(fsType, func(t *testing.T) {
				v := newVolume(t, dir, fsType)
				v.do(t, "stage", "stage", "publish", "publish")
				if direct := v.directIO(t); direct == (run(t, "stat", "-fc", "%T", dir) == "btrfs\n") {
					t.Errorf("direct I/O: %t", direct)
				}

				must(t, os.WriteFile(v.target+"/data", []byte("kept"), 0o600))
				if got := fill(t, v.target+"/more"); got > size || got < size/2 {
					t.Errorf("a volume of %d bytes took %d", size, got)
				}

				if u := v.stats(t); u.GetTotal() > size || u.GetTotal() < size/2 || u.GetAvailable() > mebi {
					t.Errorf("usage %v", u)
				}

				var allocated syscall.Stat_t
				must(t, syscall.Stat(v.image(), &allocated))
				if allocated.Size != size || allocated.Blocks*512 < size/100*99 {
					t.Errorf("the image has %d bytes, and %d are allocated", allocated.Size, allocated.Blocks*512)
				}

				_, err := v.expand(2 * size)
				if canGrow(fsType) {
					wantError(t, err, codes.Unavailable, "and not yet")
					run(t, "fallocate", "-l", strconv.Itoa(2*size), v.image())
					r, err := v.expand(2 * size)
					must(t, err)
					if r.GetCapacityBytes() != 2*size || v.stats(t).GetTotal() < size*3/2 {
						t.Errorf("grown to %v, %v", r, v.stats(t))
					}
				}

				v.do(t, "unpublish", "unpublish", "unstage", "unstage")
				v.wantDevices(t, 0)
				if _, err := os.Lstat(v.target); !os.IsNotExist(err) {
					t.Errorf("the target: %v", err)
				}

				v.do(t, "stage", "publish")
				if data, err := os.ReadFile(v.target + "/data"); err != nil || string(data) != "kept" {
					t.Errorf("staged again it has %q, %v", data, err)
				}
			})
		}
	})
}

func TestRawDevice(t *testing.T) {
	disks(t, func(t *testing.T, dir string) {
		v := newVolume(t, dir, "")
		v.do(t, "stage", "stage", "publish", "publish")
		run(t, "dd", "if=/dev/zero", "of="+v.target, "bs=1M", "count=300", "conv=notrunc")
		must(t, os.WriteFile(v.target, []byte("kept"), 0))
		if u := v.stats(t); u.GetTotal() != size {
			t.Errorf("usage %v", u)
		}

		run(t, "fallocate", "-l", strconv.Itoa(2*size), v.image())
		if r, err := v.expand(2 * size); err != nil || r.GetCapacityBytes() != 2*size || v.stats(t).GetTotal() != 2*size {
			t.Errorf("grown to %v, %v", r, err)
		}

		v.do(t, "unpublish", "unstage")
		v.wantDevices(t, 0)
		v.do(t, "stage", "publish")
		if data := run(t, "head", "-c", "4", v.target); data != "kept" {
			t.Errorf("staged again it has %q", data)
		}
	})
}

// Killed before every change, the program gets there the next time, and nothing is lost or left.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	for _, fsType := range []string{"ext4", "xfs", ""} {
		t.Run("fsType="+fsType, func(t *testing.T) {
			data := "/data"
			if fsType == "" {
				data = ""
			}

			for at, ended := 1, false; !ended; at++ {
				v := newVolume(t, dir, fsType)
				ended = v.doKilled(t, at, "stage", "publish")
				if ended && at < 3 {
					t.Fatalf("there are only %d changes", at-1)
				}

				v.do(t, "stage", "publish")
				v.wantDevices(t, 1)
				must(t, os.WriteFile(v.target+data, []byte("kept"), 0o600))
				if v.doKilled(t, at, "unpublish", "unstage") && at < 3 {
					t.Fatalf("there are only %d changes", at-1)
				}

				v.do(t, "stage", "publish")
				if got := run(t, "head", "-c", "4", v.target+data); got != "kept" {
					t.Errorf("killed at %d: %q", at, got)
				}

				v.do(t, "unpublish", "unstage")
				v.wantDevices(t, 0)

				v.doKilled(t, at, "stage", "publish")
				v.do(t, "unpublish", "unstage")
				v.wantDevices(t, 0)
				must(t, os.RemoveAll(v.folder()))
			}
		})
	}
}

// Killed while a file system is made, the program makes it anew. What is mounted was made whole.
func TestKilledWhileFormatting(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs"} {
		t.Run(fsType, func(t *testing.T) {
			v := newVolume(t, t.TempDir(), fsType)
			must(t, os.WriteFile(v.folder()+"/formatting", nil, 0o600))
			run(t, "dd", "if=/dev/urandom", "of="+v.image(), "bs=1M", "count=2", "conv=notrunc")
			v.do(t, "stage")
			if _, err := os.Lstat(v.folder() + "/formatting"); !os.IsNotExist(err) {
				t.Errorf("the mark: %v", err)
			}

			v.do(t, "unstage")
			run(t, "dd", "if=/dev/zero", "of="+v.image(), "bs=1M", "count=2", "conv=notrunc")
			_, err := v.stage()
			wantError(t, err, codes.FailedPrecondition, "it is not formatted again")
		})
	}
}

func TestHostileImages(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	victim := newVolume(t, dir, "ext4")
	for name, c := range map[string]struct {
		prepare func(t *testing.T, v volume)
		code    codes.Code
		want    string
	}{
		"no image":    {func(*testing.T, volume) {}, codes.NotFound, "has no image here"},
		"no folder":   {func(t *testing.T, v volume) { must(t, os.Remove(v.folder())) }, codes.NotFound, "has no image here"},
		"a directory": {func(t *testing.T, v volume) { must(t, os.Mkdir(v.image(), 0o700)) }, codes.FailedPrecondition, "is a directory"},
		"a pipe":      {func(t *testing.T, v volume) { must(t, syscall.Mkfifo(v.image(), 0o600)) }, codes.FailedPrecondition, "is no regular file"},
		"a device": {func(t *testing.T, v volume) {
			must(t, syscall.Mknod(v.image(), syscall.S_IFBLK|0o600, int(unix.Mkdev(7, 0))))
		}, codes.FailedPrecondition, "is no regular file"},
		"nothing in it": {func(t *testing.T, v volume) { must(t, os.WriteFile(v.image(), nil, 0o600)) }, codes.FailedPrecondition, "is empty"},
		"a link to a file": {func(t *testing.T, v volume) { must(t, os.Symlink(victim.image(), v.image())) },
			codes.FailedPrecondition, "too many levels of symbolic links"},
		"a second name": {func(t *testing.T, v volume) { must(t, os.Link(victim.image(), v.image())) },
			codes.FailedPrecondition, "has 2 names"},
		"a link to a folder": {func(t *testing.T, v volume) {
			must(t, os.WriteFile(outside+"/image", make([]byte, mebi), 0o600))
			must(t, os.Remove(v.folder()))
			must(t, os.Symlink(outside, v.folder()))
		}, codes.FailedPrecondition, "not a directory"},
		"another file system": {func(t *testing.T, v volume) {
			run(t, "mount", "-t", "tmpfs", "tmpfs", v.folder())
			t.Cleanup(func() { run(t, "umount", v.folder()) })
			must(t, os.WriteFile(v.image(), make([]byte, mebi), 0o600))
		}, codes.FailedPrecondition, "cross-device"},
		"somebody's data": {func(t *testing.T, v volume) {
			must(t, os.WriteFile(v.image(), []byte(strings.Repeat("my data ", mebi)), 0o600))
		}, codes.FailedPrecondition, "neither mounted nor formatted"},
		"a partition table": {func(t *testing.T, v volume) {
			run(t, "truncate", "-s", "300M", v.image())
			command := exec.Command("sfdisk", "-q", v.image())
			command.Stdin = strings.NewReader("label: gpt\n,\n")
			if out, err := command.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}, codes.FailedPrecondition, "unknown data, probably partitions"},
		"another file system on it": {func(t *testing.T, v volume) {
			run(t, "truncate", "-s", "300M", v.image())
			run(t, "mkfs.xfs", "-q", v.image())
		}, codes.FailedPrecondition, "has \"xfs\", and the volume's fsType is ext4"},
		"another program's": {func(t *testing.T, v volume) {
			run(t, "truncate", "-s", "300M", v.image())
			device := strings.TrimSpace(run(t, "losetup", "-f", "--show", v.image()))
			t.Cleanup(func() { run(t, "losetup", "-d", device) })
		}, codes.FailedPrecondition, "which is not the volume's: losetup -d /dev/loop"},
		"a locked one": {func(t *testing.T, v volume) {
			must(t, os.WriteFile(v.image(), make([]byte, mebi), 0o600))
			file, err := os.Open(v.image())
			must(t, err)
			must(t, syscall.Flock(int(file.Fd()), syscall.LOCK_SH))
			t.Cleanup(func() { file.Close() })
		}, codes.FailedPrecondition, "another node, or another program, has the image"},
		"too small": {func(t *testing.T, v volume) { must(t, os.WriteFile(v.image(), make([]byte, 512), 0o600)) },
			codes.Internal, "mkfs.ext4"},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVolume(t, dir, "ext4")
			must(t, os.Remove(v.image()))
			c.prepare(t, v)
			_, err := v.stage()
			wantError(t, err, c.code, c.want)
			v.wantDevices(t, 0)
			_, err = v.publish()
			wantError(t, err, codes.FailedPrecondition, "is not staged")
		})
	}
}

// Whoever writes the bytes of a file system can ask the kernel to panic at the next error. What is mounted does not.
func TestHostileFileSystem(t *testing.T) {
	v := newVolume(t, t.TempDir(), "ext4")
	run(t, "mkfs.ext4", "-q", "-e", "panic", v.image())
	run(t, "tune2fs", "-o", "acl", "-E", "mount_opts=errors=panic", v.image())
	v.do(t, "stage")
	if mounts := run(t, "findmnt", "-no", "OPTIONS", v.staging); strings.Contains(mounts, "panic") || !strings.Contains(mounts, "nodev") {
		t.Errorf("mounted with %s", mounts)
	}
}

// Who has a raw device can change what the kernel says of it, but not the file that it has.
func TestHostileDevice(t *testing.T) {
	dir := t.TempDir()
	victim := newVolume(t, dir, "")
	for _, name := range []string{"flex:" + victim.id, "flex:..", ""} {
		v := newVolume(t, dir, "")
		v.do(t, "stage", "publish")
		device, err := os.OpenFile(v.target, os.O_RDWR, 0)
		must(t, err)
		info, err := unix.IoctlLoopGetStatus64(int(device.Fd()))
		must(t, err)
		info.File_name = [64]uint8{}
		copy(info.File_name[:], name)
		must(t, unix.IoctlLoopSetStatus64(int(device.Fd()), info))
		must(t, device.Close())

		victim.wantDevices(t, 0)
		_, err = victim.publish()
		wantError(t, err, codes.FailedPrecondition, "is not staged")
		v.do(t, "unpublish", "unstage")
		v.wantNoLoop(t)
	}
}

// A provisioner pod may remove a volume before the kubelet unstages it.
func TestRemovedWhileStaged(t *testing.T) {
	v := newVolume(t, t.TempDir(), "ext4")
	v.do(t, "stage")
	removed := filepath.Join(v.dir, "."+v.id+".copy-removed")
	must(t, os.Rename(v.folder(), removed))
	must(t, os.RemoveAll(removed))
	v.do(t, "unstage")
	v.wantNoLoop(t)
}

// The kernel has the image locked as long as it has the device, although the process that staged it is gone.
func TestLockOutlivesProcess(t *testing.T) {
	v := newVolume(t, t.TempDir(), "ext4")
	v.doKilled(t, 0, "stage", "publish")
	file, err := os.Open(v.image())
	must(t, err)
	defer file.Close()

	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("lock of a staged image: %v", err)
	}

	v.do(t, "unpublish", "unstage")
	must(t, syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB))
}

// The pod of flex-node is replaced: its mounts are gone, and the kubelet unmounts what it had mounted for the pod, as
// an NFS export. The device works on, and is the volume's for the next pod.
func TestUpgrade(t *testing.T) {
	disk, dir := filepath.Join(t.TempDir(), "disk"), t.TempDir()
	run(t, "truncate", "-s", "1G", disk)
	run(t, "mkfs.xfs", "-q", disk)
	device := strings.TrimSpace(run(t, "losetup", "-f", "--show", disk))
	t.Cleanup(func() { run(t, "losetup", "-d", device) })
	run(t, "mount", device, dir)
	t.Cleanup(func() { run(t, "umount", dir) })
	v := newVolume(t, dir, "")
	v.ownMounts = syscall.CLONE_NEWNS
	v.doKilled(t, 0, "stage")
	run(t, "umount", dir)
	v.do(t, "publish")
	must(t, os.WriteFile(v.target, []byte("kept"), 0))
	run(t, "sync", v.target)
	run(t, "mount", device, dir)
	v.do(t, "stage")
	v.wantDevices(t, 1)
	run(t, "fallocate", "-l", strconv.Itoa(2*size), v.image())
	if _, err := v.expand(2 * size); err != nil {
		t.Error(err)
	}

	v.do(t, "unpublish", "unstage")
	if got := run(t, "head", "-c", "4", v.image()); got != "kept" {
		t.Errorf("the image has %q", got)
	}
}

// An image that was replaced under a staged volume is not taken for it.
func TestReplaced(t *testing.T) {
	v := newVolume(t, t.TempDir(), "ext4")
	v.do(t, "stage")
	must(t, os.Rename(v.image(), v.image()+"-away"))
	run(t, "truncate", "-s", "300M", v.image())
	_, err := v.stage()
	wantError(t, err, codes.Unavailable, "which was replaced: put it back, or drain the node")
	v.wantDevices(t, 1)
	must(t, os.Rename(v.image()+"-away", v.image()))
	v.do(t, "stage")
}

// A volume and its copy have one UUID, and are on one node.
func TestCopy(t *testing.T) {
	dir := newDisk(t, "xfs")
	for _, fsType := range []string{"ext4", "xfs"} {
		v, c := newVolume(t, dir, fsType), newVolume(t, dir, fsType)
		v.do(t, "stage", "publish")
		must(t, os.WriteFile(v.target+"/data", []byte("kept"), 0o600))
		run(t, "sync", "-f", v.target)
		run(t, "cp", "--reflink=always", v.image(), c.image())
		c.do(t, "stage", "publish")
		if data, err := os.ReadFile(c.target + "/data"); err != nil || string(data) != "kept" {
			t.Errorf("the copy of %s has %q, %v", fsType, data, err)
		}

		v.do(t, "unpublish", "unstage", "stage", "publish")
	}
}
