package cinder

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/attachments"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
)

// AttachmentsVersion is the first microversion with an API for attachments. Cinder has had it since Ocata.
const AttachmentsVersion = "3.27"

// completesVersion is the first microversion that completes attachments. Cinder has had it since Queens.
const completesVersion = "3.44"

func (c *Client) attachments(version string) *gophercloud.ServiceClient {
	service := *c.service
	service.Microversion = version
	return &service
}

// Record is what Cinder keeps of an attachment from its reservation on. A volume shows those alone that are complete. Its
// ConnectionInfo has passwords.
type Record = attachments.Attachment

// Records lists what Cinder keeps of a volume's attachments.
func (c *Client) Records(ctx context.Context, id string) ([]Record, error) {
	var all []Record
	err := c.do(Records, id, func() error {
		list := attachments.List(c.attachments(AttachmentsVersion), attachments.ListOpts{VolumeID: id})
		pages, err := list.WithPageCreator(attachmentPage).AllPages(ctx)
		if err != nil {
			return err
		}
		all, err = attachments.ExtractAttachments(pages)
		return err
	})
	if err != nil {
		return nil, err
	}
	// A server without that filter lists all attachments.
	all = slices.DeleteFunc(all, func(r Record) bool { return r.VolumeID != id })
	for _, r := range all {
		if err := checkAttachment(id, r.ID); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// ConnectionOf is the connection info of an attachment as JSON, nil if there is no such attachment.
func ConnectionOf(records []Record, id string) []byte {
	for _, r := range records {
		if r.ID == id {
			data, _ := json.Marshal(r.ConnectionInfo) // it came as JSON
			return data
		}
	}
	return nil
}

func checkAttachment(volume, id string) error {
	if _, err := form.UUID("attachment ID", id); err != nil {
		return fmt.Errorf("cinder's answer: volume %s: %w; is the endpoint right?", volume, err)
	}
	return nil
}

// Begun lists the IDs of a volume's attachments that Cinder began and did not complete, for instance since it was killed in os-attach. The
// volume does not show them, and no action on the volume removes them. Attachments of servers, and those with a connection, which
// others made by the attachments API, are not among them, but are counted as others.
func (c *Client) Begun(ctx context.Context, id string) (begun []string, others int, err error) {
	all, err := c.Records(ctx, id)
	for _, r := range all {
		isBegun := r.Status == "attaching" || r.Status == "error_attaching"
		if isBegun && r.Instance == "" && len(r.ConnectionInfo) == 0 {
			begun = append(begun, r.ID)
		}
	}
	return begun, len(all) - len(begun), err
}

func attachmentPage(result pagination.PageResult) pagination.Page {
	return attachments.AttachmentPage{LinkedPageBase: pageOf(result)}
}

// reservation is the volume of a new attachment. gophercloud always names an instance as well, and Cinder would ask Nova
// for that before it removes the attachment.
type reservation string

// ToAttachmentCreateMap is the body of the request.
func (r reservation) ToAttachmentCreateMap() (map[string]any, error) {
	return map[string]any{"attachment": map[string]any{"volume_uuid": string(r)}}, nil
}

// CreateAttachment reserves the volume, and returns the ID of the new attachment. Nobody else can create one until it is
// complete.
func (c *Client) CreateAttachment(ctx context.Context, volume string) (string, error) {
	made := &Record{}
	err := c.do(CreateAttachment, volume, func() (err error) {
		made, err = attachments.Create(ctx, c.attachments(AttachmentsVersion), reservation(volume)).Extract()
		return err
	})
	if err == nil {
		err = checkAttachment(volume, made.ID)
	}
	return made.ID, err
}

// UpdateAttachment exports the volume to the connector. Cinder keeps connector and connection info with the attachment.
func (c *Client) UpdateAttachment(ctx context.Context, id string, connector Connector) error {
	return c.do(UpdateAttachment, id, func() error {
		opts := attachments.UpdateOpts{Connector: connector}
		return attachments.Update(ctx, c.attachments(AttachmentsVersion), id, opts).Err
	})
}

// CompleteAttachment makes the volume "in-use", which shows the attachment from then on. It can be repeated.
func (c *Client) CompleteAttachment(ctx context.Context, id string) error {
	return c.do(CompleteAttachment, id, func() error {
		return attachments.Complete(ctx, c.attachments(completesVersion), id).ExtractErr()
	})
}

// Forget removes an attachment by the attachments API. Cinder ends its connection, if it has one, removes its export, and
// keeps other attachments of the volume.
func (c *Client) Forget(ctx context.Context, id string) error {
	return c.do(Forget, id, func() error {
		return attachments.Delete(ctx, c.attachments(AttachmentsVersion), id).ExtractErr()
	})
}
