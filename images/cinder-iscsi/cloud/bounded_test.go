package cloud

import (
	"io"
	"net/http"
	"testing"
)

// endless answers every request without an end, or with size bytes.
type endless struct {
	size   int64
	closed bool
}

func (e *endless) RoundTrip(*http.Request) (*http.Response, error) {
	body := io.Reader(e)
	if e.size > 0 {
		body = io.LimitReader(e, e.size)
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(body)}, nil
}

func (e *endless) Read(p []byte) (int, error) { return len(p), nil }
func (e *endless) CloseIdleConnections()      { e.closed = true }

// An answer of any length would take the memory of the pod.
func TestBoundedAnswers(t *testing.T) {
	for _, c := range []struct {
		name string
		size int64
		err  string
		read int64
	}{
		{"as long as may be", maxAnswer - 1, "", maxAnswer - 1},
		{"without an end", 0, "the backend's answer has 32 MiB or more", maxAnswer},
	} {
		backend := &endless{size: c.size}
		client := http.Client{Transport: bounded{backend}}
		response, err := client.Get("http://cinder")
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		read, err := io.Copy(io.Discard, response.Body)
		if err != nil {
			text = err.Error()
		}
		response.Body.Close()
		if read != c.read || text != c.err {
			t.Errorf("%s: read %d, %q; want %d, %q", c.name, read, text, c.read, c.err)
		}
		if client.CloseIdleConnections(); !backend.closed {
			t.Errorf("%s: idle connections are not closed", c.name)
		}
	}
}
