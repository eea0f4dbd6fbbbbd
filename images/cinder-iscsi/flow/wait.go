package flow

import (
	"context"
	"fmt"
	"time"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// The pause between two reads of a volume grows by half each time.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = 5 * time.Second
)

// maxFailures is the number of transient failures in a row after which a read is given up.
const maxFailures = 3

// backoff has the pauses of one wait.
type backoff struct{ next time.Duration }

// wait waits for the next pause. It returns an error if the context ends.
func (p *backoff) wait(ctx context.Context) error {
	p.next = min(max(firstPause, p.next*3/2), maxPause)
	timer := time.NewTimer(p.next)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// findVolumes finds the claim's volumes, and notes the state of the first.
func (f *Flow) findVolumes(ctx context.Context) ([]cinder.Volume, error) {
	found, err := patiently(ctx, func() ([]cinder.Volume, error) { return f.cinder.Find(ctx, f.Request.VolumeName) })
	if err != nil {
		return nil, err
	}
	mine, err := ownVolumes(found, f.Request.Claim.UID)
	if err != nil {
		return nil, sdk.Refuse(err)
	}
	f.exists, f.state = len(mine) > 0, "there is no cinder volume "+f.Request.VolumeName
	if f.exists {
		f.state = describe(&mine[0])
	}
	return mine, nil
}

// patiently retries a read after transient failures, since Cinder works on the volume meanwhile.
func patiently[T any](ctx context.Context, read func() (T, error)) (T, error) {
	var p backoff
	for failures := 1; ; failures++ {
		found, err := read()
		if err == nil || failures == maxFailures || sdk.ExitCode(err) == contract.ExitRefused || ctx.Err() != nil {
			return found, err
		}
		if err := p.wait(ctx); err != nil {
			return found, err
		}
	}
}

func describe(v *cinder.Volume) string { return fmt.Sprintf("cinder volume %s is %s", v.ID, v.Status) }

// withState adds the last state of the volume to an error that is due to the end of the context.
func (f *Flow) withState(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	why := "stopped"
	if context.Cause(ctx) == context.DeadlineExceeded {
		why = fmt.Sprintf("gave up before the pod's deadline of %d s", f.Request.TimeoutSeconds)
	}
	if f.state == "" {
		return fmt.Errorf("%s: %w", why, err)
	}
	return fmt.Errorf("%s while %s: %w", why, f.state, err)
}

// stateError is the error for a volume whose state allows no next step, with Cinder's message if there is one.
func (f *Flow) stateError(ctx context.Context, v *cinder.Volume) error {
	if who := otherUser(v, f.attacher()); who != "" {
		return fmt.Errorf("cinder volume %s is attached to %s; detach it there", v.ID, who)
	}
	if message := f.cinder.Message(ctx, v.ID); message != "" {
		return fmt.Errorf("%s: %s", describe(v), message)
	}
	return fmt.Errorf("%s, and cinder does not say why", describe(v))
}
