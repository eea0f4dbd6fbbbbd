//go:build conformance

package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// An application without privileges chooses the groups of a subvolume that it makes. The image cannot prevent it, and README.md says
// so. If a kernel refuses it, this fails: then sizes hold against intent too, and README.md and docs/security.md can say that.
func TestSizesHoldAgainstAccidentsAlone(t *testing.T) {
	d := newDisk(t, "btrfs", newServer(t))
	want(t, "provision", d.provision(t, 1, 20*mebi), "")
	want(t, "provision", d.provision(t, 2, 40*mebi), "")
	other, err := groupOf("pvc-" + uid(2))
	if err != nil {
		t.Fatal(err)
	}
	if err := createAsApplication(d.dir(1), "outside"); err != nil {
		t.Fatalf("a subvolume without groups: %v", err)
	}
	if err := createAsApplication(d.dir(1), "others", other); err != nil {
		t.Fatalf("a subvolume in the group of another volume: %v", err)
	}
	run(t, "btrfs", "subvolume", "create", d.dir(1)+"/others/inside")
	if err := createWithLimit(d.dir(1), "limited", mebi); err != nil {
		t.Fatalf("a subvolume with a limit of its own: %v", err)
	}
	run(t, "btrfs", "subvolume", "create", d.dir(1)+"/limited/inside")
	write(t, d.dir(1)+"/limited/data", 2*mebi)
	if got := write(t, d.dir(1)+"/outside/data", 60*mebi); got != 60*mebi {
		t.Errorf("a subvolume without groups took %d bytes", got)
	}
	if got := write(t, d.dir(1)+"/others/data", 60*mebi); got > 40*mebi || got < 38*mebi {
		t.Errorf("a subvolume in the group of a volume of 40Mi took %d bytes", got)
	}
	if got := write(t, d.dir(2)+"/data", 20*mebi); got > mebi {
		t.Errorf("the other volume took %d bytes", got)
	}
	run(t, "btrfs", "property", "set", d.dir(1)+"/others", "ro", "true")
	want(t, "delete of what another volume's limit holds", d.delete(t, 1), "")
	if _, err := os.Lstat(d.dir(1)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the volume is there after its delete: %v", err)
	}
}

// createAsApplication makes a subvolume in a directory as a user without privileges, with the groups and no others.
func createAsApplication(dir, name string, groups ...uint64) error {
	return createWithLimit(dir, name, 0, groups...)
}

func createWithLimit(dir, name string, limit uint64, groups ...uint64) error {
	root, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	// struct btrfs_qgroup_inherit, and struct btrfs_ioctl_vol_args_v2 with it.
	inherit := append([]uint64{0, uint64(len(groups)), 0, 0, 0, 0, 0, 0, 0}, groups...)
	if limit != 0 {
		inherit[0], inherit[4], inherit[5] = 1, 1, limit
	}
	args := struct {
		fd, transaction, flags, size uint64
		inherit                      *uint64
		_                            [2]uint64
		name                         [4040]byte
	}{flags: 1 << 2, size: uint64(8 * len(inherit)), inherit: &inherit[0]}
	copy(args.name[:], name)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock it: the thread ends with its user
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), 65534, ^uintptr(0)); errno != 0 {
			done <- errno
			return
		}
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, root.Fd(), 0x50009418, uintptr(unsafe.Pointer(&args))); errno != 0 {
			done <- errno
			return
		}
		done <- nil
	}()
	return <-done
}

// A user makes subvolumes, at any depth and with any names, and makes those read-only that others are in.
func TestDeleteOfReadOnly(t *testing.T) {
	d := newDisk(t, "btrfs", newServer(t))
	long := strings.Repeat("/"+strings.Repeat("x", 250), 15)
	for name, c := range map[string]struct{ subvolumes, readOnly []string }{
		"the volume itself": {[]string{"/a"}, []string{""}},
		"two levels":        {[]string{"/a", "/a/b"}, []string{"/a"}},
		"three levels":      {[]string{"/a", "/a/b", "/a/b/dir/c"}, []string{"/a/b", "/a", ""}},
		"long names":        {[]string{"/a", "/a/b" + long, "/a/b" + long + "/c"}, []string{"/a/b" + long, "/a"}},
		"siblings":          {[]string{"/a", "/a/b", "/a/c", "/dir/d", "/dir/d/e"}, []string{"/a", "/dir/d"}},
	} {
		t.Run(name, func(t *testing.T) {
			want(t, "provision", d.provision(t, 1, 20*mebi), "")
			for _, path := range c.subvolumes {
				if err := os.MkdirAll(filepath.Dir(d.dir(1)+path), 0o755); err != nil {
					t.Fatal(err)
				}
				t.Chdir(filepath.Dir(d.dir(1) + path))
				run(t, "btrfs", "subvolume", "create", filepath.Base(path))
			}
			for _, path := range c.readOnly {
				run(t, "btrfs", "property", "set", d.dir(1)+path, "ro", "true")
			}
			t.Chdir("/")
			want(t, "delete", d.delete(t, 1), "")
			if _, err := os.Lstat(d.dir(1)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the volume is there after its delete: %v", err)
			}
		})
	}
}
