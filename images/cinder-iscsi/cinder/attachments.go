package cinder

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/attachments"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
)

// AttachmentsVersion is the first microversion with an API for attachments. Cinder has had it since Ocata.
const AttachmentsVersion = "3.27"

func (c *Client) attachments() *gophercloud.ServiceClient {
	service := *c.service
	service.Microversion = AttachmentsVersion
	return &service
}

// Begun lists the IDs of a volume's attachments that Cinder began and did not complete, for instance since it was killed in os-attach. The
// volume does not show them, and no action on the volume removes them. Attachments of servers, and those with a connection, which
// others made by the attachments API, are not among them, but are counted as others.
func (c *Client) Begun(ctx context.Context, id string) (begun []string, others int, err error) {
	var all []attachments.Attachment
	err = c.do(Begun, id, func() error {
		list := attachments.List(c.attachments(), attachments.ListOpts{VolumeID: id})
		pages, err := list.WithPageCreator(attachmentPage).AllPages(ctx)
		if err != nil {
			return err
		}
		all, err = attachments.ExtractAttachments(pages)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	for _, a := range all {
		isBegun := (a.Status == "attaching" || a.Status == "error_attaching") &&
			a.Instance == "" && len(a.ConnectionInfo) == 0
		switch {
		case a.VolumeID != id: // a server without that filter lists all attachments
		case !isBegun:
			others++
		default:
			if _, err := form.UUID("attachment ID", a.ID); err != nil {
				return nil, 0, fmt.Errorf("cinder's answer: volume %s: %w; is the endpoint right?", id, err)
			}
			begun = append(begun, a.ID)
		}
	}
	return begun, others, nil
}

func attachmentPage(result pagination.PageResult) pagination.Page {
	return attachments.AttachmentPage{LinkedPageBase: pageOf(result)}
}

// Forget removes an attachment by the attachments API. Cinder removes its export, and keeps other attachments of the volume.
func (c *Client) Forget(ctx context.Context, id string) error {
	return c.do(Forget, id, func() error { return attachments.Delete(ctx, c.attachments(), id).ExtractErr() })
}
