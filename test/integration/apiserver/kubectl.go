package apiserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// WithKubectl is this process's environment with kubectl in its PATH.
func WithKubectl() ([]string, error) {
	kubectl, err := Binary("kubectl")
	if err != nil {
		return nil, err
	}
	return append(os.Environ(), "PATH="+filepath.Dir(kubectl)+":"+os.Getenv("PATH")), nil
}

// Kubectl runs kubectl as Admin in the repository's root and returns what it printed on standard output.
func (s *Server) Kubectl(ctx context.Context, args ...string) (string, error) {
	path, err := Binary("kubectl")
	if err != nil {
		return "", err
	}
	var out, problems strings.Builder
	cmd := exec.CommandContext(ctx, path, append([]string{"--kubeconfig", s.Kubeconfig, "--cache-dir", s.file("kubectl-cache")}, args...)...)
	cmd.Dir = Repo()
	cmd.Env = append(os.Environ(), "HOME="+s.Dir) // nobody's kuberc
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, problems.String())
	}
	return out.String(), nil
}
