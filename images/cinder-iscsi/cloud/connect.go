package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
	"github.com/flex-provisioner/flex-provisioner/sdk"
)

// Client is a connection to Cinder.
type Client struct {
	*gophercloud.ServiceClient
	// Project is the ID of the project whose volumes the client sees. Without authentication it is the name of the project.
	Project string
	// Region is the region of the settings, or empty.
	Region string
}

// Close closes idle connections, of which Cinder has a limited number.
func (c *Client) Close() { c.HTTPClient.CloseIdleConnections() }

// userAgent is shown in Cinder's log.
const userAgent = "flex-provisioner-cinder"

// Connect authenticates by one request to Keystone. Errors of HTTP wrap those of gophercloud. Without authentication it sends no request,
// unless only some releases of Cinder allow the project's name in a URL.
func (c *Config) Connect(ctx context.Context) (*Client, error) {
	hosts := &pinned{RoundTripper: c.transport()}
	client := http.Client{Transport: hosts, CheckRedirect: noRedirect}
	provider := &gophercloud.ProviderClient{HTTPClient: client}
	provider.UserAgent.Prepend(userAgent)
	provider.RetryBackoffFunc, provider.MaxBackoffRetries = waitAsTold, maxWaits
	provider.UseTokenLock()
	if c.AuthURL == "" {
		return c.connectNoAuth(ctx, provider, hosts)
	}
	hosts.allow(c.AuthURL)
	provider.IdentityBase = strings.TrimSuffix(c.AuthURL, "v3/")
	provider.IdentityEndpoint = c.AuthURL
	auth := c.auth
	if err := openstack.AuthenticateV3(ctx, provider, &auth, gophercloud.EndpointOpts{}); err != nil {
		return nil, fmt.Errorf("log in at %s: %w", c.AuthURL, err)
	}
	project, catalog, err := resultOf(provider)
	if err != nil {
		return nil, fmt.Errorf("log in at %s: %w", c.AuthURL, err)
	}
	if project == "" {
		return nil, sdk.Refuse(fmt.Errorf("log in at %s: %w", c.AuthURL, errNoProject))
	}
	if err := form.ProjectID("project ID", project); err != nil {
		return nil, sdk.Refuse(fmt.Errorf("log in at %s: %w", c.AuthURL, err))
	}
	at := strings.ReplaceAll(c.Endpoint, projectTemplate, project)
	if at == "" {
		if at, err = c.fromCatalog(catalog); err != nil {
			return nil, sdk.Refuse(err)
		}
	}
	return c.client(provider, hosts, at, project), nil
}

// maxWaits is the number of times that a request waits as its answer says.
const maxWaits = 3

// waitAsTold waits for as long as the answer 429 says, after which the request is sent again: it had no effect.
// Cinder's own "0" is no time, and the pod's end is the limit.
func waitAsTold(ctx context.Context, answer *gophercloud.ErrUnexpectedResponseCode, _ error, _ uint) error {
	seconds, _ := strconv.Atoi(answer.ResponseHeader.Get("Retry-After"))
	deadline, limited := ctx.Deadline()
	wait := time.Duration(seconds) * time.Second
	if seconds <= 0 || limited && time.Until(deadline) < wait {
		return *answer
	}

	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(wait):
		return nil
	}
}

// client is a client of the Cinder at a URL. hosts are those of its requests.
func (c *Config) client(provider *gophercloud.ProviderClient, hosts *pinned, at, project string) *Client {
	hosts.allow(at)
	return &Client{
		ServiceClient: &gophercloud.ServiceClient{ProviderClient: provider, Endpoint: at, Type: "block-storage"},
		Project:       project,
		Region:        c.Region,
	}
}

// transport has timeouts for connections and response headers, since the time of a provisioner pod is limited.
func (c *Config) transport() http.RoundTripper {
	if c.Transport != nil {
		return c.Transport
	}
	return &http.Transport{
		Proxy:                 c.proxy,
		DialContext:           (&net.Dialer{Timeout: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:   15 * time.Second,
		IdleConnTimeout:       30 * time.Second,
		ExpectContinueTimeout: time.Second,
		ForceAttemptHTTP2:     true,
		TLSClientConfig:       c.tls.Clone(),
	}
}

// noRedirect follows no redirect. Go's client would change the method, or send the token to another server.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

var errNoProject = errors.New("the token is for no project, and Cinder's volumes belong to one; give tenant-name or tenant-id")

// resultOf is the project and the catalog of the token.
func resultOf(provider *gophercloud.ProviderClient) (string, *tokens.ServiceCatalog, error) {
	result, known := provider.GetAuthResult().(interface {
		ExtractProject() (*tokens.Project, error)
		ExtractServiceCatalog() (*tokens.ServiceCatalog, error)
	})
	if !known {
		return "", nil, errNoCatalog
	}
	project, err := result.ExtractProject()
	if err != nil {
		return "", nil, err
	}
	catalog, err := result.ExtractServiceCatalog()
	if err != nil {
		return "", nil, err
	}
	if project == nil {
		return "", catalog, nil
	}
	return project.ID, catalog, nil
}

// types are the names of Cinder's API v3 in catalogs, in the order of preference. "volume" is API v1 in old clouds, and the only entry in
// some new ones.
var types = []string{"block-storage", "volumev3", "block-store", "volume", "volumev2"}

// fromCatalog finds the endpoint in the catalog. Unlike gophercloud's function it sends no request for the endpoint's versions.
func (c *Config) fromCatalog(catalog *tokens.ServiceCatalog) (string, error) {
	var endpoints []string
	for _, kind := range types {
		for _, entry := range catalog.Entries {
			if entry.Type != kind {
				continue
			}
			for _, e := range entry.Endpoints {
				endpoints = append(endpoints, form.Line(fmt.Sprintf("%s %s in region %s", e.Interface, kind, e.Region)))
				if e.Interface == c.Interface && (c.Region == "" || e.Region == c.Region || e.RegionID == c.Region) {
					at, err := cinderURL(settings{endpoint: {e.URL, "the catalog's " + kind}})
					if err == nil {
						return at, nil
					}
					endpoints[len(endpoints)-1] += " (API " + strings.Join(versions(e.URL), "") + ")"
				}
			}
		}
	}
	slices.Sort(endpoints)
	endpoints = slices.Compact(endpoints)
	wanted := c.Interface + " endpoint of Cinder's API v3"
	if c.Region != "" {
		wanted += " in region " + c.Region
	}
	return "", fmt.Errorf("the catalog has no %s, but %s; correct region or os-endpoint-type, or name Cinder in cinder-endpoint", wanted, form.Line(joinNames(endpoints)))
}

func versions(at string) []string { return regexp.MustCompile(`v[12]\b`).FindAllString(at, 1) }

// hexProject matches projects that every release of Cinder accepts in a URL: project_id_regex, since 20.0.0.
var hexProject = regexp.MustCompile(`^[0-9a-f-]+$`)

// connectNoAuth puts the project into the URL if all releases accept it. Before microversion 3.67 the URL needs a project, and accepts
// any. Later releases respond 404 to a name, but know the project from the token.
func (c *Config) connectNoAuth(ctx context.Context, provider *gophercloud.ProviderClient,
	hosts *pinned) (*Client, error) {
	provider.SetToken(c.User + ":" + c.Project)
	at := strings.ReplaceAll(c.Endpoint, projectTemplate, c.Project)
	switch {
	case !strings.HasSuffix(at, "/v3/"): // it has a project already
		return c.client(provider, hosts, at, projectOf(at)), nil
	case hexProject.MatchString(c.Project):
		return c.client(provider, hosts, at+c.Project+"/", c.Project), nil
	}
	optional, err := projectOptional(ctx, c.client(provider, hosts, at, c.Project))
	if err != nil {
		return nil, fmt.Errorf("ask %s for its version: %w", at, err)
	}
	if !optional {
		at += url.PathEscape(c.Project) + "/"
	}
	return c.client(provider, hosts, at, c.Project), nil
}

func projectOf(at string) string {
	elements := strings.Split(strings.TrimSuffix(at, "/"), "/")
	return elements[len(elements)-1]
}

// projectOptional reports whether Cinder has microversion 3.67, which needs no project in the URL.
func projectOptional(ctx context.Context, client *Client) (bool, error) {
	var body json.RawMessage
	_, err := client.Get(ctx, client.Endpoint, &body, &gophercloud.RequestOpts{OkCodes: []int{200, 300}})
	if err != nil {
		return false, err
	}
	var answer struct {
		Versions []struct {
			ID      string `json:"id"`
			Version string `json:"version"`
		} `json:"versions"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return false, fmt.Errorf("read its answer: %w", err)
	}
	for _, v := range answer.Versions {
		minor, found := strings.CutPrefix(v.Version, "3.")
		if number, err := strconv.Atoi(minor); found && err == nil {
			return number >= 67, nil
		}
	}
	return false, nil
}
