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

// Line is the answer for one volume. It is one line, whatever a backend calls the volume, and its second word is the name.
func (s Storage) Line() string {
	name := strings.ReplaceAll(OneLine(s.Name), " ", "_")
	return strings.TrimSpace(ListPrefix + name + " " + OneLine(s.Remove))
}
