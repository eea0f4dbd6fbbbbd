package main

import (
	"context"
	"fmt"
	"slices"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/inspect"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/audit"
	"github.com/flex-provisioner/flex-provisioner/podspec"
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

// lacksKinds lists the kinds of snapshots that the cluster does not serve.
func lacksKinds(client kubernetes.Interface) (lacks []string, err error) {
	list, err := client.Discovery().ServerResourcesForGroupVersion(snapshotv1.SchemeGroupVersion.String())
	switch {
	case apierrors.IsNotFound(err):
		return podspec.LackingSnapshotKinds(nil), nil
	case err != nil:
		return nil, fmt.Errorf("ask the API server for the kinds of snapshots: %w", err)
	}

	return podspec.LackingSnapshotKinds(list), nil
}

// snapshots reads the objects of snapshots, where the cluster has such. It reads VolumeSnapshots before contents, so that
// a content is not older than what it is for.
func (r reader) snapshots(ctx context.Context, namespace string) error {
	into := &r.o.Snapshots
	lacks, err := lacksKinds(r.client)
	into.Lacks, into.Served = lacks, err == nil && len(lacks) == 0
	if err != nil || !into.Served {
		return r.noteForbidden(inspect.Snapshots, "discover the API", err)
	}

	client, err := r.snapshotClient()
	if err != nil {
		return err
	}

	api := client.SnapshotV1()
	unread := func(snapshotv1.VolumeSnapshotContent) bool { return false }
	requests, err := api.VolumeSnapshots("").List(ctx, r.lists)
	if apierrors.IsForbidden(err) && namespace != "" {
		unread = func(c snapshotv1.VolumeSnapshotContent) bool { return c.Spec.VolumeSnapshotRef.Namespace != namespace }
		requests, err = api.VolumeSnapshots(namespace).List(ctx, r.lists)
	}

	if apierrors.IsForbidden(err) {
		unread = func(snapshotv1.VolumeSnapshotContent) bool { return true }
	}

	err = keep(r, &into.Requests, inspect.Snapshots, "list volumesnapshots", requests.Items, err)
	if err != nil {
		return err
	}

	contents, err := api.VolumeSnapshotContents().List(ctx, r.lists)
	contents.Items = slices.DeleteFunc(contents.Items, unread) // their VolumeSnapshots would look as if they were gone
	err = keep(r, &into.Contents, inspect.Snapshots, "list volumesnapshotcontents", contents.Items, err)
	if err != nil {
		return err
	}

	classes, err := api.VolumeSnapshotClasses().List(ctx, r.lists)

	return keep(r, &into.Classes, inspect.Snapshots, "list volumesnapshotclasses", classes.Items, err)
}

// audited reads the objects of snapshots for an audit, and what their classes are served by. They are nil where the
// cluster has none, or they may not be read.
func (r reader) audited(ctx context.Context, note func(format string, args ...any)) (*audit.Snapshots, error) {
	if err := r.snapshots(ctx, ""); err != nil {
		return nil, err
	}

	if len(r.o.Snapshots.Contents) > 0 {
		if err := r.more(ctx, "", reader.classes, reader.configMaps, reader.revisions); err != nil {
			return nil, err
		}
	}

	known := r.o.Snapshots.Served
	for _, u := range r.o.Unread {
		switch u.Kind {
		case inspect.Snapshots, inspect.ConfigMaps, inspect.Revisions:
			note("%s are not looked at: %s", u.Kind, u.Why)
			known = known && u.Kind != inspect.Snapshots
		}
	}

	if !known {
		return nil, nil
	}

	found := &audit.Snapshots{Requests: r.o.Snapshots.Requests, ConfigOf: r.o.ConfigOf()}
	for _, content := range r.o.Snapshots.Contents {
		found.Contents = append(found.Contents, inspect.VerifiedContent(content))
	}

	return found, nil
}
