package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/images/btrfs/kernel"
	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// provisioner works on the node of its pod. root is put before the contract's paths.
type provisioner struct{ node, root string }

// disk is the locked file system of a node. Only one provisioner works on it at a time.
type disk struct {
	*kernel.FS
	settings
	// group is the ID of the volume's quota group. groups has all groups by ID.
	group  uint64
	groups map[uint64]kernel.Group
}

// open opens the root and takes its lock. The error is NotHere if the node has no such root.
func (p provisioner) open(request sdk.Request) (*disk, error) {
	s, err := settingsOf(request)
	if err != nil {
		return nil, err
	}
	var group uint64
	if name := storageOf(request); request.Operation != contract.List { // a list has neither
		if group, err = groupOf(name); err != nil {
			return nil, err
		}
	}
	fs, err := kernel.Open(s.root)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, sdk.NotHere(fmt.Errorf("node %s has no directory %s; does key \"host-path\" name it?", p.node, s.root))
	case errors.Is(err, kernel.ErrNoBtrfs):
		return nil, sdk.NotHere(fmt.Errorf("%s on node %s is not the root of a btrfs file system; is its disk mounted?", s.root, p.node))
	case err != nil:
		return nil, fmt.Errorf("node %s: %w", p.node, err)
	}
	if err := fs.Lock(); err != nil {
		fs.Close()
		return nil, err
	}
	return &disk{FS: fs, settings: s, group: group}, nil
}

// storageOf is the name of what the request is to make, change or remove.
func storageOf(request sdk.Request) string {
	if request.Snapshot != nil {
		return request.Snapshot.Name
	}
	return request.VolumeName
}

// Provision implements sdk.Provisioner. It sets the limit before it creates the subvolume, so that no subvolume is without one.
func (p provisioner) Provision(_ context.Context, request sdk.Request) (*sdk.Volume, error) {
	d, err := p.open(request)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	id, err := p.checkDisk(d, request)
	if err == nil {
		err = sdk.SetLocation(p.root, id)
	}
	if err != nil {
		return nil, err
	}
	if err := p.ensureQuota(d); err != nil {
		return nil, err
	}
	if d.groups, err = d.Groups(); err != nil {
		return nil, err
	}
	subvolume, err := d.openOwn(request.VolumeName)
	if errors.Is(err, os.ErrNotExist) {
		if err = p.checkSource(d, request); err == nil {
			subvolume, err = p.create(d, request)
		}
	}
	if err != nil {
		return nil, err
	}
	defer subvolume.Close()
	// The limit is set again, since an undo that was interrupted may have removed it.
	if err := d.SetLimit(d.group, uint64(request.SizeBytes)); err != nil {
		return nil, err
	}
	if err := subvolume.Chmod(d.mode); err != nil {
		return nil, err
	}
	return &sdk.Volume{
		Source:       corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: filepath.Join(d.root, request.VolumeName)}},
		NodeAffinity: sdk.NodeAffinity(corev1.LabelHostname, cmp.Or(request.NodeHostname, p.node)),
	}, d.Sync()
}

// checkDisk is the UUID of the file system. It is an error if that is not the one that the request is about.
func (p provisioner) checkDisk(d *disk, request sdk.Request) (id string, err error) {
	id, err = d.ID()
	if err == nil && request.Location != "" && request.Location != id {
		err = fmt.Errorf("%s on node %s is file system %s, but volume %s is on %s; is that one mounted?", d.root, p.node, id, request.VolumeName, contract.Clip(contract.OneLine(request.Location), 64))
	}
	return id, err
}

// ensureQuota enables simple quotas in a file system without quotas.
func (p provisioner) ensureQuota(d *disk) error {
	on, err := d.HasSimpleQuota()
	switch {
	case errors.Is(err, kernel.ErrOtherQuota):
		return sdk.Refuse(fmt.Errorf("%s on node %s has quotas of the older kind, which leave out what an application has in subvolumes of its own: run \"btrfs quota disable %s\", and simple quotas are turned on",
			d.root, p.node, d.root))
	case err != nil || on:
		return err
	}
	err = d.EnableSimpleQuota()
	switch {
	case errors.Is(err, unix.EPERM):
		return sdk.Refuse(fmt.Errorf("node %s: %w: the class needs run-as-user: \"0\" and capabilities: SYS_ADMIN", p.node, err))
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOTTY):
		return sdk.NotHere(fmt.Errorf("node %s: %w: simple quotas need Linux 6.7 or newer", p.node, err))
	}
	return err
}

// openOwn opens a volume's subvolume, and verifies that it is a member of the volume's group. The error is os.ErrNotExist if there is
// nothing of that name.
func (d *disk) openOwn(name string) (*kernel.Subvolume, error) {
	group, err := groupOf(name)
	if err != nil {
		return nil, err
	}
	subvolume, err := d.Subvolume(name)
	if err != nil && !errors.Is(err, kernel.ErrNoSubvolume) {
		return nil, err
	}
	if err == nil && d.groups[group].Members[subvolume.ID] {
		return subvolume, nil
	}
	if err == nil {
		subvolume.Close()
	}
	return nil, fmt.Errorf("%s/%s is not ours; move it out of the way", d.root, name)
}

// create creates the subvolume if the disk has room for it.
func (p provisioner) create(d *disk, request sdk.Request) (*kernel.Subvolume, error) {
	size := uint64(request.SizeBytes)
	if !d.groups[d.group].Limited { // else an attempt that was killed has set the limit already
		room, err := d.room()
		if err != nil {
			return nil, err
		}
		if room < size {
			return nil, sdk.NotHere(fmt.Errorf("%s on node %s has room for %s, and the claim asks for %s", d.root, p.node, mebibytes(room), mebibytes(size)))
		}
	}
	if err := d.SetLimit(d.group, size); err != nil {
		return nil, err
	}
	if err := p.createSubvolume(d, request); err != nil {
		return nil, err
	}
	return d.Subvolume(request.VolumeName)
}

// createSubvolume creates the subvolume, empty or as a clone.
func (p provisioner) createSubvolume(d *disk, request sdk.Request) error {
	if request.Source == nil {
		return d.CreateSubvolume(request.VolumeName, d.group)
	}
	if request.Source.Snapshot != "" {
		return p.restore(d, request)
	}
	source, err := d.openOwn(request.Source.VolumeName)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("node %s has no volume %s to clone: a clone has to be on the node of its source", p.node, request.Source.VolumeName)
	}
	if err != nil {
		return err
	}
	defer source.Close()
	return d.Snapshot(source, request.VolumeName, d.group)
}

func (d *disk) room() (uint64, error) {
	d.removeEmptyGroups()
	size, free, err := d.Space()
	return roomIn(size, free, d.groups), err
}

// removeEmptyGroups removes the groups of deleted volumes. Right after a delete a group still has members, until the kernel has freed their
// space. A group that cannot be removed yet is removed for a later claim. A group still has its limit if somebody else deleted the
// subvolume, or if the volume was never made. No group of a volume in creation is removed, since a provision has the lock until its
// subvolume is a member.
func (d *disk) removeEmptyGroups() {
	for id, group := range d.groups {
		if id == d.group || len(group.Members) > 0 {
			continue
		}
		if d.RemoveGroup(id) == nil {
			delete(d.groups, id)
		} else if group.Limited && d.ClearLimit(id) == nil {
			group.Limited = false
			d.groups[id] = group
		}
	}
}

// Delete implements sdk.Provisioner.
func (p provisioner) Delete(_ context.Context, request sdk.Request, volume *corev1.PersistentVolume) error {
	return p.remove(request, volume)
}

// checkNode returns an error if the volume is on another node.
func (p provisioner) checkNode(request sdk.Request, volume *corev1.PersistentVolume) error {
	// The affinity has the node's label, which may not be its name. A location tells the disk.
	if node := nodeOf(volume); node != "" && node != p.node && request.Location == "" {
		return sdk.NotHere(fmt.Errorf("volume %s is on node %s, and this is node %s", volume.Name, contract.OneLine(node), p.node))
	}
	return nil
}

// remove removes a volume or a snapshot. One does not need the other.
func (p provisioner) remove(request sdk.Request, volume *corev1.PersistentVolume) error {
	if err := p.checkNode(request, volume); err != nil {
		return err
	}
	d, err := p.openExisting(request)
	if err != nil {
		return err
	}
	defer d.Close()
	subvolume, err := d.openOwn(storageOf(request))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	// A volume that has reached its limit cannot be removed.
	if d.groups[d.group].Limited {
		if err := d.ClearLimit(d.group); err != nil {
			return err
		}
	}
	if subvolume != nil {
		subvolume.Close()
		if err := d.Destroy(storageOf(request)); err != nil {
			return err
		}
	}
	return d.Sync()
}

// openExisting opens the disk of an existing volume. A file system without quotas, or another file system, is not that disk. The disk may be
// mounted later.
func (p provisioner) openExisting(request sdk.Request) (*disk, error) {
	d, err := p.open(request)
	if err != nil {
		if sdk.ExitCode(err) == contract.ExitNotHere {
			err = sdk.TryAgain(err)
		}
		return nil, err
	}
	_, err = p.checkDisk(d, request)
	on := false
	if err == nil {
		on, err = d.HasSimpleQuota()
	}
	if err == nil && !on {
		err = sdk.TryAgain(fmt.Errorf("%s on node %s has no quotas, so no volume was made there; is its disk mounted?", d.root, p.node))
	}
	if err == nil {
		d.groups, err = d.Groups()
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Expand implements sdk.Expander.
func (p provisioner) Expand(_ context.Context, request sdk.Request, _ *corev1.PersistentVolume) error {
	d, err := p.openExisting(request)
	if err != nil {
		return err
	}
	defer d.Close()
	subvolume, err := d.openOwn(request.VolumeName)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s on node %s has no volume %s; is its disk mounted?", d.root, p.node, request.VolumeName)
	}
	if err != nil {
		return err
	}
	subvolume.Close()
	size, limit := uint64(request.SizeBytes), d.groups[d.group].Limit
	if size <= limit {
		return nil
	}
	room, err := d.room()
	if err != nil {
		return err
	}
	if size-limit > room {
		return sdk.Refuse(fmt.Errorf("%s on node %s has room for %s more, and the claim asks for %s more", d.root, p.node, mebibytes(room), mebibytes(size-limit)))
	}
	if err := d.SetLimit(d.group, size); err != nil {
		return err
	}
	return d.Sync()
}

// List implements sdk.Lister.
func (p provisioner) List(_ context.Context, request sdk.Request) ([]sdk.Storage, error) {
	d, err := p.openExisting(request)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Names()
	var storage []sdk.Storage
	for _, name := range names {
		if _, other := groupOf(name); other != nil || !strings.HasPrefix(name, "pvc-") {
			continue
		}
		if subvolume, err := d.openOwn(name); err == nil {
			subvolume.Close()
			storage = append(storage, sdk.Storage{Name: name, Remove: fmt.Sprintf("ssh %s btrfs subvolume delete %s/%s", p.node, d.root, name)})
		}
	}
	return storage, err
}

// nodeOf is the node of a volume, by its node affinity. It is empty for an undo, which has no volume.
func nodeOf(volume *corev1.PersistentVolume) string {
	if volume == nil || volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return ""
	}
	for _, term := range volume.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, expression := range term.MatchExpressions {
			if expression.Key == corev1.LabelHostname && len(expression.Values) == 1 {
				return expression.Values[0]
			}
		}
	}
	return ""
}
