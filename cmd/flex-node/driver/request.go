package driver

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Volume is what a request asks to be staged.
type Volume struct {
	// ID is the name of the volume, and of the folder in Directory that has its image. So no volume names another's file.
	ID string
	// Stager is the way to the volume. Directory is of loop, and Paths, WWID and CHAP are of iscsi.
	Stager    string
	Directory string
	Paths     []Path
	WWID      string
	CHAP      CHAP

	Block   bool
	FSType  string
	Options []string
	// ReadOnly reports whether other nodes may have the volume as well, and none of them writes.
	ReadOnly bool
}

// noun is what the storage of the volume is called.
func (v Volume) noun() string {
	if v.Stager == stagerISCSI {
		return "disk"
	}

	return "image"
}

// Attributes of a volume.
const (
	attributeStager    = contract.AttributeStager
	attributeDirectory = "directory"
	stagerLoop         = contract.StagerLoop
	stagerISCSI        = "iscsi"
	// ephemeral is what the kubelet says of a volume that a pod's author wrote.
	ephemeral = "csi.storage.k8s.io/ephemeral"
)

// idForm keeps an ID to one name of a folder, that a device can bear as well.
var idForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,56}[a-z0-9])?$`)

// fsTypes are those that the driver makes. Every other one is a kernel's parser more for bytes that somebody wrote.
var fsTypes = []string{"ext4", "xfs"}

// singleNode are the access modes of a volume that one node has at a time. ReadWriteOncePod is one of these to the
// kubelet, which keeps other pods away itself.
var singleNode = []csi.VolumeCapability_AccessMode_Mode{
	csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
}

// required returns an error for the first field that is empty.
func required(fields ...string) error {
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1] == "" {
			return status.Errorf(codes.InvalidArgument, "%s is missing", fields[i])
		}
	}

	return nil
}

// volumeOf checks a request to stage a volume.
func (n *Node) volumeOf(r *csi.NodeStageVolumeRequest) (Volume, error) {
	attributes := r.GetVolumeContext()
	v := Volume{ID: r.GetVolumeId(), Stager: attributes[attributeStager], Directory: attributes[attributeDirectory]}
	err := required("volume_id", v.ID, "staging_target_path", r.GetStagingTargetPath())
	if err != nil {
		return v, err
	}

	if !slices.Contains(n.Stagers, v.Stager) {
		return v, status.Errorf(codes.InvalidArgument, "volumeAttributes.stager is %.64q: this node's flex-node has %s "+
			"(--stagers)", v.Stager, strings.Join(n.Stagers, ", "))
	}

	if err := v.setCapability(r.GetVolumeCapability()); err != nil {
		return v, err
	}

	if !idForm.MatchString(v.ID) {
		return v, status.Errorf(codes.InvalidArgument,
			"volumeHandle is %.64q: it has to be the volume's name, of at most 58 letters, digits, '-' and '.'", v.ID)
	}

	if v.Stager == stagerISCSI {
		err := v.setTargets(r, n.Name)

		return v, err
	}

	for key := range attributes {
		if key != attributeStager && key != attributeDirectory {
			return v, status.Errorf(codes.InvalidArgument, "volumeAttributes has %.64q: stager and directory are known", key)
		}
	}

	if !slices.Contains(n.Directories, v.Directory) {
		return v, status.Errorf(codes.InvalidArgument, "volumeAttributes.directory is %.64q: this node's flex-node has %s "+
			"(--directory)", v.Directory, strings.Join(n.Directories, ", "))
	}

	return v, nil
}

// setTargets checks where a volume of the stager iscsi is.
func (v *Volume) setTargets(r *csi.NodeStageVolumeRequest, node string) error {
	for key := range r.GetVolumeContext() {
		if key != attributeStager {
			return status.Errorf(codes.InvalidArgument, "volumeAttributes has %.64q: stager alone is known to iscsi", key)
		}
	}

	if err := v.setPublished(r.GetPublishContext()); err != nil {
		return err
	}

	return v.setCHAP(r.GetSecrets(), node)
}

// setCapability checks how the volume is to be used.
func (v *Volume) setCapability(c *csi.VolumeCapability) error {
	if c == nil || c.GetAccessMode() == nil || c.GetMount() == nil && c.GetBlock() == nil {
		return status.Error(codes.InvalidArgument, "volume_capability is missing")
	}

	mode := c.GetAccessMode().GetMode()
	v.ReadOnly = mode == csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	shared := v.ReadOnly || mode == csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER && c.GetBlock() != nil
	switch {
	case slices.Contains(singleNode, mode) || v.Stager == stagerISCSI && shared:
	case v.Stager == stagerISCSI:
		return status.Errorf(codes.InvalidArgument, "access mode %s: a file system is one node's at a time, or nobody "+
			"writes to it", mode)
	default:
		return status.Errorf(codes.InvalidArgument, "access mode %s: an image is one node's at a time", mode)
	}

	v.Block = c.GetBlock() != nil
	if v.Block {
		return nil
	}

	v.FSType, v.Options = c.GetMount().GetFsType(), c.GetMount().GetMountFlags()
	if v.FSType == "" {
		v.FSType = fsTypes[0]
	}

	if !slices.Contains(fsTypes, v.FSType) {
		return status.Errorf(codes.InvalidArgument, "fsType is %.64q: it has to be %s",
			v.FSType, strings.Join(fsTypes, " or "))
	}

	return nil
}

// CheckDirectories returns an error unless each one is an absolute path in its only form.
func CheckDirectories(directories []string) error {
	for _, d := range directories {
		if !filepath.IsAbs(d) || filepath.Clean(d) != d || d == "/" {
			return status.Errorf(codes.InvalidArgument, "--directory=%s: give an absolute path, without '/' at its end", d)
		}
	}

	return nil
}

// CheckStagers returns an error unless each one is known.
func CheckStagers(stagers []string) error {
	for _, s := range stagers {
		if s != stagerLoop && s != stagerISCSI {
			return status.Errorf(codes.InvalidArgument, "--stagers has %.64q: %s and %s are known", s, stagerLoop, stagerISCSI)
		}
	}

	return nil
}
