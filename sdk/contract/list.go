package contract

import "strings"

// ListPrefix is the prefix of each line on standard output that answers List. Other lines of the pod's log are ignored.
const ListPrefix = "storage "

// Storage is a volume on the backend.
type Storage struct {
	// Name on the backend, which is the PersistentVolume's.
	Name string
	// Remove is the command by which a person would remove it, as one line, or empty.
	Remove string
}

// Line is the answer to List for one volume. It is one line, and its second word is the name, whatever characters the name has.
func (s Storage) Line() string {
	name := strings.ReplaceAll(OneLine(s.Name), " ", "_")
	return strings.TrimSpace(ListPrefix + name + " " + OneLine(s.Remove))
}
