package contract

import (
	"path"
	"strings"
)

// Mount is storage that a pod has mounted: a claim of the pods' namespace, or a directory of the node. Together the
// mounts say where a volume's storage is.
type Mount struct {
	// Claim is the claim's name, empty for a directory of the node.
	Claim string `json:"claim,omitempty"`
	// Source is that of the claim's PersistentVolume, such as nfs://10.0.0.1/srv. It is empty where it is not known.
	Source string `json:"source,omitempty"`
	// Path is where it is in the pod. A directory of the node is at its own path.
	Path string `json:"path"`
	// Device reports whether Path is a device.
	Device bool `json:"device,omitempty"`
	// ReadOnly reports whether the directory of the node is mounted read-only.
	ReadOnly bool `json:"readOnly,omitempty"`
}

// SchemeNFS begins the source of an NFS export; see NFSSource.
const SchemeNFS = "nfs://"

// NFSSource is the source of an NFS export: "nfs://10.0.0.1/srv/nfs". An IPv6 address has brackets, and the path no
// slash at its end. Names and addresses of one server are different sources.
func NFSSource(server, directory string) string {
	server = strings.Trim(server, "[]")
	if strings.Contains(server, ":") {
		server = "[" + server + "]"
	}
	return SchemeNFS + server + path.Clean("/"+directory)
}

// MountAt is the mount that a path in the pod is on. below is the rest of the path, "" or "/…".
func (r Request) MountAt(file string) (at Mount, below string, found bool) {
	file = path.Clean(file)
	for _, m := range r.Mounts {
		rest, inside := strings.CutPrefix(file, strings.TrimSuffix(m.Path, "/"))
		if inside = inside && (rest == "" || rest[0] == '/'); inside && len(m.Path) >= len(at.Path) {
			at, below, found = m, rest, true
		}
	}
	return at, below, found
}
