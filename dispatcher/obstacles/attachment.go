package obstacles

import (
	"fmt"
	"strings"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// ToAttach is what keeps a node from getting a volume. The volume was read from the API server.
func ToAttach(s *observed.Claim) (podspec.Reason, string) {
	of, v := s.Attachment, s.Volume
	switch {
	case v == nil:
		return events.ReasonAttachWaits, fmt.Sprintf("volume %s does not exist", observed.AttachedVolume(of.Object))
	case of.Stager() == "":
		return events.ReasonAttachRefused, fmt.Sprintf("volume %s has no spec.csi.volumeAttributes.%s, by which "+
			"flex-node knows how to stage it: make the volume again", v.Name, contract.AttributeStager)
	case v.DeletionTimestamp != nil:
		return events.ReasonAttachRefused, fmt.Sprintf("volume %s is being deleted", v.Name)
	case of.Connector == "":
		return events.ReasonAttachWaits, fmt.Sprintf("its CSINode has no driver %s: see that flex-node runs there",
			of.Driver)
	}

	return toAttachmentPod(s, contract.Attach)
}

// ToDetach is what keeps a volume from being taken away from a node. A volume whose object is gone cannot be found.
func ToDetach(s *observed.Claim) (podspec.Reason, string) {
	if s.Volume == nil {
		name := s.Attachment.Object.Name

		return events.ReasonAttachWaits, fmt.Sprintf("volume %s does not exist any more, so that no pod can take it "+
			"away from the node: do so on the storage system, then kubectl patch volumeattachment %s --type=merge "+
			"-p '{\"metadata\":{\"finalizers\":null}}'", observed.AttachedVolume(s.Attachment.Object), name)
	}

	return toAttachmentPod(s, contract.Detach)
}

func toAttachmentPod(s *observed.Claim, op contract.Operation) (podspec.Reason, string) {
	if by := s.Volume.Annotations[contract.ProvisionedBy]; by != s.Provisioner {
		return events.ReasonAttachRefused, fmt.Sprintf("volume %s is of provisioner %.64q, and pods of %s attach none "+
			"of it", s.Volume.Name, by, s.Provisioner)
	}

	if _, made := podspec.ClaimUIDOf(s.Volume.Name); !made {
		return events.ReasonAttachRefused, fmt.Sprintf("no provisioner pod made volume %s under this name, and pods "+
			"attach none but those", s.Volume.Name)
	}

	if reason, why := ToPod(s); reason != podspec.ReasonNone {
		return reason, why
	}

	if !s.Config.Attachments {
		return events.ReasonAttachRefused, fmt.Sprintf("class %s attaches no volumes: its ConfigMap %s has neither "+
			"the scripts \"attach\" and \"detach\" nor attachments: \"true\"", s.ClassName, s.Config.Name)
	}

	if _, doubt := s.VolumeIdentity(); doubt != "" {
		return events.ReasonRecord, doubt
	}

	return ToStorage(s, op, nil)
}

// attachedTo says which nodes still have the released volume, empty for none.
func attachedTo(s *observed.Claim) string {
	if len(s.AttachedTo) == 0 {
		return ""
	}

	return fmt.Sprintf("the volume is attached to %s, and its storage is removed after that: if the node is lost, see "+
		"what Kubernetes says of the VolumeAttachment", podspec.Clip(strings.Join(s.AttachedTo, ", "), 200))
}
