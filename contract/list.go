package contract

import "strings"

// ListPrefix begins each line on standard output that answers List. Other lines of the pod's log are passed over.
const ListPrefix = "storage "

// Storage is one volume as the backend has it.
type Storage struct {
	// Name on the backend, which is the PersistentVolume's.
	Name string
	// Remove is one line: the command by which a person would remove it by hand, or empty.
	Remove string
}

// Line is the answer for one volume.
func (s Storage) Line() string {
	return strings.TrimSpace(ListPrefix + s.Name + " " + strings.Join(strings.Fields(s.Remove), " "))
}
