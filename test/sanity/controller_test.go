//go:build conformance

package sanity

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
)

// controller makes images, as a provisioner pod does. flex-node has none.
type controller struct {
	csi.UnimplementedControllerServer
	csi.UnimplementedIdentityServer

	images string
}

// serve returns the address of a controller for images in a directory.
func serve(t *testing.T, images string) string {
	t.Helper()
	address := filepath.Join(t.TempDir(), "controller.sock")
	listener, err := net.Listen("unix", address)
	if err != nil {
		t.Fatal(err)
	}

	server, c := grpc.NewServer(), &controller{images: images}
	csi.RegisterControllerServer(server, c)
	csi.RegisterIdentityServer(server, c)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	return address
}

func (c *controller) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: []*csi.ControllerServiceCapability{{
		Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{
			Type: csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME}}}}}, nil
}

func (c *controller) CreateVolume(
	_ context.Context, r *csi.CreateVolumeRequest,
) (*csi.CreateVolumeResponse, error) {
	id, size := "pvc-"+strings.ToLower(r.GetName()[len(r.GetName())-8:]), r.GetCapacityRange().GetRequiredBytes()
	folder := filepath.Join(c.images, id)
	err := os.MkdirAll(folder, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "image"), nil, 0o600)
	}

	if err == nil {
		err = os.Truncate(filepath.Join(folder, "image"), size)
	}

	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: id, CapacityBytes: size,
		VolumeContext: map[string]string{"stager": "loop", "directory": c.images}}}, err
}

func (c *controller) DeleteVolume(
	_ context.Context, r *csi.DeleteVolumeRequest,
) (*csi.DeleteVolumeResponse, error) {
	return &csi.DeleteVolumeResponse{}, os.RemoveAll(filepath.Join(c.images, filepath.Base(r.GetVolumeId())))
}

func (c *controller) GetPluginInfo(
	context.Context, *csi.GetPluginInfoRequest,
) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: driver, VendorVersion: "test"}, nil
}

func (c *controller) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{}, nil
}

func (c *controller) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}
