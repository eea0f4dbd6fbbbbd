package conformance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	// maxOutput is the limit in bytes on the beginning, and on the end, of what a pod prints. All runs are kept until
	// the report.
	maxOutput = 64 << 10
	// maxMessage is the part of the termination log that the kubelet reads: its end.
	maxMessage = 4096
	// tmpDir is where the canary falls.
	tmpDir = "/tmp"
)

// podOutput keeps the beginning and the end of what a pod prints.
type podOutput struct {
	head, tail []byte
	// left is the number of bytes between the two that are left out.
	left int64
}

// Write never fails.
func (o *podOutput) Write(p []byte) (int, error) {
	n := min(len(p), maxOutput-len(o.head))
	o.head = append(o.head, p[:n]...)
	o.tail = append(o.tail, p[n:]...)
	if over := len(o.tail) - maxOutput; over > 0 {
		o.tail = append(o.tail[:0], o.tail[over:]...)
		o.left += int64(over)
	}
	return len(p), nil
}

func (o *podOutput) String() string {
	if o.left == 0 {
		return string(o.head) + string(o.tail)
	}
	return fmt.Sprintf("%s\n[%d bytes are left out]\n%s", o.head, o.left, o.tail)
}

// removeAll removes what pods left as well. They may have taken the right to do so from directories. No link is
// followed.
func removeAll(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	// A directory is opened after it was visited.
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			err = root.Chmod(name, 0o700)
		}
		return err
	})
	return errors.Join(err, root.Close(), os.RemoveAll(filepath.Clean(dir)))
}
