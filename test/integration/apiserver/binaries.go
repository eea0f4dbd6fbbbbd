package apiserver

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// Repo is the root of the repository.
func Repo() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}

// Binary is the path of one of Kubernetes' binaries: in the directory FLEX_CLUSTER_BIN, or where test/cluster/build.sh
// puts them.
func Binary(name string) (string, error) {
	dir := os.Getenv("FLEX_CLUSTER_BIN")
	if dir == "" {
		dir = filepath.Join(Repo(), ".cluster", "bin")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find %s: %w: run test/cluster/build.sh kubernetes (or kubernetes-1.30), or set FLEX_CLUSTER_BIN", name, err)
	}
	return path, nil
}
