//go:build conformance

// Package sanity runs CSI's own tests of a driver, csi-sanity, against flex-node. They need root.
package sanity

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
)

const driver = "dispatcher.flex-provisioner.io"

func TestSanity(t *testing.T) {
	accessType := os.Getenv("FLEX_SANITY_ACCESS_TYPE") // ginkgo runs once in a process
	if accessType == "" {
		accessType = "mount"
	}

	dir := t.TempDir()
	program, images := filepath.Join(dir, "flex-node"), filepath.Join(dir, "images")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, "./cmd/flex-node")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	if err := os.Mkdir(images, 0o700); err != nil {
		t.Fatal(err)
	}

	process := exec.CommandContext(t.Context(), program, "--node-name=node-1", "--kubelet-dir="+dir, "--directory="+images)
	process.Stdout, process.Stderr = os.Stdout, os.Stderr
	process.Cancel = func() error { return process.Process.Signal(os.Interrupt) }
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Wait() })

	config := sanity.NewTestConfig()
	config.Address = filepath.Join(dir, "plugins", driver, "csi.sock")
	config.TargetPath, config.StagingPath = filepath.Join(dir, "target"), filepath.Join(dir, "staging")
	config.ControllerAddress, config.IdempotentCount = serve(t, images), 2
	config.TestVolumeSize, config.TestVolumeExpandSize = 300<<20, 300<<20 // flex-node's own tests let it grow
	config.TestVolumeAccessType = accessType
	if err := flag.Set("ginkgo.focus", "Node Service|Identity Service"); err != nil {
		t.Fatal(err)
	}

	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(config.Address); err == nil {
			break
		}

		if time.Now().After(deadline) {
			t.Fatalf("%s is not there", config.Address)
		}
	}

	sanity.Test(t, config)
}
