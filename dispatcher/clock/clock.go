// Package clock tells the API server's time. It owns the difference between that and the time of this process, imports
// nothing of the project, and must never make a request of its own.
package clock

import (
	"net/http"
	"sync/atomic"
	"time"
)

// Clock tells the time of the API server, which says when objects were created. The clock of this process's node may be
// wrong by hours. Then starting pods would be stopped at once, and what failed be tried again at once, or much later.
//
// The time is that of the last answer's header Date, which has whole seconds. Its zero value tells the time of this
// node.
type Clock struct {
	// Local is the time of this node; default time.Now.
	Local func() time.Time
	ahead atomic.Int64 // of the API server, in nanoseconds
}

// Now is the API server's time.
func (c *Clock) Now() time.Time { return c.local().Add(-time.Duration(c.ahead.Load())) }

func (c *Clock) local() time.Time {
	if c.Local == nil {
		return time.Now()
	}

	return c.Local()
}

// Wrap makes a client's transport that sets the clock.
func (c *Clock) Wrap(transport http.RoundTripper) http.RoundTripper {
	return clockTransport{transport, c}
}

type clockTransport struct {
	http.RoundTripper
	clock *Clock
}

// WrappedRoundTripper is for client-go, which looks for the transport that has the connections.
func (t clockTransport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t clockTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	sent := t.clock.local()
	response, err := t.RoundTripper.RoundTrip(request)
	if err != nil {
		return response, err
	}

	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		t.clock.ahead.Store(int64(ahead(sent, t.clock.local(), date)))
	}

	return response, nil
}

// ahead is the least by which this node's clock is ahead of the API server's. It is negative where the clock is behind,
// and 0 where both may be right. The API server wrote the date at some moment between the two times, and cut it to a
// whole second.
func ahead(sent, received, date time.Time) time.Duration {
	switch least, most := sent.Sub(date.Add(time.Second)), received.Sub(date); {
	case least > 0:
		return least
	case most < 0:
		return most
	}

	return 0
}
