package driver

import (
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// step is one change of the node. It is chosen by what the node has, and done whole or not at all.
type step string

const (
	done    step = "done"
	attach  step = "attach"
	format  step = "format"
	mount   step = "mount"
	grow    step = "grow"
	bind    step = "bind"
	unmount step = "unmount"
	detach  step = "detach"
)

// state is what a node has of a volume at one moment.
type state struct {
	image   Image
	devices []Device
	// staged and target are what is mounted at the paths.
	staged, target Mount
	content        Content
	// grown reports whether the file system was made as large as its device since the request came.
	grown bool
}

// is reports whether the device is mounted there, or bound as a raw device.
func (m Mount) is(d Device, raw bool) bool { return m.Number == d.Number && m.Raw == raw }

// own is the device that was attached for the volume. found is false where there is none.
func (s state) own(volume string) (d Device, found bool) {
	return s.find(func(d Device) bool { return d.Volume == volume && d.Marked })
}

// any is a device that has the volume's image, whoever attached it. Who has a raw device can take the mark off.
func (s state) any(volume string) (d Device, found bool) {
	return s.find(func(d Device) bool { return d.Volume == volume })
}

func (s state) find(fits func(Device) bool) (d Device, found bool) {
	i := slices.IndexFunc(s.devices, fits)
	if i < 0 {
		return d, false
	}

	return s.devices[i], true
}

// toStage is the next step on the way to a staged volume.
func toStage(v Volume, s state) (step, error) {
	d, attached := s.own(v.ID)
	mounted := s.staged != Mount{}
	for _, other := range s.devices {
		if other.File == s.image.File && other.Path != d.Path {
			return "", status.Errorf(codes.FailedPrecondition,
				"the image of volume %s has %s already, which is not the volume's: losetup -d %[2]s", v.ID, other.Path)
		}
	}

	switch {
	case !attached && mounted:
		return "", status.Errorf(codes.FailedPrecondition, "something else is mounted at the staging path of volume %s", v.ID)
	case !attached:
		return attach, nil
	case d.File != s.image.File:
		return "", status.Errorf(codes.FailedPrecondition, "%s of volume %s has another file than %s/%[2]s/image, which "+
			"was replaced: put it back, or drain the node", d.Path, v.ID, v.Directory)
	case v.Block:
		return done, nil
	case !mounted:
		return toMount(v, s.content)
	case !s.staged.is(d, false):
		return "", status.Errorf(codes.FailedPrecondition, "something else is mounted at the staging path of volume %s", v.ID)
	case !s.grown:
		return grow, nil
	}

	return done, nil
}

// toMount makes a file system on new storage alone. What cannot be read may be somebody's data.
func toMount(v Volume, c Content) (step, error) {
	unused := c.FSType == "" && c.Blank
	switch {
	case unused && c.Formatted:
		return "", status.Errorf(codes.FailedPrecondition, "the image of volume %s had a file system, and its beginning is "+
			"empty: it is not formatted again; restore it, or remove the file formatted beside it", v.ID)
	case unused && v.ReadOnly:
		return "", status.Errorf(codes.FailedPrecondition, "the %s of volume %s is blank, and nobody may write to it",
			v.noun(), v.ID)
	case unused, c.Formatting:
		return format, nil
	case c.FSType == "":
		return "", status.Errorf(codes.FailedPrecondition, "the %s of volume %s is not empty, and has no file system "+
			"that is known: it is neither mounted nor formatted", v.noun(), v.ID)
	case c.FSType != v.FSType:
		return "", status.Errorf(codes.FailedPrecondition, "the %s of volume %s has %.64q, and the volume's fsType is %s",
			v.noun(), v.ID, c.FSType, v.FSType)
	}

	return mount, nil
}

// toPublish is the next step on the way to a volume at its target.
func toPublish(v Volume, readOnly bool, s state) (step, error) {
	d, attached := s.own(v.ID)
	switch {
	case !attached || !v.Block && !s.staged.is(d, false):
		return "", status.Errorf(codes.FailedPrecondition, "volume %s is not staged", v.ID)
	case s.target.is(d, v.Block) && readOnly && !s.target.ReadOnly:
		return unmount, nil // it becomes read-only after it is mounted
	case s.target.is(d, v.Block):
		return done, nil
	case s.target != Mount{}:
		return "", status.Errorf(codes.FailedPrecondition, "something else is mounted at the target path of volume %s", v.ID)
	}

	return bind, nil
}

// toUnstage is the next step on the way to a volume that the node does not have. Of a volume that it does not know,
// nothing is left to do.
func toUnstage(volume string, s state) step {
	_, attached := s.any(volume)
	switch {
	case s.staged != Mount{}:
		return unmount
	case attached:
		return detach
	}

	return done
}
