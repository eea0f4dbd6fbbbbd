package flow

import (
	"context"
	"fmt"
	"time"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/sdk"
)

// The time between two looks at a volume grows by half each time.
const (
	firstPause = 50 * time.Millisecond
	longest    = 5 * time.Second
)

// unanswered is how many looks in a row may fail by something that passes.
const unanswered = 3

// pauses are those of one wait.
type pauses struct{ next time.Duration }

// pause is an error when the context ends.
func (p *pauses) pause(ctx context.Context) error {
	p.next = min(max(firstPause, p.next*3/2), longest)
	timer := time.NewTimer(p.next)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// look finds the claim's volumes, and notes the state of the first. It bears a few failures that pass: whatever is waited
// for goes on meanwhile.
func (f *Flow) look(ctx context.Context) ([]cinder.Volume, error) {
	var p pauses
	for failures := 1; ; failures++ {
		found, err := f.cinder.Find(ctx, f.Request.VolumeName)
		if err == nil {
			mine, err := ours(found, f.Request.Claim.UID)
			if err != nil {
				return nil, sdk.Refuse(err)
			}
			f.exists, f.state = len(mine) > 0, "there is no cinder volume "+f.Request.VolumeName
			if f.exists {
				f.state = describe(&mine[0])
			}
			return mine, nil
		}
		if failures == unanswered || sdk.ExitCode(err) == contract.ExitRefused || ctx.Err() != nil {
			return nil, err
		}
		if err := p.pause(ctx); err != nil {
			return nil, err
		}
	}
}

func describe(v *cinder.Volume) string { return fmt.Sprintf("cinder volume %s is %s", v.ID, v.Status) }

// gaveUp tells the state that the volume was in when the time was over.
func (f *Flow) gaveUp(ctx context.Context, err error) error {
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

// stuck is the error for a volume that cannot be gone on with, in Cinder's own words where it has some.
func (f *Flow) stuck(ctx context.Context, v *cinder.Volume) error {
	if who := foreign(v, f.us()); who != "" {
		return fmt.Errorf("cinder volume %s is attached to %s; detach it there", v.ID, who)
	}
	if message := f.cinder.Message(ctx, v.ID); message != "" {
		return fmt.Errorf("%s: %s", describe(v), message)
	}
	return fmt.Errorf("%s, and cinder does not say why", describe(v))
}
