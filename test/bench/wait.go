package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// within bounds ctx, with an error that says what was waited for.
func within(ctx context.Context, d time.Duration, what string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("%s: not after %s", what, d))
}

// poll waits for a condition, which it asks at once and then every so often. Its error is the condition's, or the cause of ctx.
func poll(ctx context.Context, every time.Duration, satisfied wait.ConditionWithContextFunc) error {
	err := wait.PollUntilContextCancel(ctx, every, true, satisfied)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// pause lets time pass.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
