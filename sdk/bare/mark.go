package bare

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// maxID is the longest ID of a storage in bytes.
const maxID = 64

// idSuffix ends the name of the file that has the ID of a storage whose mark has none.
const idSuffix = ".id"

// RequireMark fails unless the file mark shows that the storage is mounted, and that it is the one that the request is
// about. It never creates the mark's directory, which is missing if the storage is.
//
// To provision, the mark is made. Its first line is the ID of the storage, which is reported as the location of the
// attempt; see SetLocation. A mark without an ID stays as it is, and the file of its name with ".id" gets one. If that
// cannot be written, notes says so, and the storage has no ID. Of several marks, the first one of an attempt counts.
//
// undo reports whether a delete has no volume. It may come before the first mark.
func RequireMark(root, mark string, request contract.Request, undo bool, notes io.Writer) error {
	_, err := os.Stat(mark)
	provision := request.Operation == contract.Provision
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist) && provision:
	case !errors.Is(err, fs.ErrNotExist):
		return TryAgain(fmt.Errorf("look for the mark of the storage: %w", err))
	case request.Operation == contract.List:
		return NotHere(fmt.Errorf("%s is not there: nothing was made, or the storage is not mounted at %s", mark, filepath.Dir(mark)))
	case undo && request.Location == "" && isThere(filepath.Dir(mark)):
		return nil
	default:
		return TryAgain(fmt.Errorf("%s is not there: the storage is not mounted at %s, or somebody removed the file", mark, filepath.Dir(mark)))
	}
	id, err := readID(mark)
	if errors.Is(err, fs.ErrPermission) { // time does not mend that
		return err
	}
	if err == nil && id == "" && provision {
		id, err = makeID(mark, notes)
	}
	if err != nil {
		return TryAgain(err)
	}
	if ReportedLocation(root) != "" || request.Operation == contract.List {
		return nil
	}
	if err := checkID(mark, id, request, undo); err != nil || id == "" {
		return err
	}
	return SetLocation(root, id)
}

func isThere(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// checkID compares the ID of the storage with the location in the request.
func checkID(mark, id string, request contract.Request, undo bool) error {
	if request.Location == "" || request.Location == id {
		return nil
	}
	is, dir := "has no ID", filepath.Dir(mark)
	if id != "" {
		is = "is " + id
	}
	was := contract.Clip(contract.OneLine(request.Location), maxID)
	if undo || request.Operation == contract.Provision {
		return fmt.Errorf("the storage at %s %s, but an earlier attempt worked in %s; mount that one until nothing of volume %s is left there", dir, is, was, request.VolumeName)
	}
	return fmt.Errorf("the storage at %s %s, but volume %s is in %s; mount that one; or if the volume was moved here: kubectl annotate pv %[3]s %[5]s-",
		dir, is, request.VolumeName, was, contract.AnnLocation)
}

// readID is the ID of the storage of a mark, empty where it has none. That in the file beside the mark comes first: it
// was made since the mark had none.
func readID(mark string) (string, error) {
	for _, name := range []string{mark + idSuffix, mark} {
		if id, err := firstLine(name); id != "" || err != nil {
			return id, err
		}
	}
	return "", nil
}

// firstLine is the first line of a regular file, empty for what is no ID.
func firstLine(name string) (string, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENAMETOOLONG) {
		return "", nil
	}
	if errors.Is(err, fs.ErrPermission) { // it is not known whether there is an ID
		return "", fmt.Errorf("read the ID of the storage: %w: let this user read the file; where SELinux is enforcing, "+
			"pods of one class need one level (selinux-level)", err)
	}
	if err != nil {
		return "", fmt.Errorf("read the ID of the storage: %w", err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxID+1))
	if err != nil {
		return "", fmt.Errorf("read the ID of the storage: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if _, valid := contract.LocationLine(line); !valid || len(line) > maxID {
		return "", nil
	}
	return line, nil
}

// makeID makes the mark where there is none, and the ID of the storage. Several pods may do so at once: the first one's
// ID is that of all.
func makeID(mark string, notes io.Writer) (string, error) {
	var err error
	for range 3 {
		target := mark
		if isThere(mark) {
			// Another pod may have made it a moment ago, and then it has an ID from its first moment.
			if id, err := readID(mark); id != "" || err != nil {
				return id, err
			}
			target += idSuffix
		}
		if err = linkID(target); err != nil && !errors.Is(err, fs.ErrExist) {
			break
		}
		if id, err := readID(mark); id != "" || err != nil {
			return id, err
		}
	}
	if !isThere(mark) {
		file, err := os.OpenFile(mark, os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return "", fmt.Errorf("mark the storage: %w; is it mounted at %s, and may this user write to it?", err, filepath.Dir(mark))
		}
		if err := file.Close(); err != nil {
			return "", fmt.Errorf("mark the storage: %w", err)
		}
	}
	fmt.Fprintf(notes, "note: the storage at %s has no ID, by which a delete would know it: %v\n", filepath.Dir(mark), err)
	return "", nil
}

// linkID makes a file with a new ID. Nobody sees it without its content. It is an error if there is such a file.
func linkID(name string) error {
	temporary := name + ".tmp-" + newID()
	file, err := os.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer os.Remove(temporary)
	_, err = io.WriteString(file, newID()+"\n")
	// Provisioners of other users share the storage, whatever the umask says.
	if err = errors.Join(err, file.Chmod(0o644), file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Link(temporary, name)
}

// newID has 128 random bits.
func newID() string {
	var bits [16]byte
	_, _ = rand.Read(bits[:]) // it never fails
	return hex.EncodeToString(bits[:])
}

// CheckMounted returns an error if a path of the pod is on another NFS export than the one that the class names, as
// nfs://SERVER/DIRECTORY. It says nothing of a path that is on something else, or of which the request does not know
// what it is on.
func CheckMounted(request contract.Request, path, export string) error {
	named, isNFS := strings.CutPrefix(export, contract.SchemeNFS)
	server, directory, found := strings.Cut(named, "/")
	if !isNFS || !found || server == "" {
		return fmt.Errorf("%q is no export: write nfs://SERVER/DIRECTORY", export)
	}
	at, below, found := request.MountAt(path)
	mounted, isNFS := strings.CutPrefix(at.Source, contract.SchemeNFS)
	if !found || !isNFS {
		return nil
	}
	onServer, on, _ := strings.Cut(mounted, "/")
	is, want := contract.NFSSource(onServer, on+below), contract.NFSSource(server, directory)
	if is == want {
		return nil
	}
	err := fmt.Errorf("claim %s, mounted at %s, is the export %s, but the class names %s: let mount-claims mount that one; if both are the same, write them alike", at.Claim, at.Path, is, want)
	if request.Operation == contract.Provision {
		return Refuse(err)
	}
	return err
}
