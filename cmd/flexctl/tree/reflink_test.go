//go:build conformance

package tree

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReflink: on file systems that can share data a copy takes no room. On others it is refused, and nothing is left.
func TestReflink(t *testing.T) {
	for fsType, shares := range map[string]bool{"xfs": true, "btrfs": true, "ext4": false} {
		t.Run(fsType, func(t *testing.T) {
			image, root := filepath.Join(t.TempDir(), "disk"), t.TempDir()
			run(t, "truncate", "-s", "512M", image)
			run(t, "mkfs."+fsType, "-q", image)
			run(t, "mount", "-o", "loop", image, root)
			t.Cleanup(func() { run(t, "umount", root) })
			from, to := filepath.Join(root, "from"), filepath.Join(root, "to")
			must(t, os.Mkdir(from, 0o755))
			fillTree(t, from)
			must(t, os.WriteFile(filepath.Join(from, "large"), bytes.Repeat([]byte("0123456789abcdef"), 6<<20), 0o600))
			unix.Sync()
			before := free(t, root)
			err := Copy(from, to, false)
			unix.Sync()
			took := before - free(t, root)
			if !shares {
				if !errors.Is(err, ErrNoClone) {
					t.Errorf("error %v, want %v", err, ErrNoClone)
				}
				if names := namesIn(t, root); names != "from lost+found" {
					t.Errorf("there are %s", names)
				}
				return
			}
			must(t, err)
			t.Logf("96 MiB took %d KiB", took>>10)
			if took > 4<<20 {
				t.Errorf("a copy of 96 MiB took %d bytes", took)
			}
			if got, want := describe(t, to), describe(t, from); got != want {
				t.Errorf("the copy is\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func free(t *testing.T, root string) int64 {
	t.Helper()
	var stat unix.Statfs_t
	must(t, unix.Statfs(root, &stat))
	return int64(stat.Bfree) * stat.Bsize
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
}
