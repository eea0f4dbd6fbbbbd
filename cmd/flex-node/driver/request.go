package driver

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Volume is what a request asks to be staged.
type Volume struct {
	// ID is the name of the volume, and of the folder in Directory that has its image. So no volume names another's file.
	ID        string
	Directory string
	Block     bool
	FSType    string
	Options   []string
}

// Attributes of a volume.
const (
	attributeStager    = "stager"
	attributeDirectory = "directory"
	stagerLoop         = "loop"
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

// volumeOf checks a request to stage a volume. directories are those of the node.
func volumeOf(r *csi.NodeStageVolumeRequest, directories []string) (Volume, error) {
	v := Volume{ID: r.GetVolumeId(), Directory: r.GetVolumeContext()[attributeDirectory]}
	err := required("volume_id", v.ID, "staging_target_path", r.GetStagingTargetPath())
	if err != nil {
		return v, err
	}

	if err := v.setCapability(r.GetVolumeCapability()); err != nil {
		return v, err
	}

	if !idForm.MatchString(v.ID) {
		return v, status.Errorf(codes.InvalidArgument,
			"volumeHandle is %.64q: it has to be the volume's name, of at most 58 letters, digits, '-' and '.'", v.ID)
	}

	for key := range r.GetVolumeContext() {
		if key != attributeStager && key != attributeDirectory {
			return v, status.Errorf(codes.InvalidArgument, "volumeAttributes has %.64q: stager and directory are known", key)
		}
	}

	if stager := r.GetVolumeContext()[attributeStager]; stager != stagerLoop {
		return v, status.Errorf(codes.InvalidArgument, "volumeAttributes.stager is %.64q: it has to be loop", stager)
	}

	if !slices.Contains(directories, v.Directory) {
		return v, status.Errorf(codes.InvalidArgument, "volumeAttributes.directory is %.64q: this node's flex-node has %s "+
			"(--directory)", v.Directory, strings.Join(directories, ", "))
	}

	return v, nil
}

// setCapability checks how the volume is to be used.
func (v *Volume) setCapability(c *csi.VolumeCapability) error {
	if c == nil || c.GetAccessMode() == nil || c.GetMount() == nil && c.GetBlock() == nil {
		return status.Error(codes.InvalidArgument, "volume_capability is missing")
	}

	if mode := c.GetAccessMode().GetMode(); !slices.Contains(singleNode, mode) {
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
