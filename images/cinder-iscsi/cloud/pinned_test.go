package cloud

import (
	"fmt"
	"io"
	"net/http"
	"testing"
)

// sent answers every request, and remembers where it was sent to.
type sent struct{ to []string }

func (s *sent) RoundTrip(request *http.Request) (*http.Response, error) {
	s.to = append(s.to, request.URL.String())
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// The token goes nowhere but to Keystone and Cinder, whatever they answer.
func TestPinned(t *testing.T) {
	servers := &sent{}
	p := &pinned{RoundTripper: servers}
	for _, at := range []string{"https://keystone:5000/v3/", "https://Cinder:8776/v3/p-1/"} {
		p.allow(at)
	}
	client := http.Client{Transport: p}
	for at, refused := range map[string]bool{
		"https://cinder:8776/v3/p-1/volumes": false,
		"https://CINDER:8776/x?marker=1":     false,
		"https://keystone:5000/v3/auth":      false,
		"http://cinder:8776/v3/p-1/volumes":  true,
		"https://cinder:8777/v3/p-1/volumes": true,
		"https://cinder/v3/p-1/volumes":      true,
		"https://cinder:8776.evil.example/":  true,
		"https://cinder:8776@evil.example/":  true,
		"https://169.254.169.254/latest":     true,
	} {
		servers.to = nil
		response, err := client.Get(at)
		if err == nil {
			response.Body.Close()
		}
		if (err != nil) != refused || (len(servers.to) == 0) != refused {
			t.Errorf("%s: sent to %q (%v), want refused: %t", at, servers.to, err, refused)
		}
	}

	_, err := client.Get("http://evil.example/")
	want := `Get "http://evil.example/": cinder's answer leads to http://evil.example, and the token is for https://keystone:5000 and https://cinder:8776`
	if fmt.Sprint(err) != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

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
		pinned := &pinned{RoundTripper: backend}
		pinned.allow("http://cinder")
		client := http.Client{Transport: pinned}
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
