// Package cluster is the cluster of up.sh, as tests use it that run in a folder of test/: the scripts beside this file, kubectl as the
// administrator, and what is installed.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Repository is the checkout; tests run in their package's directory.
const Repository = "../.."

// Installation is what is installed: the base, with the stamp that says who made a claim. A cluster that cannot stamp takes deploy/base.
var Installation = "deploy/overlays/creator-stamp"

// Kubeconfig is the file of the administrator, by its absolute path.
func Kubeconfig() string {
	file := os.Getenv("KUBECONFIG")
	if file == "" {
		file = filepath.Join(Repository, ".cluster", "kubeconfig")
	}
	if absolute, err := filepath.Abs(file); err == nil {
		return absolute
	}
	return file
}

// Config is how a kubeconfig's user reaches the API server, often.
func Config(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("no cluster (make cluster-up): %w", err)
	}
	config.QPS, config.Burst = 200, 400
	return config, nil
}

// Command runs a command in the repository; what it printed is part of the error.
func Command(ctx context.Context, args ...string) (string, error) {
	return run(ctx, "", args...)
}

// Kubectl runs kubectl in the repository, as the administrator.
func Kubectl(ctx context.Context, args ...string) (string, error) {
	return KubectlWith(ctx, "", args...)
}

// KubectlWith gives kubectl an input.
func KubectlWith(ctx context.Context, input string, args ...string) (string, error) {
	program := filepath.Join(".cluster", "bin", "kubectl")
	if _, err := os.Stat(filepath.Join(Repository, program)); err != nil {
		program = "kubectl"
	}
	return run(ctx, input, append([]string{program, "--kubeconfig", Kubeconfig()}, args...)...)
}

func run(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = Repository
	if input != "" {
		cmd.Stdin = strings.NewReader(input)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// LoadImages brings the images of a checkout whose names match to all nodes, or with the option --node to one.
func LoadImages(ctx context.Context, checkout, names string, options ...string) error {
	images, err := filepath.Glob(filepath.Join(checkout, "bin", "images", names+".tar"))
	if err != nil || len(images) == 0 {
		return fmt.Errorf("no images %s in bin/images of %s: make images", names, checkout)
	}
	args := append([]string{"test/cluster/load-image.sh"}, options...)
	for _, image := range images {
		image, err := filepath.Abs(image)
		if err != nil {
			return err
		}
		args = append(args, image)
	}
	_, err = Command(ctx, args...)
	return err
}

// Install installs the version of a checkout in place of the one that there is. Its images are on the nodes.
func Install(ctx context.Context, checkout string) error {
	manifests, err := filepath.Abs(filepath.Join(checkout, Installation))
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"apply", "--server-side", "--force-conflicts", "-k", manifests},
		{"-n", contract.SystemNamespace, "rollout", "restart", "deployment/flex-provisioner"}, // the image may be new
		{"-n", contract.SystemNamespace, "rollout", "status", "deployment/flex-provisioner", "--timeout=120s"},
	} {
		if _, err := Kubectl(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// OpenDir makes a directory into which every user may write, as a server that maps all users to one would let them.
func OpenDir(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return os.Chmod(dir, 0o777) // whatever the umask says
}

// Exists says whether there is anything at a path of the first node, which has this machine's file system.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
