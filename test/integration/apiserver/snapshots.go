package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
)

// InstallSnapshots makes the API server serve snapshots: by the CustomResourceDefinitions of the version of the
// snapshot-controller that test/cluster/build.sh snapshot builds.
func (s *Server) InstallSnapshots(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", "github.com/kubernetes-csi/external-snapshotter/client/v8")
	cmd.Dir = filepath.Join(Repo(), "test", "cluster", "snapshot")
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("find the CustomResourceDefinitions of snapshots: %w: %s", err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return fmt.Errorf("find the CustomResourceDefinitions of snapshots: %w", err)
	}

	var names []string
	args := []string{"apply", "--server-side"}
	for _, kind := range []string{"volumesnapshotclasses", "volumesnapshotcontents", "volumesnapshots"} {
		args = append(args, "-f", filepath.Join(module.Dir, "config", "crd", "snapshot.storage.k8s.io_"+kind+".yaml"))
		names = append(names, kind+".snapshot.storage.k8s.io")
	}
	if _, err := s.Kubectl(ctx, args...); err != nil {
		return err
	}
	_, err = s.Kubectl(ctx, append([]string{"wait", "--for=condition=Established", "--timeout=60s", "crd"}, names...)...)
	return err
}

// StartSnapshotController runs the snapshot-controller that test/cluster/build.sh snapshot builds, beside what InstallSnapshots installed.
// It ends with the server.
func (s *Server) StartSnapshotController() error {
	_, err := s.run("snapshot-controller", "--kubeconfig", s.Kubeconfig)
	return err
}
