package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/flex-provisioner/flex-provisioner/cmd/flex-node/driver"
)

// endpoints are the sockets.
type endpoints struct{ csi, registration string }

// grace is how long calls in progress may take to end. The kubelet repeats those that do not.
const grace = 20 * time.Second

// serve answers until ctx ends. The kubelet finds the driver by the socket of the registration, which comes last and
// goes first.
func serve(ctx context.Context, at endpoints, identity *driver.Identity, node *driver.Node) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	calls := grpc.NewServer(grpc.UnaryInterceptor(logged))
	csi.RegisterIdentityServer(calls, identity)
	csi.RegisterNodeServer(calls, node)
	registrar := grpc.NewServer()
	registration.RegisterRegistrationServer(registrar, &registrant{name: identity.Name, endpoint: at.csi, fail: cancel})
	for _, s := range []struct {
		path   string
		server *grpc.Server
	}{{at.csi, calls}, {at.registration, registrar}} {
		listener, err := listen(s.path)
		if err != nil {
			return err
		}

		go func() {
			if err := s.server.Serve(listener); err != nil {
				cancel(err)
			}
		}()
	}

	klog.FromContext(ctx).Info("Serving", "driver", identity.Name, "node", node.ID, "stagers", node.Stagers,
		"directories", node.Directories)
	<-ctx.Done()
	registrar.Stop()
	late := time.AfterFunc(grace, calls.Stop)
	calls.GracefulStop()
	late.Stop()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}

	return nil
}

// listen takes the place of the socket of a process that was killed.
func listen(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, err
	}

	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}

	return net.Listen("unix", path)
}

// registrant tells the kubelet where the driver is.
type registrant struct {
	registration.UnimplementedRegistrationServer

	name, endpoint string
	fail           context.CancelCauseFunc
}

func (r *registrant) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: r.name, Endpoint: r.endpoint,
		SupportedVersions: []string{"1.0.0"}}, nil
}

func (r *registrant) NotifyRegistrationStatus(
	ctx context.Context, s *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	if s.GetPluginRegistered() {
		klog.FromContext(ctx).Info("The kubelet has registered the driver")
	} else {
		r.fail(fmt.Errorf("the kubelet does not register the driver: %s", s.GetError()))
	}

	return &registration.RegistrationStatusResponse{}, nil
}

// logged logs every change and every error. Requests hold secrets, and what a volume's author wrote: they are left out.
func logged(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	began := time.Now()
	response, err := handler(ctx, request)
	logger := klog.FromContext(ctx).WithValues("call", filepath.Base(info.FullMethod), "took", time.Since(began))
	if r, ok := request.(interface{ GetVolumeId() string }); ok {
		logger = logger.WithValues("volume", fmt.Sprintf("%.64q", r.GetVolumeId()))
	}

	if err != nil {
		reason := fmt.Sprintf("%.1024q", status.Convert(err).Message())
		logger.Error(nil, "Refused", "code", status.Code(err), "reason", reason)
	} else {
		logger.V(2).Info("Answered")
	}

	return response, err
}
