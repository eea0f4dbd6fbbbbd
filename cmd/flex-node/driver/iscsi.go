package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
)

// iscsi reaches LUNs of arrays, by programs of the node. Before it does anything on the node, a record says what: so
// whoever comes next, after this process was killed or another array was attached, can take it away.
type iscsi struct {
	host Host
	// logins has the sessions that somebody makes or ends. Volumes share them.
	logins *busy
}

func (i iscsi) stage(ctx context.Context, v Volume, path string) (attached bool, err error) {
	did, failures := map[step]bool{}, []string(nil)
	multipathd := len(v.Paths) > 1 && i.host.Multipathd()
	for range maxSteps {
		s, err := i.observe(v.ID, path)
		if err != nil {
			return attached, err
		}

		s.did, s.failures, s.multipathd = did, failures, multipathd
		d, _ := s.device()
		if d.Marked && s.record.WWID != "" && !v.Block && s.staged == (Mount{}) {
			if s.content, err = i.probe(s.record, d); err != nil {
				return attached, err
			}
		}

		next, err := s.toStage(v)
		if err != nil || next == done {
			return attached, err
		}

		did[next] = true
		switch next {
		case restart:
			err = i.unstage(ctx, v.ID, path)
		case keep: // after a file system was begun, the record is needed to make it anew
			attached = s.kept(v).Formatting == ""
			err = i.host.Keep(s.kept(v))
		case connect:
			failures = i.connect(ctx, v, s)
		case rescan:
			_, err = i.rescan(v.ID)
		case join:
			err = i.host.Join(ctx, s.disks())
		case claim:
			err = i.claim(v, s)
		case format:
			attached = false
			err = i.format(v, s.record, d)
		case mount:
			err = i.host.Mount(ctx, v, d, path)
		case grow:
			_, err = i.growTo(v.ID, path, v.Block, 0)
		}

		if err != nil {
			return attached, failed(next, v.ID, err)
		}
	}

	return attached, unsettled(v.ID)
}

// look is what the node has of a volume, but for its mounts.
func (i iscsi) look(volume string) (s lun, err error) {
	records, boot, err := i.host.Records()
	if err != nil {
		return s, err
	}

	s.boot = boot
	for _, r := range records {
		if r.Volume == volume {
			s.record = r
		} else if r.Boot == boot {
			s.others = append(s.others, r)
		}
	}

	if !s.here() {
		return s, nil
	}

	for _, p := range s.record.Paths {
		l, err := i.host.Link(p)
		if err != nil {
			return s, err
		}

		s.links = append(s.links, l)
	}

	return s, nil
}

func (i iscsi) observe(volume, path string) (s lun, err error) {
	if s, err = i.look(volume); err != nil {
		return s, err
	}

	s.staged, err = i.host.Mounted(path)

	return s, err
}

// probe says what is on the device. Formatting counts while no file system is there: one that is whole may be in use, and
// by now on another node.
func (i iscsi) probe(r Record, d Device) (c Content, err error) {
	c, err = i.host.Probe(d)
	c.Formatting = c.FSType == "" && r.Formatting != "" && r.Formatting == r.WWID

	return c, err
}

// connect tries the paths that have no disk, and says which of them do not work.
func (i iscsi) connect(ctx context.Context, v Volume, s lun) (failures []string) {
	works := false
	for at, p := range v.Paths {
		if s.links[at].Disk.Path != "" || works {
			continue
		}

		err := i.connectPath(ctx, p, v.CHAP)
		works = err == nil && !s.multipathd
		if err != nil {
			failures = append(failures, fmt.Sprintf("%s: %s", p, status.Convert(err).Message()))
		}
	}

	logger := klog.FromContext(ctx).WithValues("volume", v.ID)
	if len(failures) > 0 {
		logger.Info("Some paths do not work", "paths", failures)
	}

	if works && len(v.Paths) > 1 {
		logger.Info("One path is used: multipathd, which would join the others, does not run")
	}

	return failures
}

func (i iscsi) connectPath(ctx context.Context, p Path, c CHAP) error {
	end, err := i.logins.wait(ctx, p.login())
	if err != nil {
		return err
	}
	defer end()

	l, err := i.host.Link(p)
	if err == nil && l.Session == "" {
		err = i.host.Login(p, c)
	}

	if err != nil {
		return err
	}

	return i.host.Scan(ctx, p)
}

// rescan is what the node has when the kernel has asked every disk anew.
func (i iscsi) rescan(volume string) (s lun, err error) {
	if s, err = i.look(volume); err != nil {
		return s, err
	}

	for _, l := range s.links {
		if l.Disk.Path == "" {
			continue
		}

		if err := i.host.Rescan(l.Address); err != nil {
			return s, err
		}
	}

	return i.look(volume)
}

// claim keeps that the disks are the volume's. A disk that somebody uses is another's, as the node's own.
func (i iscsi) claim(v Volume, s lun) error {
	users, err := i.users(s)
	if err != nil {
		return err
	}

	if users != "" {
		return status.Errorf(codes.FailedPrecondition, "its disk is in use already: %s", users)
	}

	d, _ := s.device()
	if v.ReadOnly {
		err = i.host.Protect(d)
	}

	if err != nil {
		return err
	}

	r := s.record
	r.WWID = s.disks()[0].WWID

	return i.host.Keep(r)
}

// users says who uses the disks of the volume, or their map.
func (i iscsi) users(s lun) (users string, err error) {
	d, _ := s.device()
	devices := []Device{d}
	for _, disk := range s.disks() {
		devices = append(devices, disk.Device)
	}

	for _, d := range devices {
		if d.Path != "" && users == "" && err == nil {
			users, err = i.host.Users(d)
		}
	}

	return users, err
}

// format keeps first that a file system is begun.
func (i iscsi) format(v Volume, r Record, d Device) error {
	r.Formatting = r.WWID
	if err := i.host.Keep(r); err != nil {
		return err
	}

	return i.host.MakeFileSystem(v, d)
}

func (i iscsi) unstage(ctx context.Context, volume, path string) error {
	did := map[step]bool{}
	for range maxSteps {
		s, err := i.observe(volume, path)
		if err != nil {
			return err
		}

		if s.staged == (Mount{}) {
			if s.users, err = i.users(s); err != nil {
				return err
			}
		}

		s.did = did
		d, _ := s.device()
		s.content.Blank = true
		if d.Marked && s.record.Formatting != "" && s.staged == (Mount{}) {
			if c, err := i.probe(s.record, d); err == nil { // an array that does not answer keeps nothing here
				s.content = c
			}
		}

		next, err := s.toUnstage()
		if err != nil || next == done {
			return err
		}

		did[next] = true
		switch next {
		case unmount:
			err = i.host.Unmount(path)
		case wipe:
			err = i.host.Wipe(d)
		case flush:
			err = i.host.Flush(d)
		case drop:
			err = i.drop(s)
		case leave:
			err = i.leave(ctx, s)
		case forget:
			err = i.host.Forget(volume)
		}

		if err != nil {
			return failed(next, volume, err)
		}
	}

	return unsettled(volume)
}

func (i iscsi) drop(s lun) error {
	for _, l := range s.links {
		if l.Address == "" {
			continue
		}

		if err := i.host.Drop(l); err != nil {
			return err
		}
	}

	return nil
}

// leave ends the sessions of the volume, and has the host forget how to log in. What other volumes need stays, and so
// does a session that has a device, or is of this boot where the record is not.
func (i iscsi) leave(ctx context.Context, s lun) error {
	var faults []error
	for _, p := range s.record.Paths {
		faults = append(faults, i.leavePath(ctx, s.record.Volume, p))
	}

	return errors.Join(faults...)
}

func (i iscsi) leavePath(ctx context.Context, volume string, p Path) error {
	end, err := i.logins.wait(ctx, p.login())
	if err != nil {
		return err
	}
	defer end()

	s, err := i.look(volume)
	if err != nil {
		return err
	}

	needed := slices.ContainsFunc(s.others, func(r Record) bool {
		return slices.ContainsFunc(r.Paths, func(o Path) bool { return o.login() == p.login() })
	})
	l, err := i.host.Link(p)
	taken := l.Others || l.Address != "" || l.Session != "" && !s.here()
	if err != nil || needed || taken {
		return err
	}

	return i.host.Logout(p)
}

// left reports whether there is a record, also of another boot.
func (i iscsi) left(volume string) (bool, error) {
	s, err := i.look(volume)

	return s.record.Volume != "", err
}

func (i iscsi) devices(volume string) ([]Device, error) {
	s, err := i.look(volume)
	if s.record.WWID == "" {
		return nil, err
	}

	d, _ := s.device()

	return []Device{d}, err
}

func (i iscsi) grow(d Device, path string, block bool, least int64) (size int64, err error) {
	if size, err = i.growTo(d.Volume, path, block, least); err != nil {
		err = failed(grow, d.Volume, err)
	}

	return size, err
}

// growTo has every path learn the size first. Some arrays tell it to their ports one after another.
func (i iscsi) growTo(volume, path string, block bool, least int64) (size int64, err error) {
	s, err := i.rescan(volume)
	if err != nil {
		return 0, err
	}

	if err := enough("disk", volume, s.size(), least); err != nil {
		return 0, err
	}

	d, mapped := s.device()
	if mapped && d.Size < s.size() {
		if err = i.host.ResizeMap(d); err == nil {
			s, err = i.look(volume)
		}
	}

	if err != nil {
		return 0, err
	}

	d, _ = s.device()
	if err := enough("map", volume, d.Size, least); err != nil {
		return 0, err
	}

	if !block {
		err = i.host.Grow(d, path)
	}

	return d.Size, err
}
