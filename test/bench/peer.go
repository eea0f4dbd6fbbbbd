package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// peer is another provisioner, by an adapter: a program that is called with one of
//
//	start   with KUBECONFIG of an administrator, and kubectl: install and start it; return when it is ready
//	class   print the name of its StorageClass, made if need be
//	stop    stop it; what it made in the cluster may stay where the cluster goes too
//
// It sees no nodes but the player: pods that it makes, in any namespace, succeed at once; volumes it makes itself.
type peer struct{ adapter, kubeconfig string }

func startPeer(ctx context.Context, adapter, kubeconfig string) (*peer, string, error) {
	p := &peer{adapter: adapter, kubeconfig: kubeconfig}
	if _, err := p.call(ctx, "start"); err != nil {
		p.stop()
		return nil, "", err
	}
	class, err := p.call(ctx, "class")
	if err != nil {
		p.stop()
		return nil, "", err
	}
	return p, strings.TrimSpace(class), nil
}

func (p *peer) call(ctx context.Context, verb string) (string, error) {
	env, err := apiserver.WithKubectl()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, p.adapter, verb)
	cmd.Env = append(env, "KUBECONFIG="+p.kubeconfig)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", p.adapter, verb, err)
	}
	return string(out), nil
}

func (p *peer) stop() {
	if _, err := p.call(context.Background(), "stop"); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}
