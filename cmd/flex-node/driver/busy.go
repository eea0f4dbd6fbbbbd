package driver

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// busy has what a call works on. A call that hangs, as on storage that does not answer, keeps its entry.
type busy struct {
	mu   sync.Mutex
	what map[string]bool
}

// begin returns a function to call at the end, or an error if another call works on the same.
func (b *busy) begin(what string) (end func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if b.what[what] {
		return nil, status.Errorf(codes.Aborted, "another call works on %s, and has not ended", what)
	}

	if b.what == nil {
		b.what = map[string]bool{}
	}

	b.what[what] = true

	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()

		delete(b.what, what)
	}, nil
}

// wait begins when no other call works on the same any more.
func (b *busy) wait(ctx context.Context, what string) (end func(), err error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()

	for {
		if end, err = b.begin(what); err == nil {
			return end, nil
		}

		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, status.Error(codes.Unavailable, status.Convert(err).Message())
		}
	}
}
