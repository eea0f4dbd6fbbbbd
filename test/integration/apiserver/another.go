package apiserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// ApplyAnother installs another dispatcher beside that of deploy/base, by deploy/another.sh.
func (s *Server) ApplyAnother(ctx context.Context, name, provisioner string) error {
	env, err := WithKubectl()
	if err != nil {
		return err
	}
	var problems strings.Builder
	cmd := exec.CommandContext(ctx, "deploy/another.sh", name, provisioner)
	cmd.Dir, cmd.Stderr, cmd.Env = Repo(), &problems, env
	manifests, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("deploy/another.sh %s: %w: %s", name, err, problems.String())
	}
	file := s.file(name + ".yaml")
	if err := os.WriteFile(file, manifests, 0o600); err != nil {
		return fmt.Errorf("write manifests of %s: %w", name, err)
	}
	_, err = s.Kubectl(ctx, "apply", "--warnings-as-errors", "-f", file)
	return err
}
