package flow

import (
	"context"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
)

// forgetUnfinished removes the attachments that Cinder began and did not complete, for instance since it was killed in os-attach. With
// such an attachment Cinder takes the volume for in use, and does not delete it. With a second one, of a later try, it does not end the
// connection either. If there is no such attachment, it returns refusal, the error of Cinder.
func (f *Flow) forgetUnfinished(ctx context.Context, v *cinder.Volume, refusal error) error {
	ids, err := f.cinder.Begun(ctx, v.ID)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return refusal
	}
	for _, id := range ids {
		if err := f.cinder.Forget(ctx, id); err != nil {
			return err
		}
	}
	return nil
}
