package cinder

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/snapshots"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
)

// Snapshot is a snapshot of Cinder.
type Snapshot = snapshots.Snapshot

// FindSnapshots lists the snapshots of a name, the oldest first. The order is the same for everybody.
func (c *Client) FindSnapshots(ctx context.Context, name string) ([]Snapshot, error) {
	return c.snapshots(ctx, name, snapshots.ListOpts{Name: name}, func(s Snapshot) bool { return s.Name == name })
}

// SnapshotsOf lists the snapshots of a volume, the oldest first.
func (c *Client) SnapshotsOf(ctx context.Context, volume string) ([]Snapshot, error) {
	opts := snapshots.ListOpts{VolumeID: volume}

	return c.snapshots(ctx, "of "+volume, opts, func(s Snapshot) bool { return s.VolumeID == volume })
}

// snapshots lists what matches. A server without the filter of opts lists all snapshots.
func (c *Client) snapshots(
	ctx context.Context, what string, opts snapshots.ListOpts, matches func(Snapshot) bool,
) ([]Snapshot, error) {
	var found []Snapshot
	err := c.do(FindSnapshot, what, func() error {
		pages, err := snapshots.ListDetail(c.service, opts).WithPageCreator(snapshotPage).AllPages(ctx)
		if err != nil {
			return err
		}
		found, err = snapshots.ExtractSnapshots(pages)
		return err
	})
	if err != nil {
		return nil, err
	}

	found = slices.DeleteFunc(found, func(s Snapshot) bool { return !matches(s) })
	slices.SortFunc(found, func(a, b Snapshot) int {
		if order := a.CreatedAt.Compare(b.CreatedAt); order != 0 {
			return order
		}
		return strings.Compare(a.ID, b.ID)
	})

	return found, validateSnapshots(found...)
}

func snapshotPage(result pagination.PageResult) pagination.Page {
	return snapshots.SnapshotPage{LinkedPageBase: pageOf(result)}
}

// ShowSnapshot returns a snapshot by its ID, nil if it does not exist.
func (c *Client) ShowSnapshot(ctx context.Context, id string) (*Snapshot, error) {
	var snapshot *Snapshot
	gone := false
	err := c.do(ShowSnapshot, id, func() (err error) {
		snapshot, err = snapshots.Get(ctx, c.service, id).Extract()
		gone = err != nil
		return err
	})
	if err != nil || gone {
		return nil, err
	}

	return snapshot, validateSnapshots(*snapshot)
}

// CreateSnapshot requests a snapshot of a volume, which may be in use, and returns it while Cinder is still taking it. The
// request is never retried. From microversion 3.66 on Cinder needs no force, and ignores it.
func (c *Client) CreateSnapshot(
	ctx context.Context, volume, name string, metadata map[string]string,
) (*Snapshot, error) {
	opts := snapshots.CreateOpts{VolumeID: volume, Name: name, Metadata: metadata, Force: true}
	var snapshot *Snapshot
	err := c.do(CreateSnapshot, name, func() (err error) {
		snapshot, err = snapshots.Create(ctx, c.service, opts).Extract()
		return err
	})
	if err != nil {
		return nil, err
	}

	return snapshot, validateSnapshots(*snapshot)
}

// DeleteSnapshot requests the snapshot's removal. Cinder goes on after the response.
func (c *Client) DeleteSnapshot(ctx context.Context, id string) error {
	return c.do(DeleteSnapshot, id, func() error { return snapshots.Delete(ctx, c.service, id).ExtractErr() })
}

// validateSnapshots refuses snapshots that Cinder cannot have returned, as validate does for volumes.
func validateSnapshots(all ...Snapshot) error {
	for _, s := range all {
		if err := validateSnapshot(s); err != nil {
			return fmt.Errorf("cinder's answer: %w; is the endpoint right?", err)
		}
	}

	return nil
}

func validateSnapshot(s Snapshot) error {
	if _, err := form.UUID("snapshot ID", s.ID); err != nil {
		return err
	}
	if _, err := form.UUID("volume_id", s.VolumeID); err != nil {
		return fmt.Errorf("snapshot %s: %w", s.ID, err)
	}
	if err := form.Status("status", s.Status); err != nil {
		return fmt.Errorf("snapshot %s: %w", s.ID, err)
	}
	if s.Size < 0 || s.Size > math.MaxInt32 {
		return fmt.Errorf("snapshot %s: size %d GiB is not between 0 and %d", s.ID, s.Size, math.MaxInt32)
	}

	return nil
}
