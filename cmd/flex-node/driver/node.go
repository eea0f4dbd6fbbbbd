package driver

import (
	"context"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Node is CSI's service of this name.
type Node struct {
	csi.UnimplementedNodeServer

	Host Host
	// ID is what storage systems have to know of the node, and Name is its name in Kubernetes.
	ID, Name string
	// Stagers are those whose volumes the node serves. Directories are those that may have images.
	Stagers, Directories []string

	changes, logins, reads busy
}

// stager is one way to volumes. Calls for one volume are not made at once, but for those of devices and left.
type stager interface {
	// stage reports whether it began to attach the volume, and nobody can have used it yet.
	stage(ctx context.Context, v Volume, path string) (attached bool, err error)
	// unstage leaves nothing of a volume on the node. One that is not known is no error.
	unstage(ctx context.Context, volume, path string) error
	// left reports whether the node has something of a volume.
	left(volume string) (bool, error)
	// devices are those of a volume, and may be those of others as well.
	devices(volume string) ([]Device, error)
	// grow makes a device as large as its storage, which has at least some size, and a file system as large as the device.
	grow(d Device, path string, block bool, least int64) (size int64, err error)
}

// stager returns the one of a name that is known.
func (n *Node) stager(name string) stager {
	if name == stagerISCSI {
		return iscsi{n.Host, &n.logins}
	}

	return loop{n.Host, n.Directories}
}

// stagerOf is the name of the one that has staged a volume: iscsi alone keeps records.
func (n *Node) stagerOf(volume string) (string, error) {
	records, _, err := n.Host.Records()
	if slices.ContainsFunc(records, func(r Record) bool { return r.Volume == volume }) {
		return stagerISCSI, err
	}

	return stagerLoop, err
}

// maxSteps is more than any request takes. What does not settle by then is changed by somebody else.
const maxSteps = 16

// NodeGetInfo implements csi.NodeServer.
func (n *Node) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.ID}, nil
}

// NodeGetCapabilities implements csi.NodeServer.
func (n *Node) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	response := &csi.NodeGetCapabilitiesResponse{}
	for _, kind := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
	} {
		response.Capabilities = append(response.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: kind}}})
	}

	return response, nil
}

// NodeStageVolume implements csi.NodeServer.
func (n *Node) NodeStageVolume(
	ctx context.Context, r *csi.NodeStageVolumeRequest,
) (*csi.NodeStageVolumeResponse, error) {
	v, err := n.volumeOf(r)
	if err != nil {
		return nil, err
	}

	end, err := n.changes.begin("volume " + v.ID)
	if err != nil {
		return nil, err
	}
	defer end()

	attached, err := n.stager(v.Stager).stage(ctx, v, r.GetStagingTargetPath())
	if err != nil {
		return nil, n.afterFailedStage(ctx, v, r.GetStagingTargetPath(), attached, err)
	}

	return &csi.NodeStageVolumeResponse{}, nil
}

// afterFailedStage leaves no device behind that nobody uses. After most errors the kubelet does not ask to unstage the
// volume. Where it was staged before, or something is left, the error is one after which it does.
func (n *Node) afterFailedStage(ctx context.Context, v Volume, path string, attached bool, failure error) error {
	text := status.Convert(failure).Message()
	staged, err := n.Host.Mounted(path)
	if err == nil && staged == (Mount{}) && attached {
		err = n.stager(v.Stager).unstage(ctx, v.ID, path)
	}

	left, unknown := n.stager(v.Stager).left(v.ID)
	if err == nil {
		err = unknown
	}

	switch {
	case err != nil:
		return status.Errorf(codes.Unavailable, "%s; and then: %s", text, status.Convert(err).Message())
	case left || staged != Mount{}:
		return status.Error(codes.Unavailable, text)
	}

	return failure
}

// NodeUnstageVolume implements csi.NodeServer.
func (n *Node) NodeUnstageVolume(
	ctx context.Context, r *csi.NodeUnstageVolumeRequest,
) (*csi.NodeUnstageVolumeResponse, error) {
	err := required("volume_id", r.GetVolumeId(), "staging_target_path", r.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}

	end, err := n.changes.begin("volume " + r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer end()

	name, err := n.stagerOf(r.GetVolumeId())
	if err != nil {
		return nil, err
	}

	if err := n.stager(name).unstage(ctx, r.GetVolumeId(), r.GetStagingTargetPath()); err != nil {
		return nil, err
	}

	return &csi.NodeUnstageVolumeResponse{}, nil
}

// NodePublishVolume implements csi.NodeServer. It has no use for the volume's attributes, which a pod's author may have
// written.
func (n *Node) NodePublishVolume(
	_ context.Context, r *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	volume, target := r.GetVolumeId(), r.GetTargetPath()
	err := required("volume_id", volume, "target_path", target, "staging_target_path", r.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}

	if r.GetVolumeContext()[ephemeral] == "true" {
		return nil, status.Error(codes.InvalidArgument, "a volume in the spec of a pod: only persistent volumes are known")
	}

	name, err := n.stagerOf(volume)
	if err != nil {
		return nil, err
	}

	v := Volume{ID: volume, Stager: name}
	if err := v.setCapability(r.GetVolumeCapability()); err != nil {
		return nil, err
	}

	end, err := n.changes.begin(target)
	if err != nil {
		return nil, err
	}
	defer end()

	if err := n.publish(v, r.GetStagingTargetPath(), target, r.GetReadonly()); err != nil {
		return nil, err
	}

	return &csi.NodePublishVolumeResponse{}, nil
}

func (n *Node) publish(v Volume, staging, target string, readOnly bool) error {
	var options []string
	if readOnly {
		options = append(options, "ro")
	}

	for range maxSteps {
		var s state
		var err error
		if s.devices, err = n.stager(v.Stager).devices(v.ID); err != nil {
			return err
		}

		if s.staged, err = n.Host.Mounted(staging); err != nil {
			return err
		}

		if s.target, err = n.Host.Mounted(target); err != nil {
			return err
		}

		next, err := toPublish(v, readOnly, s)
		if err != nil || next == done {
			return err
		}

		from := staging
		if d, _ := s.own(v.ID); v.Block {
			from = d.Path
		}

		if next == unmount {
			err = n.Host.Unmount(target)
		} else {
			err = n.Host.Bind(from, target, options)
		}

		if err != nil {
			return failed(next, v.ID, err)
		}
	}

	return unsettled(v.ID)
}

// NodeUnpublishVolume implements csi.NodeServer.
func (n *Node) NodeUnpublishVolume(
	_ context.Context, r *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	err := required("volume_id", r.GetVolumeId(), "target_path", r.GetTargetPath())
	if err != nil {
		return nil, err
	}

	end, err := n.changes.begin(r.GetTargetPath())
	if err != nil {
		return nil, err
	}
	defer end()

	for range maxSteps {
		m, err := n.Host.Mounted(r.GetTargetPath())
		if err == nil && m == (Mount{}) {
			return &csi.NodeUnpublishVolumeResponse{}, n.Host.Remove(r.GetTargetPath())
		}

		if err == nil {
			err = n.Host.Unmount(r.GetTargetPath())
		}

		if err != nil {
			return nil, failed(unmount, r.GetVolumeId(), err)
		}
	}

	return nil, unsettled(r.GetVolumeId())
}

// NodeExpandVolume implements csi.NodeServer.
func (n *Node) NodeExpandVolume(
	_ context.Context, r *csi.NodeExpandVolumeRequest,
) (*csi.NodeExpandVolumeResponse, error) {
	volume, path := r.GetVolumeId(), r.GetVolumePath()
	err := required("volume_id", volume, "volume_path", path)
	if err != nil {
		return nil, err
	}

	end, err := n.changes.begin("volume " + volume)
	if err != nil {
		return nil, err
	}
	defer end()

	by, d, m, err := n.inUse(volume, path)
	if err != nil {
		return nil, err
	}

	size, err := by.grow(d, path, m.Raw, r.GetCapacityRange().GetRequiredBytes())
	if err != nil {
		return nil, err
	}

	return &csi.NodeExpandVolumeResponse{CapacityBytes: size}, nil
}

// inUse is the device of a volume that is mounted at a path, or bound there as a raw device.
func (n *Node) inUse(volume, path string) (by stager, d Device, m Mount, err error) {
	name, err := n.stagerOf(volume)
	if err != nil {
		return by, d, m, err
	}

	by = n.stager(name)
	devices, err := by.devices(volume)
	if err != nil {
		return by, d, m, err
	}

	if m, err = n.Host.Mounted(path); err != nil {
		return by, d, m, err
	}

	d, attached := state{devices: devices}.own(volume)
	if !attached || m.Number != d.Number {
		return by, d, m, status.Errorf(codes.NotFound, "volume %.64q is not at %.256q", volume, path)
	}

	return by, d, m, nil
}

// NodeGetVolumeStats implements csi.NodeServer. It does not wait longer than its caller for storage that does not
// answer.
func (n *Node) NodeGetVolumeStats(
	ctx context.Context, r *csi.NodeGetVolumeStatsRequest,
) (*csi.NodeGetVolumeStatsResponse, error) {
	err := required("volume_id", r.GetVolumeId(), "volume_path", r.GetVolumePath())
	if err != nil {
		return nil, err
	}

	end, err := n.reads.begin("volume " + r.GetVolumeId())
	if err != nil {
		return nil, err
	}

	type answer struct {
		usage []*csi.VolumeUsage
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		defer end()

		usage, err := n.usage(r.GetVolumeId(), r.GetVolumePath())
		answers <- answer{usage, err}
	}()

	select {
	case a := <-answers:
		return &csi.NodeGetVolumeStatsResponse{Usage: a.usage}, a.err
	case <-ctx.Done():
		return nil, status.Errorf(codes.DeadlineExceeded, "the storage of volume %.64q does not answer", r.GetVolumeId())
	}
}

func (n *Node) usage(volume, path string) ([]*csi.VolumeUsage, error) {
	_, d, m, err := n.inUse(volume, path)
	if err != nil {
		return nil, err
	}

	if m.Raw {
		return []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: d.Size}}, nil
	}

	u, err := n.Host.Usage(path)
	of := func(unit csi.VolumeUsage_Unit, a Amounts) *csi.VolumeUsage {
		return &csi.VolumeUsage{Unit: unit, Total: a.Total, Used: a.Used, Available: a.Available}
	}

	return []*csi.VolumeUsage{of(csi.VolumeUsage_BYTES, u.Bytes), of(csi.VolumeUsage_INODES, u.Inodes)}, err
}

// failed keeps the code of an error that has one.
func failed(what step, volume string, err error) error {
	code := status.Code(err)
	if !slices.Contains([]codes.Code{codes.FailedPrecondition, codes.NotFound, codes.Unavailable}, code) {
		code = codes.Internal
	}

	return status.Errorf(code, "%s volume %.64q: %s", what, volume, status.Convert(err).Message())
}

// enough returns an error for less than was asked for.
func enough(what, volume string, size, asked int64) error {
	if size >= asked {
		return nil
	}

	return status.Errorf(codes.Unavailable, "the %s of volume %s has %d bytes on this node, and not yet %d",
		what, volume, size, asked)
}

func unsettled(volume string) error {
	return status.Errorf(codes.Unavailable,
		"volume %.64q does not settle: something else changes its device or its mounts", volume)
}
