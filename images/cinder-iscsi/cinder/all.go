package cinder

import (
	"context"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
)

// All lists the volumes of the project whose metadata has all of the given, by name. A server that knows no such filter
// lists everything, so it is applied here.
func (c *Client) All(ctx context.Context, metadata map[string]string) ([]Volume, error) {
	var found []Volume
	err := c.do(Find, "", func() error {
		pages, err := volumes.List(c.service, volumes.ListOpts{}).AllPages(ctx)
		if err != nil {
			return err
		}
		found, err = volumes.ExtractVolumes(pages)
		return err
	})
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(v Volume) bool {
		for key, value := range metadata {
			if v.Metadata[key] != value {
				return true
			}
		}
		return false
	})
	slices.SortFunc(found, func(a, b Volume) int { return strings.Compare(a.Name, b.Name) })
	return found, checked(found...)
}
