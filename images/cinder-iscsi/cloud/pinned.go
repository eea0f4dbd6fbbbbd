package cloud

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// pinned sends requests to Keystone and Cinder alone, where the settings, and for Cinder the catalog, say that they
// are. Each request has the token, and a server can name any other in its answers. It returns an error for responses of
// maxAnswer or more.
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
	response, err := p.RoundTripper.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = &boundedBody{ReadCloser: response.Body, left: maxAnswer}
	return response, nil
}

// CloseIdleConnections is called by http.Client.
func (p *pinned) CloseIdleConnections() {
	if next, ok := p.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// maxAnswer is the limit in bytes on a response, which has to fit into the pod's memory. A page of a thousand volumes
// with all their metadata is smaller.
const maxAnswer = 32 << 20

type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, fmt.Errorf("the backend's answer has %d MiB or more", maxAnswer>>20)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
