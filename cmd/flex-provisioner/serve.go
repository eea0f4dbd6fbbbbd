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

// serve answers probes and scrapes until the function that it returns is called.
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
	mux.Handle("/metrics", scrapes(metrics))
	if o.profiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ends with ErrServerClosed, which says that stop was called
	}()
	return func() { server.Close(); <-done }, nil
}

// scrapes answers with the metrics. Anybody who reaches the port may ask, and each answer goes through all that waits: so
// there are two at a time, and a reader that is slow is cut off before it keeps others out for long.
func scrapes(metrics prometheus.Gatherer) http.Handler {
	answer := promhttp.HandlerFor(metrics, promhttp.HandlerOpts{MaxRequestsInFlight: 2})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(10 * time.Second)) // the server's own writer can
		answer.ServeHTTP(w, r)
	})
}
