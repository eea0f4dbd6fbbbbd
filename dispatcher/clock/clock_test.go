package clock

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestAhead(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name                       string
		sent, received, date, want time.Duration
	}{
		{"the same second", 100 * time.Millisecond, 200 * time.Millisecond, 0, 0},
		{"the end of the second", 900 * time.Millisecond, 999 * time.Millisecond, 0, 0},
		{"a slow answer", 0, time.Minute, 10 * time.Second, 0},
		{"an hour ahead", time.Hour, time.Hour, 0, time.Hour - time.Second},
		{"an hour behind", 0, 10 * time.Millisecond, time.Hour, 10*time.Millisecond - time.Hour},
		{"ahead, and a slow answer", time.Hour, 2 * time.Hour, 0, time.Hour - time.Second},
	} {
		if got := ahead(noon.Add(c.sent), noon.Add(c.received), noon.Add(c.date)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// The clock follows the server that answered last, and keeps its time where an answer says nothing.
func TestClock(t *testing.T) {
	var c Clock
	skew := time.Hour
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(skew).UTC().Format(http.TimeFormat))
		if r.URL.Path == "/nothing" {
			w.Header()["Date"] = nil
		}
	}))
	defer server.Close()

	client := http.Client{Transport: c.Wrap(http.DefaultTransport)}
	get := func(path string) {
		t.Helper()
		response, err := client.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}

		response.Body.Close()
	}
	for _, skew = range []time.Duration{0, time.Hour, -time.Hour, 0} {
		get("/")
		for range 2 {
			if off := time.Until(c.Now()) - skew; off.Abs() > 2*time.Second {
				t.Errorf("with the server's clock at %s the clock is wrong by %s", skew, off)
			}

			get("/nothing")
		}
	}
}
