package cinder

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cloud"
)

const someID, nextID = "dae46dbd-d712-48fe-af72-de0872d24140", "0e9a5c3b-6d0c-4f7e-8a0b-3a1c7d1d2e3f"

func count[T any](all []T, err error) (int, error) { return len(all), err }

// The link to the next page leads to another server, which gets no request: each has the token. The next page comes
// from Cinder.
func TestNextPage(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		elsewhere.Add(1)
		http.Error(w, "grant privileged to all", http.StatusForbidden)
	}))
	defer other.Close()

	const volumes, more = `"volumes": [{"id": %q, "name": "data", "status": "available", "size": 1}]`, `"volumes_links": [{"rel": "next", "href": %q}]`
	for name, c := range map[string]struct {
		item, links string // of a page; in links %s is the address of the next one
		list        func(c *Client) (found int, err error)
	}{
		"volumes":              {volumes, more, func(c *Client) (int, error) { return count(c.Find(t.Context(), "data")) }},
		"volumes of all names": {volumes, more, func(c *Client) (int, error) { return count(c.All(t.Context(), nil)) }},
		"snapshots": {`"snapshots": [{"id": %q, "name": "data", "volume_id": "` + someID + `", "status": "available", "size": 1}]`,
			`"snapshots_links": [{"rel": "next", "href": %q}]`, func(c *Client) (int, error) { return count(c.FindSnapshots(t.Context(), "data")) }},
		"attachments": {`"attachments": [{"id": %q, "volume_id": "` + someID + `", "status": "attaching"}]`, `"links": {"next": %q}`,
			func(c *Client) (int, error) {
				begun, _, err := c.Begun(t.Context(), someID)
				return count(begun, err)
			}},
		"types": {`"volume_types": [{"id": %q, "name": "other"}]`, `"volume_type_links": [{"rel": "next", "href": %q}]`,
			func(c *Client) (int, error) {
				_, err := c.Multiattach(t.Context(), nextID) // the second page has it
				return 2, err
			}},
	} {
		t.Run(name, func(t *testing.T) {
			cinder := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if r.URL.Query().Get("marker") == someID {
					if r.URL.Query().Has("all_tenants") {
						t.Errorf("the link's query was taken: %s", r.URL.RawQuery)
					}
					fmt.Fprintf(w, "{"+c.item+"}", nextID)
					return
				}
				fmt.Fprintf(w, "{"+c.item+", "+c.links+"}", someID, other.URL+r.URL.Path+"?all_tenants=1&marker="+someID)
			}))
			defer cinder.Close()

			service := &gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{},
				Endpoint: cinder.URL + "/v3/p-1/", Type: "block-storage"}
			found, err := c.list(New(&cloud.Client{ServiceClient: service}))
			if found != 2 || err != nil {
				t.Errorf("found %d (%v), want those of 2 pages", found, err)
			}
			if n := elsewhere.Swap(0); n > 0 {
				t.Errorf("%d requests went to another server", n)
			}
		})
	}
}
