package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/images/btrfs/kernel"
	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// checkName returns an error for a name that a volume may have, or that no snapshot has here.
func checkName(snapshot string) error {
	if !strings.HasPrefix(snapshot, "snap-") {
		return sdk.Refuse(fmt.Errorf("%q is no name of a snapshot, snap-UID", snapshot))
	}
	return nil
}

// Snapshot implements sdk.Snapshotter. The kernel makes a read-only subvolume in one step, so that none is half made. The group of its own,
// without a limit, proves that it is ours, and is charged for nothing but its own records.
func (p provisioner) Snapshot(_ context.Context, request sdk.Request, volume *corev1.PersistentVolume) error {
	if err := checkName(request.Snapshot.Name); err != nil {
		return err
	}
	if err := p.checkNode(request, volume); err != nil {
		return err
	}
	d, err := p.openExisting(request)
	if err != nil {
		return err
	}
	defer d.Close()
	made, err := d.openSnapshot(request.Snapshot.Name)
	if err == nil {
		return errors.Join(made.Close(), d.Sync())
	}
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	source, err := d.openOwn(request.VolumeName)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s on node %s has no volume %s; is its disk mounted?", d.root, p.node, request.VolumeName)
	}
	if err != nil {
		return err
	}
	defer source.Close()
	if err := d.SetNoLimit(d.group); err != nil {
		return err
	}
	if err := d.SnapshotReadOnly(source, request.Snapshot.Name, d.group); err != nil {
		return err
	}
	return d.Sync()
}

// openSnapshot opens a subvolume of ours that nobody can have changed. The error is os.ErrNotExist if there is nothing of that name.
func (d *disk) openSnapshot(name string) (*kernel.Subvolume, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	snapshot, err := d.openOwn(name)
	if err != nil {
		return nil, err
	}
	readOnly, err := snapshot.ReadOnly()
	if err == nil && !readOnly {
		err = fmt.Errorf("snapshot %s/%s can be written to, so it may be none: btrfs property set %[1]s/%[2]s ro true, or remove it", d.root, name)
	}
	if err != nil {
		snapshot.Close()
		return nil, err
	}
	return snapshot, nil
}

// restore creates the subvolume with the data of a snapshot.
func (p provisioner) restore(d *disk, request sdk.Request) error {
	snapshot, err := d.openSnapshot(request.Source.Snapshot)
	if err != nil {
		return err
	}
	defer snapshot.Close()
	return d.Snapshot(snapshot, request.VolumeName, d.group)
}

// checkSource returns an error if the request is to restore a snapshot that is not here. It is asked before anything is made.
func (p provisioner) checkSource(d *disk, request sdk.Request) error {
	if request.Source == nil || request.Source.Snapshot == "" {
		return nil
	}
	snapshot, err := d.openSnapshot(request.Source.Snapshot)
	if errors.Is(err, os.ErrNotExist) {
		return sdk.NotHere(fmt.Errorf("node %s has no snapshot %s", p.node, contract.OneLine(request.Source.Snapshot)))
	}
	if err != nil {
		return err
	}
	return snapshot.Close()
}

// DeleteSnapshot implements sdk.Snapshotter.
func (p provisioner) DeleteSnapshot(_ context.Context, request sdk.Request, volume *corev1.PersistentVolume) error {
	if err := checkName(request.Snapshot.Name); err != nil {
		return err
	}
	if volume == nil {
		if err := p.checkRecorded(request); err != nil {
			return err
		}
	}
	return p.remove(request, volume)
}

// checkRecorded returns an error if the snapshot is not here, and no record says on which node it is: there it may exist.
func (p provisioner) checkRecorded(request sdk.Request) error {
	d, err := p.openExisting(request)
	if err != nil {
		return err
	}
	defer d.Close()
	snapshot, err := d.openOwn(request.Snapshot.Name)
	if errors.Is(err, os.ErrNotExist) {
		return sdk.NotHere(fmt.Errorf("node %s has no snapshot %s, and no record says on which node it is", p.node, request.Snapshot.Name))
	}
	if err != nil {
		return err
	}
	return snapshot.Close()
}
