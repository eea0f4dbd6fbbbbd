package driver

import "context"

// loop mounts images, which are files in directories of the node.
type loop struct {
	host        Host
	directories []string
}

// stage reports whether it attached the image.
func (l loop) stage(ctx context.Context, v Volume, path string) (attached bool, err error) {
	grown := false
	for range maxSteps {
		s, err := l.observe(v, path)
		if err != nil {
			return attached, err
		}

		s.grown = grown
		next, err := toStage(v, s)
		if err != nil || next == done {
			return attached, err
		}

		d, _ := s.own(v.ID)
		switch next {
		case attach:
			attached = true
			err = l.host.Attach(v)
		case format:
			err = l.host.Format(v, d)
		case mount:
			err = l.host.Mount(ctx, v, d, path)
		case grow:
			grown = true
			_, err = l.growTo(d, []string{v.Directory}, path, v.Block)
		}

		if err != nil {
			return attached, failed(next, v.ID, err)
		}
	}

	return attached, unsettled(v.ID)
}

// observe is what the node has of a volume that is to be staged.
func (l loop) observe(v Volume, path string) (s state, err error) {
	if s.image, err = l.host.Image(v); err != nil {
		return s, err
	}

	if s.devices, err = l.host.Devices(); err != nil {
		return s, err
	}

	if s.staged, err = l.host.Mounted(path); err != nil {
		return s, err
	}

	if d, attached := s.own(v.ID); attached && !v.Block && s.staged == (Mount{}) {
		s.content, err = l.host.Content(v, d)
	}

	return s, err
}

func (l loop) left(volume string) (bool, error) {
	devices, err := l.host.Devices()
	_, left := state{devices: devices}.own(volume)

	return left, err
}

func (l loop) devices(string) ([]Device, error) { return l.host.Devices() }

// grow may be too early: a node learns late that an image on NFS has grown.
func (l loop) grow(d Device, path string, block bool, least int64) (size int64, err error) {
	size, err = l.growTo(d, l.directories, path, block)
	if err != nil {
		return size, failed(grow, d.Volume, err)
	}

	return size, enough("image", d.Volume, size, least)
}

// growTo makes the device as large as its file, and the file system as the device. The storage may have been expanded
// while nobody used it.
func (l loop) growTo(d Device, directories []string, path string, block bool) (size int64, err error) {
	size, err = l.host.Resize(d, directories)
	if err == nil && !block {
		err = l.host.Grow(d, path)
	}

	return size, err
}

func (l loop) unstage(ctx context.Context, volume, path string) error {
	for range maxSteps {
		var s state
		var err error
		if s.staged, err = l.host.Mounted(path); err != nil {
			return err
		}

		if s.devices, err = l.host.Devices(); err != nil {
			return err
		}

		next := toUnstage(volume, s)
		switch next {
		case done:
			return nil
		case unmount:
			err = l.host.Unmount(path)
		case detach:
			d, _ := s.any(volume)
			err = l.host.Detach(ctx, d)
		}

		if err != nil {
			return failed(next, volume, err)
		}
	}

	return unsettled(volume)
}
