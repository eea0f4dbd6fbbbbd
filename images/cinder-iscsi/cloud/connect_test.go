package cloud

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

// version is a Cinder of this microversion, asked for it.
type version string

func (v version) RoundTrip(*http.Request) (*http.Response, error) {
	body := fmt.Sprintf(`{"versions": [{"id": "v3.0", "status": "CURRENT", "version": %q, "min_version": "3.0"}]}`, string(v))
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// Without Keystone, a project's name that today's Cinder does not take in a URL is left to the token; those before Yoga need it.
func TestConnectNoAuth(t *testing.T) {
	const at, id = "http://cinder/v3/", "11111111111111111111111111111111"
	for _, c := range []struct {
		version                 version
		endpoint, project, want string
	}{
		{"3.70", at, id, at + id + "/"},
		{"3.66", at, id, at + id + "/"},
		{"3.70", at + id + "/", id, at + id + "/"},
		{"3.70", at, "kubernetes", at},
		{"3.66", at, "kubernetes", at + "kubernetes/"},
	} {
		config := &Config{Endpoint: c.endpoint, User: "admin", Project: c.project, Transport: c.version}
		if client, err := config.Connect(t.Context()); err != nil || client.Endpoint != c.want || client.Project != c.project {
			t.Errorf("%+v: client %+v, %v", c, client, err)
		}
	}
}

// TestProxy: requests for Keystone and Cinder go through the proxy of the Secret, and no error shows its password.
func TestProxy(t *testing.T) {
	asked := ""
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.String() + " by " + r.Header.Get("Proxy-Authorization")
		answer, _ := version("3.70").RoundTrip(r)
		_, _ = io.Copy(w, answer.Body)
	}))
	defer proxy.Close()
	for url, c := range map[string]struct{ asked, err string }{
		strings.Replace(proxy.URL, "//", "//user:hidden-word@", 1) + "\n": {asked: "GET http://cinder.invalid/v3/ by Basic dXNlcjpoaWRkZW4td29yZA=="},
		"proxy.example.com:3128":            {err: "proxy: must be the URL of a proxy, such as http://proxy.example.com:3128; the schemes are http, https and socks5"},
		"ftp://user:hidden-word@proxy:3128": {err: "proxy: must be the URL of a proxy, such as http://proxy.example.com:3128; the schemes are http, https and socks5"},
	} {
		asked = ""
		config, err := Parse(Files{cloudConf: []byte("[Cinder]\nendpoint=http://cinder.invalid/v3/\n"), proxyFile: []byte(url)}, "")
		if err == nil {
			_, err = config.Connect(t.Context())
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if asked != c.asked || text != c.err {
			t.Errorf("%s: asked %q, %s\nwant %q, %s", url, asked, text, c.asked, c.err)
		}
	}
}

// overloaded is a Cinder that answers 429 once, with that header Retry-After.
type overloaded struct {
	retryAfter string
	answered   bool
}

func (o *overloaded) RoundTrip(r *http.Request) (*http.Response, error) {
	if o.answered {
		return version("3.70").RoundTrip(r)
	}
	o.answered = true
	return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {o.retryAfter}}, Body: http.NoBody}, nil
}

// TestRetryAfter: a request that came too soon is sent again when the answer says, if the pod lives as long.
func TestRetryAfter(t *testing.T) {
	for after, c := range map[string]struct {
		took time.Duration
		ok   bool
	}{"2": {2 * time.Second, true}, "0": {}, "": {}, "soon": {}, "60": {}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
			defer cancel()
			begin := time.Now()
			config := &Config{Endpoint: "http://cinder/v3/", User: "admin", Project: "kubernetes", Transport: &overloaded{retryAfter: after}}
			_, err := config.Connect(ctx)
			if took := time.Since(begin); took != c.took || (err == nil) != c.ok {
				t.Errorf("%q: after %s: %v", after, took, err)
			}
		})
	}
}

// TestFromCatalog: the endpoint of the wanted interface and region that has Cinder's API v3, whatever the service is called.
func TestFromCatalog(t *testing.T) {
	entry := func(kind, iface, region, url string) tokens.CatalogEntry {
		return tokens.CatalogEntry{Type: kind, Endpoints: []tokens.Endpoint{{Interface: iface, Region: region, URL: url}}}
	}
	for name, c := range map[string]struct {
		region, iface string
		catalog       []tokens.CatalogEntry
		want, err     string
	}{
		"new before old": {"", "public", []tokens.CatalogEntry{entry("volumev3", "public", "west", "http://old/v3/p"), entry("block-storage", "public", "west", "http://new/v3/p")},
			"http://new/v3/p/", ""},
		"old name": {"", "public", []tokens.CatalogEntry{entry("volume", "public", "west", "http://c/v3/p")}, "http://c/v3/p/", ""},
		"region and interface": {"west", "internal", []tokens.CatalogEntry{entry("volumev3", "public", "west", "http://a/v3/p"),
			entry("volumev3", "internal", "east", "http://b/v3/p"), entry("volumev3", "internal", "west", "http://c/v3/p")}, "http://c/v3/p/", ""},
		"none": {"east", "public", []tokens.CatalogEntry{entry("volumev3", "public", "west", "http://c/v3/p"), entry("volumev2", "public", "east", "http://c/v2/p")}, "",
			"the catalog has no public endpoint of Cinder's API v3 in region east, but public volumev2 in region east (API v2), public volumev3 in region west; " +
				"correct region or os-endpoint-type, or name Cinder in cinder-endpoint"},
	} {
		config := &Config{Region: c.region, Interface: c.iface}
		got, err := config.fromCatalog(&tokens.ServiceCatalog{Entries: c.catalog})
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got != c.want || text != c.err {
			t.Errorf("%s: got %q, %s\nwant %q, %s", name, got, text, c.want, c.err)
		}
	}
}
