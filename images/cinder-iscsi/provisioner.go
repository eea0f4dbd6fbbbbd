package main

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cloud"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cluster"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/flow"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/parameters"
	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// provisioner reads the request and the mounted Secret, and runs a flow.
type provisioner struct {
	// root is put before the contract's paths. It is empty in a pod.
	root string
	log  io.Writer
}

var (
	_ sdk.Expander = provisioner{}
	_ sdk.Lister   = provisioner{}

	_ sdk.Snapshotter = provisioner{}
	_ sdk.Attacher    = provisioner{}
)

// Provision implements sdk.Provisioner.
func (p provisioner) Provision(ctx context.Context, request sdk.Request) (*sdk.Volume, error) {
	return run(ctx, p, request, (*flow.Flow).Provision)
}

// Delete implements sdk.Provisioner.
func (p provisioner) Delete(ctx context.Context, request sdk.Request, volume *corev1.PersistentVolume) error {
	_, err := run(ctx, p, request, func(f *flow.Flow, ctx context.Context) (any, error) {
		return nil, f.Delete(ctx, volume)
	})

	return err
}

// Expand implements sdk.Expander.
func (p provisioner) Expand(ctx context.Context, request sdk.Request, volume *corev1.PersistentVolume) error {
	_, err := run(ctx, p, request, func(f *flow.Flow, ctx context.Context) (any, error) {
		return nil, f.Expand(ctx, volume)
	})

	return err
}

// Snapshot implements sdk.Snapshotter.
func (p provisioner) Snapshot(ctx context.Context, request sdk.Request, volume *corev1.PersistentVolume) error {
	_, err := run(ctx, p, request, func(f *flow.Flow, ctx context.Context) (any, error) {
		return nil, f.Snapshot(ctx, volume)
	})

	return err
}

// DeleteSnapshot implements sdk.Snapshotter.
func (p provisioner) DeleteSnapshot(ctx context.Context, request sdk.Request, volume *corev1.PersistentVolume) error {
	_, err := run(ctx, p, request, func(f *flow.Flow, ctx context.Context) (any, error) {
		return nil, f.DeleteSnapshot(ctx, volume)
	})

	return err
}

// Attach implements sdk.Attacher.
func (p provisioner) Attach(
	ctx context.Context, request sdk.Request, volume *corev1.PersistentVolume,
) (map[string]string, error) {
	return run(ctx, p, request, func(f *flow.Flow, ctx context.Context) (map[string]string, error) {
		return f.Attach(ctx, volume)
	})
}

// Detach implements sdk.Attacher.
func (p provisioner) Detach(ctx context.Context, request sdk.Request, volume *corev1.PersistentVolume) error {
	_, err := run(ctx, p, request, func(f *flow.Flow, ctx context.Context) (any, error) {
		return nil, f.Detach(ctx, volume)
	})

	return err
}

// List implements sdk.Lister.
func (p provisioner) List(ctx context.Context, request sdk.Request) ([]sdk.Storage, error) {
	return run(ctx, p, request, (*flow.Flow).List)
}

// step is what a flow does for a request.
type step[T any] = func(*flow.Flow, context.Context) (T, error)

// run serves a request within the pod's time. Its errors show no secrets.
func run[T any](ctx context.Context, p provisioner, request sdk.Request, do step[T]) (result T, err error) {
	f, secrets, err := p.flow(request)
	if err != nil {
		return result, err
	}
	ctx, cancel := withDeadline(ctx, request)
	defer cancel()
	result, err = do(f, ctx)
	return result, redact(err, secrets)
}

// flow reads all input before the first request to Cinder. Its errors are refusals, since they stay until somebody changes the input.
// Only a provision refuses unknown parameters, since another version of the image may have made the volume by them.
func (p provisioner) flow(request sdk.Request) (f *flow.Flow, secrets []string, err error) {
	if request.Operation != contract.Provision {
		request.Parameters = parameters.Known(request.Parameters)
		request.Properties = parameters.KnownProperties(request.Properties)
	}
	f = &flow.Flow{Request: request, Log: slog.New(slog.NewTextHandler(p.log, nil)),
		SetLocation: func(location string) error { return sdk.SetLocation(p.root, location) }}
	if f.Parameters, err = parameters.Parse(request.Parameters); err != nil {
		return nil, nil, sdk.Refuse(err)
	}
	if f.Properties, err = parameters.ParseProperties(request.Properties); err != nil {
		return nil, nil, sdk.Refuse(err)
	}
	if request.Operation == contract.Provision {
		skeleton, err := sdk.LoadVolume(p.root, request)
		if err != nil {
			return nil, nil, err
		}
		f.NodeDriver = contract.SnapshotDriver(skeleton.Annotations[contract.ProvisionedBy])
	}
	files, err := cloud.Load(filepath.Join(p.root, contract.SecretsDir, f.Properties.CloudConfig))
	if err != nil {
		return nil, nil, sdk.Refuse(err)
	}
	config, err := cloud.Parse(files, f.Properties.Cloud)
	if err != nil {
		return nil, nil, sdk.Refuse(err)
	}
	for _, warning := range config.Warnings {
		f.Log.Warn(warning)
	}
	f.Connect = config.Connect
	if request.Snapshot != nil {
		return f, config.Secrets(), nil // the pods of snapshots need nothing of Kubernetes
	}
	if f.Cluster, err = cluster.New(p.root); err != nil {
		return nil, nil, err
	}
	return f, config.Secrets(), nil
}

// withDeadline ends the context before the kubelet kills the pod, so that there is time to report why. The pod's timeout began a little
// before the program.
func withDeadline(ctx context.Context, request sdk.Request) (context.Context, context.CancelFunc) {
	timeout := time.Duration(request.TimeoutSeconds) * time.Second
	if timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout-min(timeout/5, 10*time.Second))
}
