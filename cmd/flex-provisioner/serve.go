package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
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
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // returns ErrServerClosed after stop
	}()
	return func() { server.Close(); <-done }, nil
}

// metricsHandler serves the metrics. Everybody who reaches the port can send requests, and each response visits all claims that wait. So two
// requests are served at a time, and a slow reader is cut off.
func metricsHandler(metrics prometheus.Gatherer) http.Handler {
	answer := promhttp.HandlerFor(metrics, promhttp.HandlerOpts{MaxRequestsInFlight: 2})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(10 * time.Second)) // the writer of net/http supports it
		answer.ServeHTTP(w, r)
	})
}
