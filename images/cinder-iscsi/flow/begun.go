package flow

import (
	"context"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
)

// forgetBegun removes the attachments that Cinder began and did not end, as when it is killed in os-attach. With one of them
// Cinder calls the volume in use and does not delete it, and with one beside that of the next try it ends no connection. Where
// there is none, Cinder's refusal stands.
func (f *Flow) forgetBegun(ctx context.Context, v *cinder.Volume, refusal error) error {
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
