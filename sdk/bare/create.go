package bare

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// Create makes the PersistentVolume name by post, and says whether it was this call that did. What passes by itself (429, 5xx, no
// connection, no answer) is tried again until ctx ends, and is a TryAgain error then. Everything else is the API server's last word,
// which post returns as an *Answer. That the volume exists already is success.
func Create(ctx context.Context, name string, post func(context.Context) error) (created bool, err error) {
	delay, last := 50*time.Millisecond, errors.New("no answer from the API server")
	for {
		err := post(ctx)
		var answer *Answer
		switch {
		case err == nil:
			return true, nil
		case errors.As(err, &answer) && answer.Exists:
			return false, nil
		case !isTransient(err):
			return false, fmt.Errorf("create persistentvolume %s: %w", name, err)
		case ctx.Err() == nil:
			last = err // and not the error that ctx made of a later call
		}
		wait := delay + rand.N(delay/5)
		if answer != nil {
			wait = max(wait, answer.RetryAfter)
		}
		if !sleep(ctx, wait) {
			return false, TryAgain(fmt.Errorf("create persistentvolume %s: %w: %w", name, context.Cause(ctx), last))
		}
		delay = min(2*delay, 5*time.Second)
	}
}

// isTransient: an error without a status never reached the API server, or its answer never reached us. Only a certificate
// that is not trusted stays so.
func isTransient(err error) bool {
	var answer *Answer
	if !errors.As(err, &answer) {
		var untrusted *tls.CertificateVerificationError
		return !errors.As(err, &untrusted)
	}
	return answer.Code == http.StatusTooManyRequests || answer.Code >= http.StatusInternalServerError
}

// sleep is false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
