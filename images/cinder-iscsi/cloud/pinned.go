package cloud

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// pinned sends requests to Keystone and Cinder alone, where the settings, and for Cinder the catalog, say that they
// are. Each request has the token, and a server can name any other in its answers.
type pinned struct {
	http.RoundTripper
	origins []string
}

// allow is called before requests are sent to the URL.
func (p *pinned) allow(at string) {
	if parsed, err := url.Parse(at); err == nil {
		p.origins = append(p.origins, originOf(parsed))
	}
}

func originOf(at *url.URL) string { return strings.ToLower(at.Scheme + "://" + at.Host) }

func (p *pinned) RoundTrip(request *http.Request) (*http.Response, error) {
	if to := originOf(request.URL); !slices.Contains(p.origins, to) {
		return nil, fmt.Errorf("cinder's answer leads to %s, and the token is for %s", to,
			strings.Join(slices.Compact(p.origins), " and "))
	}
	return p.RoundTripper.RoundTrip(request)
}

// CloseIdleConnections is called by http.Client.
func (p *pinned) CloseIdleConnections() {
	if next, ok := p.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}
