package cloud

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxFile bounds a file of the Secret. Kubernetes' limit is 1 MiB for all.
const maxFile = 1 << 20

// Load reads the files of a mounted Secret.
func Load(dir string) (Files, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the Secret with the credentials: %w; name it in the property cloud-config and under the key secrets of the ConfigMap", err)
	}
	files := Files{}
	for _, entry := range entries {
		name := filepath.Join(dir, entry.Name())
		// The kubelet's own ..data and its like.
		if info, err := os.Stat(name); strings.HasPrefix(entry.Name(), "..") || err != nil || !info.Mode().IsRegular() || info.Size() > maxFile {
			continue
		}
		if files[entry.Name()], err = os.ReadFile(name); err != nil {
			return nil, fmt.Errorf("read the Secret with the credentials: %w", err)
		}
	}
	return files, nil
}
