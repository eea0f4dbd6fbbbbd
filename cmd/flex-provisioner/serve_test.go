package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
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
