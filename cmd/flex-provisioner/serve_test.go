package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestScrapes: two are answered at a time, others are told to come back, and later ones are answered again.
func TestScrapes(t *testing.T) {
	begun, end := make(chan bool, 4), make(chan bool)
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "slow"}, func() float64 {
		begun <- true
		select {
		case <-end:
		case <-time.After(10 * time.Second): // a third one was let in
		}
		return 0
	}))
	handler := metricsHandler(registry)
	scrape := func() int {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		return answer.Code
	}
	codes := make(chan int)
	for range 2 {
		go func() { codes <- scrape() }()
		<-begun
	}
	if code := scrape(); code != http.StatusServiceUnavailable {
		t.Errorf("a third scrape at once got %d, want %d", code, http.StatusServiceUnavailable)
	}
	close(end)
	for range 2 {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("a scrape got %d", code)
		}
	}
	if code := scrape(); code != http.StatusOK {
		t.Errorf("a later scrape got %d", code)
	}
}

// pipes is a listener whose connections are in memory, so that virtual time passes on them.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error {
	close(p.ended)
	return nil
}

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// client is a client's side of a connection.
type client struct {
	net.Conn
	answers *bufio.Reader
}

func (p pipes) dial() *client {
	here, there := net.Pipe()
	p.conns <- there
	synctest.Wait()
	return &client{here, bufio.NewReader(here)}
}

// get sends a request with a header of so many bytes. It returns the status, or the error.
func (c *client) get(header int) string {
	go fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: a\r\nLong: %s\r\n\r\n", strings.Repeat("x", header))
	answer, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		return err.Error()
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	synctest.Wait() // until the server knows that the connection is idle
	return answer.Status
}

// serving runs a server in a bubble.
func serving(t *testing.T, do func(p pipes)) {
	synctest.Test(t, func(t *testing.T) {
		p := pipes{make(chan net.Conn), make(chan struct{})}
		server := newServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }))
		go func() { _ = server.Serve(p) }()
		do(p)
		server.Close()
	})
}

// TestIdleConnections: a connection ends soon on which no request comes, or no other one.
func TestIdleConnections(t *testing.T) {
	for name, c := range map[string]struct {
		first string // what is sent before nothing is sent any more
		after time.Duration
	}{
		"without a request":       {"", 5 * time.Second},
		"with a part of a header": {"GET / HTTP/1.1\r\nHost: a\r\n", 5 * time.Second},
		"after an answer":         {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			serving(t, func(p pipes) {
				began, conn := time.Now(), p.dial()
				defer time.AfterFunc(time.Hour, func() { conn.Close() }).Stop()
				go fmt.Fprint(conn, c.first)
				_, err := io.Copy(io.Discard, conn)
				if took := time.Since(began); err != nil || took != c.after {
					t.Errorf("it ended after %s (%v), want %s", took, err, c.after)
				}
			})
		})
	}
}

// TestManyConnections: who opens many connections loses the oldest ones, and others are answered.
func TestManyConnections(t *testing.T) {
	serving(t, func(p pipes) {
		first := p.dial()
		if got := first.get(0); got != "200 OK" {
			t.Fatal(got)
		}
		for range maxConnections - 1 {
			defer p.dial().Close()
		}
		if got := first.get(0); got != "200 OK" {
			t.Errorf("with %d connections the first is answered %s", maxConnections, got)
		}
		last := p.dial() // instead of the second
		defer p.dial().Close()
		if got := first.get(0) + ", " + last.get(0); got != "200 OK, 200 OK" {
			t.Errorf("the first and the last are answered %s", got)
		}
		for range maxConnections {
			defer p.dial().Close()
		}
		if got := first.get(0); got == "200 OK" {
			t.Error("the first is answered although nothing happened on it for longest")
		}
	})
}

// TestLargeHeader: a header takes no more memory than a limit.
func TestLargeHeader(t *testing.T) {
	serving(t, func(p pipes) {
		if got, want := p.dial().get(1000), "200 OK"; got != want {
			t.Errorf("a short header is answered %s, want %s", got, want)
		}
		conn := p.dial()
		defer conn.Close()
		if got, want := conn.get(64<<10), "431 Request Header Fields Too Large"; got != want {
			t.Errorf("a long header is answered %s, want %s", got, want)
		}
	})
}
