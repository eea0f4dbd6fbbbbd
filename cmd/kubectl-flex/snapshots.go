package main

import (
	"context"

	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/inspect"
)

// snapshotClient is a client for the objects of snapshots, nil for none.
func (o *options) snapshotClient() (snapshotclient.Interface, error) {
	if o.snapshots != nil || o.client != nil {
		return o.snapshots, nil
	}

	config, err := o.kube.ToRESTConfig()
	if err != nil {
		return nil, err
	}

	return snapshotclient.NewForConfig(config)
}

// snapshots reads the objects of snapshots, where the cluster has such.
func (r reader) snapshots(ctx context.Context, namespace string) error {
	client, err := r.snapshotClient()
	if err != nil || client == nil {
		return err
	}

	api, into := client.SnapshotV1(), &r.o.Snapshots
	contents, err := api.VolumeSnapshotContents().List(ctx, cached)
	if apierrors.IsNotFound(err) {
		return nil // the CustomResourceDefinitions are not installed
	}

	into.Served = true
	err = keep(r, &into.Contents, inspect.Snapshots, "list volumesnapshotcontents", contents.Items, err)
	if err != nil {
		return err
	}

	requests, err := api.VolumeSnapshots("").List(ctx, cached)
	if apierrors.IsForbidden(err) && namespace != "" {
		requests, err = api.VolumeSnapshots(namespace).List(ctx, cached)
	}

	if err := ignoreNotFound(err); err != nil {
		return keep(r, &into.Requests, inspect.Snapshots, "list volumesnapshots", nil, err)
	}

	into.Requests = pointers(requests.Items)
	classes, err := api.VolumeSnapshotClasses().List(ctx, cached)

	return keep(r, &into.Classes, inspect.Snapshots, "list volumesnapshotclasses", classes.Items, ignoreNotFound(err))
}

// ignoreNotFound is for a kind that is not there yet, or any more.
func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}

	return err
}
