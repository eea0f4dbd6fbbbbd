package main

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cloud"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cluster"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/flow"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/parameters"
	"github.com/flex-provisioner/flex-provisioner/sdk"
)

// provisioner reads what the request and the mounted Secret say, and lets the flow do the work.
type provisioner struct {
	// root stands before the contract's paths; empty in a pod.
	root string
	log  io.Writer
}

// Provision is sdk.Provisioner's.
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

// Delete is sdk.Provisioner's. Parameters that this version does not know are passed over: the volume was made by them.
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

// Expand is sdk.Expander's. As for Delete, parameters that this version does not know are passed over.
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

// flow reads everything before Cinder is asked for anything. What is wrong here is so until somebody changes it.
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

// withDeadline ends before the kubelet kills the pod, so that there is time to say why. The pod's time began a little
// before the program's.
func withDeadline(ctx context.Context, request sdk.Request) (context.Context, context.CancelFunc) {
	timeout := time.Duration(request.TimeoutSeconds) * time.Second
	if timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout-min(timeout/5, 10*time.Second))
}
