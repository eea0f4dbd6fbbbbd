package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// podsInside runs case 4 in the node's namespaces: the way in from outside, through a socket, would cost more than what is
// measured.
func podsInside(ctx context.Context, s settings, r *report) error {
	if s.inside {
		return runPods(ctx, s, r)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own program: %w", err)
	}
	cluster := filepath.Join(apiserver.Repo(), ".cluster")
	if cluster, err = filepath.EvalSymlinks(cluster); err != nil {
		return fmt.Errorf("find the cluster (make cluster-up): %w", err)
	}
	figures := filepath.Join(apiserver.Repo(), "bin", "bench-pods.json")
	cmd := exec.CommandContext(ctx, filepath.Join(apiserver.Repo(), "test", "cluster", "enter.sh"), self, "-inside", "-cases", "pods",
		"-kubeconfig", filepath.Join(cluster, "pki", "admin.kubeconfig"), "-n", strconv.Itoa(s.n), "-pleg", s.pleg, "-json", figures)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("measure on the node: %w", err)
	}
	text, err := os.ReadFile(figures)
	if err != nil {
		return fmt.Errorf("read figures: %w", err)
	}
	var more report
	if err := json.Unmarshal(text, &more); err != nil {
		return fmt.Errorf("read figures: %w", err)
	}
	r.Figures = append(r.Figures, more.Figures...)
	return nil
}
