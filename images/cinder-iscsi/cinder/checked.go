package cinder

import (
	"fmt"
	"math"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
)

// validate refuses volumes that Cinder cannot have returned. IDs become parts of URLs and of commands for people, statuses parts of messages,
// and sizes those of PersistentVolumes. The error has no exit code of a refusal, since the request may have been carried out.
func validate(volumes ...Volume) error {
	for _, v := range volumes {
		if err := validateVolume(v); err != nil {
			return fmt.Errorf("cinder's answer: %w; is the endpoint right?", err)
		}
	}
	return nil
}

func validateVolume(v Volume) error {
	if _, err := form.UUID("volume ID", v.ID); err != nil {
		return err
	}
	for _, a := range v.Attachments {
		if _, err := form.UUID("attachment ID", a.AttachmentID); err != nil {
			return fmt.Errorf("volume %s: %w", v.ID, err)
		}
	}
	if err := form.Status("status", v.Status); err != nil {
		return fmt.Errorf("volume %s: %w", v.ID, err)
	}
	if v.Size < 0 || v.Size > math.MaxInt32 {
		return fmt.Errorf("volume %s: size %d GiB is not between 0 and %d", v.ID, v.Size, math.MaxInt32)
	}
	return nil
}
