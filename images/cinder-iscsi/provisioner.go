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

// Provision implements sdk.Provisioner.
func (p provisioner) Provision(ctx context.Context, request sdk.Request) (*sdk.Volume, error) {
	f, secrets, err := p.flow(request)
	if err != nil {
		return nil, err
	}
	ctx, cancel := withDeadline(ctx, request)
	defer cancel()
	volume, err := f.Provision(ctx)
	return volume, redact(err, secrets)
}

// Delete implements sdk.Provisioner. It ignores unknown parameters, since another version of the image may have made the volume by them.
func (p provisioner) Delete(ctx context.Context, request sdk.Request, volume *corev1.PersistentVolume) error {
	request.Parameters = parameters.Known(request.Parameters)
	request.Properties = parameters.KnownProperties(request.Properties)
	f, secrets, err := p.flow(request)
	if err != nil {
		return err
	}
	ctx, cancel := withDeadline(ctx, request)
	defer cancel()
	return redact(f.Delete(ctx, volume), secrets)
}

// Expand implements sdk.Expander. As Delete, it ignores unknown parameters.
func (p provisioner) Expand(ctx context.Context, request sdk.Request, volume *corev1.PersistentVolume) error {
	request.Parameters = parameters.Known(request.Parameters)
	request.Properties = parameters.KnownProperties(request.Properties)
	f, secrets, err := p.flow(request)
	if err != nil {
		return err
	}
	ctx, cancel := withDeadline(ctx, request)
	defer cancel()
	return redact(f.Expand(ctx, volume), secrets)
}

// flow reads all input before the first request to Cinder. Its errors are refusals, since they stay until somebody changes the input.
func (p provisioner) flow(request sdk.Request) (f *flow.Flow, secrets []string, err error) {
	f = &flow.Flow{Request: request, Log: slog.New(slog.NewTextHandler(p.log, nil)),
		SetLocation: func(location string) error { return sdk.SetLocation(p.root, location) }}
	if f.Parameters, err = parameters.Parse(request.Parameters); err != nil {
		return nil, nil, sdk.Refuse(err)
	}
	if f.Properties, err = parameters.ParseProperties(request.Properties); err != nil {
		return nil, nil, sdk.Refuse(err)
	}
	files, err := cloud.Load(filepath.Join(p.root, contract.SecretsDir, f.Properties.CloudConfig))
	if err != nil {
		return nil, nil, sdk.Refuse(err)
	}
	config, err := cloud.Parse(files, f.Properties.Cloud)
	if err != nil {
		return nil, nil, sdk.Refuse(err)
	}
	if f.Cluster, err = cluster.New(p.root); err != nil {
		return nil, nil, err
	}
	f.Connect = config.Connect
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
