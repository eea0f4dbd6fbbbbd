package cloud

import (
	"fmt"
	"io"
	"net/http"
)

// maxAnswer bounds in bytes what the backend answers to a request: a page of a thousand volumes with all their metadata is
// less, and a pod has so much memory.
const maxAnswer = 32 << 20

// bounded ends answers of maxAnswer or more with an error.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = &boundedBody{ReadCloser: response.Body, left: maxAnswer}
	return response, nil
}

// CloseIdleConnections is what http.Client looks for.
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
