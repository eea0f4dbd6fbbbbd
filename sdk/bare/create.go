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

// Create creates the PersistentVolume name by post, and reports whether this call created it. It is a success if the volume exists already.
// Transient errors (429, 5xx, no connection, no response) are retried until ctx ends, and are a TryAgain error then. Every other error
// that post returns as an *Answer is final.
func Create(ctx context.Context, name string, post func(context.Context) error) (created bool, err error) {
	return retry(ctx, "create persistentvolume "+name, post)
}

// retry sends a request until it has an answer that is not transient. done is false if the object exists already.
func retry(ctx context.Context, what string, send func(context.Context) error) (done bool, err error) {
	delay, last := 50*time.Millisecond, errors.New("no answer from the API server")
	for {
		err := send(ctx)
		var answer *Answer
		switch {
		case err == nil:
			return true, nil
		case errors.As(err, &answer) && answer.Exists:
			return false, nil
		case !isTransient(err):
			return false, fmt.Errorf("%s: %w", what, err)
		case ctx.Err() == nil:
			last = err // an error that is due to the end of ctx is less helpful
		}
		wait := delay + rand.N(delay/5)
		if answer != nil {
			wait = max(wait, answer.RetryAfter)
		}
		if !sleep(ctx, wait) {
			return false, TryAgain(fmt.Errorf("%s: %w: %w", what, context.Cause(ctx), last))
		}
		delay = min(2*delay, 5*time.Second)
	}
}

// isTransient reports whether a retry may succeed. Without a status, the request did not reach the API server, or the response did not reach
// the client. That is transient, unless the certificate is not trusted.
func isTransient(err error) bool {
	var answer *Answer
	if !errors.As(err, &answer) {
		var untrusted *tls.CertificateVerificationError
		return !errors.As(err, &untrusted)
	}
	return answer.Code == http.StatusTooManyRequests || answer.Code >= http.StatusInternalServerError
}

// sleep waits for d, and reports false if ctx ends first.
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
