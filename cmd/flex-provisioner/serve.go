package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// serve serves probes and metrics until stop is called.
func serve(ctx context.Context, o *options, metrics prometheus.Gatherer, state *readiness) (stop func(), err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.httpAddress)
	if err != nil {
		return nil, fmt.Errorf("listen on --http-address=%s: %w", o.httpAddress, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {
		note, lacks := state.check(r.Context())
		if len(lacks) > 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, "not ready:\n%s\n", strings.Join(lacks, "\n"))
			return
		}
		fmt.Fprintf(w, "ok: %s\n", note)
	})
	mux.Handle("/metrics", metricsHandler(metrics))
	if o.profiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	server := newServer(mux)
	if o.profiling {
		server.WriteTimeout = 0 // a profile takes as long as it is asked to
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // returns ErrServerClosed after stop
	}()
	return func() { server.Close(); <-done }, nil
}

// Limits of the server, for everybody who reaches its port. The kubelet and Prometheus send a request in one packet,
// and do not need a connection for longer than that.
const (
	requestTimeout = 5 * time.Second
	answerTimeout  = 10 * time.Second
	idleTimeout    = time.Minute
	maxHeader      = 16 << 10
	maxConnections = 100
)

func newServer(handler http.Handler) *http.Server {
	var open connections
	return &http.Server{
		Handler: handler, ConnState: open.changed, MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: requestTimeout, WriteTimeout: answerTimeout, IdleTimeout: idleTimeout,
	}
}

// connections are the open ones, and that on which nothing has happened for longest is the first. Where there are too
// many it is closed. So nobody who holds connections keeps the kubelet out.
type connections struct {
	mu   sync.Mutex
	open []net.Conn
}

func (c *connections) changed(conn net.Conn, to http.ConnState) {
	if excess := c.note(conn, to); excess != nil {
		excess.Close() // its server goroutine reports the end
	}
}

func (c *connections) note(conn net.Conn, to http.ConnState) (excess net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = slices.DeleteFunc(c.open, func(other net.Conn) bool { return other == conn })
	if to == http.StateClosed || to == http.StateHijacked {
		return nil
	}

	c.open = append(c.open, conn)
	if len(c.open) > maxConnections {
		excess = c.open[0]
		c.open = slices.Delete(c.open, 0, 1)
	}
	return excess
}

// metricsHandler serves the metrics. Everybody who reaches the port can send requests, and each response visits all claims that wait. So two
// requests are served at a time, and a slow reader is cut off.
func metricsHandler(metrics prometheus.Gatherer) http.Handler {
	answer := promhttp.HandlerFor(metrics, promhttp.HandlerOpts{MaxRequestsInFlight: 2})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout)) // the writer of net/http supports it
		answer.ServeHTTP(w, r)
	})
}
