package flow

import (
	"context"
	"fmt"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
)

// forgetUnfinished removes the attachments that Cinder began and did not complete, for instance since it was killed in os-attach. With
// such an attachment Cinder takes the volume for in use, and does not delete it. With a second one, of a later try, it does not end the
// connection either. If there is no such attachment, it returns refusal, the error of Cinder.
func (f *Flow) forgetUnfinished(ctx context.Context, v *cinder.Volume, refusal error) error {
	ids, _, err := f.cinder.Begun(ctx, v.ID)
	if err != nil {
		return err
	}

	if len(ids) == 0 {
		return refusal
	}

	return f.forgetAll(ctx, ids)
}

// release makes a volume available that is in use and shows no attachment. It removes the attachments that Cinder
// began. If Cinder has no attachment at all, it detaches the volume without one. It leaves the attachments of others.
func (f *Flow) release(ctx context.Context, v *cinder.Volume) error {
	ids, others, err := f.cinder.Begun(ctx, v.ID)
	switch {
	case err != nil:
		return err
	case len(ids) > 0:
		return f.forgetAll(ctx, ids)
	case others > 0:
		return fmt.Errorf("%s by an attachment that is not ours; detach it there", describe(v))
	}

	return f.cinder.Detach(ctx, v.ID, "")
}

func (f *Flow) forgetAll(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if err := f.cinder.Forget(ctx, id); err != nil {
			return err
		}
	}

	return nil
}
