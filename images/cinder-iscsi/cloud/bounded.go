package cloud

import (
	"fmt"
	"io"
	"net/http"
)

// maxAnswer is the limit in bytes on a response, which has to fit into the pod's memory. A page of a thousand volumes with all their metadata
// is smaller.
const maxAnswer = 32 << 20

// bounded returns an error for responses of maxAnswer or more.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = &boundedBody{ReadCloser: response.Body, left: maxAnswer}
	return response, nil
}

// CloseIdleConnections is called by http.Client.
func (b bounded) CloseIdleConnections() {
	if next, ok := b.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

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
