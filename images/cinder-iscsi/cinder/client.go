package cinder

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cloud"
)

// Volume is a volume of Cinder.
type Volume = volumes.Volume

// Attachment is an attachment of a Volume.
type Attachment = volumes.Attachment

// CreateOpts are the options of a new volume.
type CreateOpts = volumes.CreateOpts

// Hints are hints for Cinder's scheduler.
type Hints = volumes.SchedulerHintOpts

// Connector describes the host that connects, in the form of os-brick.
type Connector map[string]any

// ToVolumeInitializeConnectionMap is the body of initialize_connection. gophercloud's type has no NQN, and a single WWNN.
func (c Connector) ToVolumeInitializeConnectionMap() (map[string]any, error) {
	return map[string]any{"os-initialize_connection": map[string]any{"connector": c}}, nil
}

// ToVolumeTerminateConnectionMap is the body of terminate_connection.
func (c Connector) ToVolumeTerminateConnectionMap() (map[string]any, error) {
	return map[string]any{"os-terminate_connection": map[string]any{"connector": c}}, nil
}

// Client is a client of Cinder. Its errors have exit codes, see sdk.ExitCode and docs/cinder-reference.md.
type Client struct {
	service *gophercloud.ServiceClient
	// Note is called after each call, with its duration and error, for the log.
	Note func(call Call, took time.Duration, err error)
}

// New makes a client from a connection.
func New(client *cloud.Client) *Client {
	return &Client{service: client.ServiceClient, Note: func(Call, time.Duration, error) {}}
}

func (c *Client) do(call Call, what string, request func() error) error {
	start := time.Now()
	err := Explain(call, what, request())
	c.Note(call, time.Since(start), err)
	return err
}

// Find lists the volumes of a name, the oldest first. The order is the same for everybody, so two pods agree on the first volume.
func (c *Client) Find(ctx context.Context, name string) ([]Volume, error) {
	var found []Volume
	err := c.do(Find, name, func() (err error) { found, err = c.list(ctx, name); return err })
	if err != nil {
		return nil, err
	}
	// A server without that filter lists all volumes.
	found = slices.DeleteFunc(found, func(v Volume) bool { return v.Name != name })
	slices.SortFunc(found, func(a, b Volume) int {
		if order := a.CreatedAt.Compare(b.CreatedAt); order != 0 {
			return order
		}
		return strings.Compare(a.ID, b.ID)
	})
	return found, validate(found...)
}

// list lists the volumes of a name, or all of them if it is empty.
func (c *Client) list(ctx context.Context, name string) ([]Volume, error) {
	pages, err := volumes.List(c.service, volumes.ListOpts{Name: name}).WithPageCreator(volumePage).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	return volumes.ExtractVolumes(pages)
}

func volumePage(result pagination.PageResult) pagination.Page {
	return volumes.VolumePage{LinkedPageBase: pageOf(result)}
}

// Show returns a volume by its ID, nil if it does not exist.
func (c *Client) Show(ctx context.Context, id string) (*Volume, error) {
	var volume *Volume
	var gone bool
	err := c.do(Show, id, func() (err error) {
		volume, err = volumes.Get(ctx, c.service, id).Extract()
		gone = err != nil
		return err
	})
	if err != nil || gone {
		return nil, err
	}
	return volume, validate(*volume)
}

// Create requests a volume, and returns it while Cinder is still creating it. The request is never retried. If the response is lost, the
// caller has to look for the volume.
func (c *Client) Create(ctx context.Context, opts CreateOpts, hints *Hints) (*Volume, error) {
	var builder volumes.SchedulerHintOptsBuilder
	if hints != nil {
		builder = hints
	}
	var volume *Volume
	err := c.do(Create, opts.Name, func() (err error) {
		volume, err = volumes.Create(ctx, c.service, opts, builder).Extract()
		return err
	})
	if err != nil {
		return nil, err
	}
	return volume, validate(*volume)
}

// Reserve reserves the volume. Of several callers at the same time, one succeeds.
func (c *Client) Reserve(ctx context.Context, id string) error {
	return c.do(Reserve, id, func() error { return volumes.Reserve(ctx, c.service, id).ExtractErr() })
}

// Connect exports the volume to the connector, and returns the connection info as JSON, which has passwords.
func (c *Client) Connect(ctx context.Context, id string, connector Connector) ([]byte, error) {
	var result volumes.InitializeConnectionResult
	err := c.do(Connect, id, func() error {
		result = volumes.InitializeConnection(ctx, c.service, id, connector)
		return result.Err
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(result.Body)
}

// Attach makes the volume "in-use" by the host. It names no instance, since Cinder would then ask Nova before it detaches the volume.
func (c *Client) Attach(ctx context.Context, id, host, mountPoint string, readOnly bool) error {
	opts := volumes.AttachOpts{HostName: host, MountPoint: mountPoint, Mode: volumes.ReadWrite}
	if readOnly {
		opts.Mode = volumes.ReadOnly
	}
	return c.do(Attach, id, func() error { return volumes.Attach(ctx, c.service, id, opts).ExtractErr() })
}

// Terminate ends the connector's connection. It also unreserves a volume that was only reserved.
func (c *Client) Terminate(ctx context.Context, id string, connector Connector) error {
	return c.do(Terminate, id, func() error { return volumes.TerminateConnection(ctx, c.service, id, connector).ExtractErr() })
}

// Detach removes one attachment, and with the last one the export. Without an ID it makes a volume available that has
// no attachment.
func (c *Client) Detach(ctx context.Context, id, attachment string) error {
	return c.do(Detach, id, func() error {
		return volumes.Detach(ctx, c.service, id, volumes.DetachOpts{AttachmentID: attachment}).ExtractErr()
	})
}

// Unreserve undoes Reserve. It has no effect on an attached volume.
func (c *Client) Unreserve(ctx context.Context, id string) error {
	return c.do(Unreserve, id, func() error { return volumes.Unreserve(ctx, c.service, id).ExtractErr() })
}

// extendsInUse is the first microversion that extends volumes in use. Cinder has had it since Pike.
const extendsInUse = "3.42"

// Extend requests a larger volume. Cinder goes on after the response.
func (c *Client) Extend(ctx context.Context, id string, gib int) error {
	service := *c.service
	service.Microversion = extendsInUse
	return c.do(Extend, id, func() error {
		return volumes.ExtendSize(ctx, &service, id, volumes.ExtendSizeOpts{NewSize: gib}).ExtractErr()
	})
}

// Delete requests the volume's removal. Cinder goes on after the response.
func (c *Client) Delete(ctx context.Context, id string) error {
	return c.do(Delete, id, func() error { return volumes.Delete(ctx, c.service, id, nil).ExtractErr() })
}
