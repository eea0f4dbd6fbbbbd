package cinder

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumetypes"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
	"github.com/flex-provisioner/flex-provisioner/sdk"
)

// messagesVersion is the first microversion with user messages.
const messagesVersion = "3.5"

// Message is Cinder's last user message about a volume. It is empty if there is none, or if it cannot be read.
func (c *Client) Message(ctx context.Context, id string) string {
	service := *c.service
	service.Microversion = messagesVersion
	var answer struct {
		Messages []struct {
			Text    string `json:"user_message"`
			Created string `json:"created_at"`
		} `json:"messages"`
	}
	err := c.do(Message, id, func() error {
		_, err := service.Get(ctx, service.ServiceURL("messages")+"?resource_uuid="+url.QueryEscape(id), &answer, &gophercloud.RequestOpts{OkCodes: []int{200}})
		return err
	})
	if err != nil {
		return ""
	}
	var text, last string
	for _, m := range answer.Messages {
		if m.Created >= last {
			text, last = m.Text, m.Created
		}
	}
	return form.Line(text)
}

// Multiattach reports whether volumes of a type may be attached more than once. An empty name means the default type.
func (c *Client) Multiattach(ctx context.Context, name string) (bool, error) {
	var multiattach bool
	err := c.do(Types, name, func() (err error) { multiattach, err = c.multiattach(ctx, name); return err })
	return multiattach, err
}

func (c *Client) multiattach(ctx context.Context, name string) (bool, error) {
	volumeType, err := c.volumeType(ctx, name)
	return err == nil && isMultiattach(volumeType), err
}

// TypeName is the name of a volume type, by its name or ID.
func (c *Client) TypeName(ctx context.Context, nameOrID string) (string, error) {
	var found string
	err := c.do(Types, nameOrID, func() error {
		volumeType, err := c.volumeType(ctx, nameOrID)
		if err == nil {
			found = volumeType.Name
		}
		return err
	})
	return found, err
}

// volumeType finds a volume type by its name or ID, and the default one by an empty name.
func (c *Client) volumeType(ctx context.Context, name string) (*volumetypes.VolumeType, error) {
	if name == "" {
		return volumetypes.Get(ctx, c.service, "default").Extract()
	}
	pages, err := volumetypes.List(c.service, volumetypes.ListOpts{}).WithPageCreator(typePage).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	all, err := volumetypes.ExtractVolumeTypes(pages)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if t.Name == name || t.ID == name {
			return &t, nil
		}
	}
	return nil, sdk.Refuse(fmt.Errorf("cinder has no volume type %q", name))
}

func typePage(result pagination.PageResult) pagination.Page {
	return volumetypes.VolumeTypePage{LinkedPageBase: pageOf(result)}
}

func isMultiattach(t *volumetypes.VolumeType) bool {
	return strings.EqualFold(strings.TrimSpace(t.ExtraSpecs["multiattach"]), "<is> True")
}
