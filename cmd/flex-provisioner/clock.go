package main

import (
	"net/http"
	"sync/atomic"
	"time"
)

// clock tells the time of the API server, which says when objects were created. The clock of this process's node may be wrong by hours.
// Then starting pods would be stopped at once, and what failed be tried again at once, or much later.
//
// The time is that of the last answer's header Date, which has whole seconds. Its zero value tells the time of this node.
type clock struct{ ahead atomic.Int64 } // of the API server, in nanoseconds

func (c *clock) Now() time.Time { return time.Now().Add(-time.Duration(c.ahead.Load())) }

// wrap makes a client's transport that sets the clock.
func (c *clock) wrap(transport http.RoundTripper) http.RoundTripper {
	return clockTransport{transport, c}
}

type clockTransport struct {
	http.RoundTripper
	clock *clock
}

// WrappedRoundTripper is for client-go, which looks for the transport that has the connections.
func (t clockTransport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t clockTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	sent := time.Now()
	response, err := t.RoundTripper.RoundTrip(request)
	if err != nil {
		return response, err
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		t.clock.ahead.Store(int64(ahead(sent, time.Now(), date)))
	}
	return response, nil
}

// ahead is by how much this node's clock is ahead of the API server's at least, negative where it is behind, and 0 where both may be
// right. The API server wrote the date at some moment between the two times, and cut it to a whole second.
func ahead(sent, received, date time.Time) time.Duration {
	switch least, most := sent.Sub(date.Add(time.Second)), received.Sub(date); {
	case least > 0:
		return least
	case most < 0:
		return most
	}
	return 0
}
