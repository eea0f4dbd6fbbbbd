package cinder

import (
	"context"
	"slices"
	"strings"
)

// All lists the volumes of the project that have the metadata, by name. It applies the filter itself too, since a server without that filter
// lists all volumes.
func (c *Client) All(ctx context.Context, metadata map[string]string) ([]Volume, error) {
	var found []Volume
	err := c.do(Find, "", func() (err error) { found, err = c.list(ctx, ""); return err })
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
	return found, validate(found...)
}
