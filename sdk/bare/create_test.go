package bare_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flex-provisioner/flex-provisioner/sdk/bare"
)

func answer(code int, text string) *bare.Answer {
	return &bare.Answer{Code: code, Err: errors.New(text)}
}

// TestCreate: what is tried again, and what is the last word.
func TestCreate(t *testing.T) {
	reset := errors.New("connection reset by peer")
	there := &bare.Answer{Code: 409, Exists: true, Err: errors.New("there")}
	for name, c := range map[string]struct {
		first   []error // those of the first tries; the next one succeeds
		created bool
		err     string
	}{
		"well":         {nil, true, ""},
		"there":        {[]error{there}, false, ""},
		"lost":         {[]error{reset, there}, false, ""},
		"busy":         {[]error{answer(429, "busy"), answer(500, "broken"), answer(503, "down"), reset, fmt.Errorf("post: %w", answer(504, "late"))}, true, ""},
		"refused":      {[]error{answer(403, "no")}, false, "create persistentvolume pvc-1: no"},
		"conflict":     {[]error{answer(409, "changed")}, false, "create persistentvolume pvc-1: changed"},
		"below 500":    {[]error{answer(499, "gone")}, false, "create persistentvolume pvc-1: gone"},
		"at last":      {[]error{reset, answer(422, "invalid")}, false, "create persistentvolume pvc-1: invalid"},
		"not trusted":  {[]error{fmt.Errorf("post: %w", &tls.CertificateVerificationError{Err: errors.New("expired")})}, false, "create persistentvolume pvc-1: post: tls: failed to verify certificate: expired"},
		"no redirects": {[]error{answer(307, "elsewhere")}, false, "create persistentvolume pvc-1: elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				created, err := bare.Create(t.Context(), "pvc-1", func(context.Context) error {
					if tries++; tries <= len(c.first) {
						return c.first[tries-1]
					}
					return nil
				})
				code, want := 0, len(c.first)
				if c.err != "" {
					code = 1
				}
				if c.created {
					want++
				}
				if created != c.created || bare.ExitCode(err) != code || err != nil && err.Error() != c.err || tries != want {
					t.Errorf("created %t in %d tries, %v with code %d; want %t in %d, %s", created, tries, err, bare.ExitCode(err), c.created, want, c.err)
				}
			})
		})
	}
}

// TestCreateWaits: from 50 ms on, twice as long each time up to 5 s, and at most a fifth more, so that not all come at once. A longer
// wait is the API server's to ask for.
func TestCreateWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		asked := answer(429, "busy")
		asked.RetryAfter = 7 * time.Second
		errs := append(slices.Repeat([]error{answer(503, "down")}, 9), asked, errors.New("reset"))
		waits := []time.Duration{50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 5000 * ms, 5000 * ms, 7000 * ms, 5000 * ms}
		var last time.Time
		tries, spread := 0, false
		_, err := bare.Create(t.Context(), "pvc-1", func(context.Context) error {
			if tries > 0 {
				took, want := time.Since(last), waits[tries-1]
				spread = spread || took != want
				if took < want || took >= want+want/5 {
					t.Errorf("before try %d it waited %s, want %s and up to a fifth more", tries+1, took, want)
				}
			}
			last, tries = time.Now(), tries+1
			if tries <= len(errs) {
				return errs[tries-1]
			}
			return nil
		})
		if err != nil || !spread {
			t.Errorf("%v; waits differ: %t", err, spread)
		}
	})
}

// TestCreateEnds: where the time is over, the error says what the API server said last, and not what became of the call that the end cut
// off.
func TestCreateEnds(t *testing.T) {
	for name, c := range map[string]struct {
		take time.Duration // of a call
		want string
	}{
		"in a wait": {0, "create persistentvolume pvc-1: context deadline exceeded: down"},
		"in a call": {250 * time.Millisecond, "create persistentvolume pvc-1: context deadline exceeded: down"},
		"at once":   {time.Hour, "create persistentvolume pvc-1: context deadline exceeded: no answer from the API server"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				begin := time.Now()
				created, err := bare.Create(ctx, "pvc-1", func(ctx context.Context) error {
					select {
					case <-time.After(c.take):
						return answer(503, "down")
					case <-ctx.Done():
						return ctx.Err()
					}
				})
				if created || err == nil || err.Error() != c.want || bare.ExitCode(err) != 75 || time.Since(begin) != time.Second {
					t.Errorf("after %s: %v with code %d, want %s", time.Since(begin), err, bare.ExitCode(err), c.want)
				}
			})
		})
	}
}
