package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/flex-provisioner/flex-provisioner/cmd/flex-node/driver"
)

func dial(t *testing.T, path string) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })

	return c
}

// start serves, also where a process that was killed left its sockets.
func start(t *testing.T) (registrar registration.RegistrationClient, stop func() error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "flex") // a path of a socket has 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })

	at := endpoints{csi: filepath.Join(dir, "a", "csi.sock"), registration: filepath.Join(dir, "b", "reg.sock")}
	for _, path := range []string{at.csi, at.registration} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}

		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- serve(ctx, at, &driver.Identity{Name: "example.com", Version: "v1"}, &driver.Node{ID: "node-1"})
	}()

	return registration.NewRegistrationClient(dial(t, at.registration)), func() error {
		cancel()
		err := <-ended
		for _, path := range []string{at.csi, at.registration} {
			if _, err := os.Lstat(path); !os.IsNotExist(err) {
				t.Errorf("%s is left: %v", path, err)
			}
		}

		return err
	}
}

// The kubelet finds the driver by what the socket of the registration answers.
func TestRegistration(t *testing.T) {
	registrar, stop := start(t)
	info, err := registrar.GetInfo(t.Context(), &registration.InfoRequest{}, grpc.WaitForReady(true))
	if err != nil || info.GetType() != registration.CSIPlugin || info.GetName() != "example.com" {
		t.Fatalf("info %v, %v", info, err)
	}

	node, err := csi.NewNodeClient(dial(t, info.GetEndpoint())).NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{})
	if err != nil || node.GetNodeId() != "node-1" {
		t.Errorf("node %v, %v", node, err)
	}

	_, err = registrar.NotifyRegistrationStatus(t.Context(), &registration.RegistrationStatus{PluginRegistered: true})
	if err != nil {
		t.Error(err)
	}

	if err := stop(); err != nil {
		t.Errorf("it ends with %v", err)
	}
}

func TestNotRegistered(t *testing.T) {
	registrar, stop := start(t)
	status := &registration.RegistrationStatus{Error: "no such version"}
	if _, err := registrar.NotifyRegistrationStatus(t.Context(), status, grpc.WaitForReady(true)); err != nil {
		t.Logf("the server may end first: %v", err)
	}

	want := "the kubelet does not register the driver: no such version"
	if err := stop(); err == nil || err.Error() != want {
		t.Errorf("it ends with %v, want %s", err, want)
	}
}
