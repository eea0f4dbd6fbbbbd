package driver

import (
	"reflect"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Steps of the stager iscsi alone.
const (
	keep    step = "keep the record of"
	forget  step = "forget the record of"
	restart step = "reach otherwise"
	connect step = "connect"
	rescan  step = "rescan"
	join    step = "join the disks of"
	claim   step = "claim"
	wipe    step = "wipe"
	flush   step = "flush"
	drop    step = "drop the disks of"
	leave   step = "log out from the targets of"
)

// lun is what a node has of a volume of iscsi at one moment.
type lun struct {
	boot   string
	record Record
	// others are the records of other volumes, of this boot.
	others []Record
	// links are of the record's paths, in their order.
	links      []Link
	staged     Mount
	content    Content
	users      string
	multipathd bool
	// did are the steps that were taken since the request came. failures are of the paths that were tried.
	did      map[step]bool
	failures []string
}

// here reports whether the node may have something of the volume.
func (s lun) here() bool { return s.record.Volume != "" && s.record.Boot == s.boot }

func (s lun) disks() (disks []Disk) {
	for _, l := range s.links {
		if l.Disk.Path != "" {
			disks = append(disks, l.Disk)
		}
	}

	return disks
}

// device is what has the volume's data: the map of its disks, or the first one where there is no map. Without a disk
// there is none.
func (s lun) device() (d Device, mapped bool) {
	for _, disk := range slices.Backward(s.disks()) {
		switch {
		case disk.Map.Path != "":
			d, mapped = disk.Map, true
		case !mapped:
			d = disk.Device
		}
	}

	d.Volume, d.Marked = s.record.Volume, d.Path != ""

	return d, mapped
}

// plain reports whether a disk itself is mounted. It gets no map any more.
func (s lun) plain() bool {
	return slices.ContainsFunc(s.disks(), func(d Disk) bool { return s.staged.is(d.Device, false) })
}

// unjoined reports whether there has to be a map, and a disk is not part of it.
func (s lun) unjoined() bool {
	alone := slices.ContainsFunc(s.disks(), func(d Disk) bool { return d.Map.Path == "" })

	return alone && s.multipathd && len(s.links) > 1 && !s.plain()
}

// unconnected reports whether a path is to be tried. Where nothing joins the disks, one of them is enough.
func (s lun) unconnected() bool {
	disks := len(s.disks())

	return disks == 0 || disks < len(s.links) && s.multipathd && !s.plain()
}

// kept is the record that the volume has to have.
func (s lun) kept(v Volume) Record {
	r := Record{Version: RecordVersion, Volume: v.ID, Boot: s.boot, Paths: v.Paths, Formatting: s.record.Formatting}
	if s.here() {
		r.WWID = s.record.WWID
	}

	if s.content.FSType != "" {
		r.Formatting = ""
	}

	return r
}

// toStage is the next step on the way to a staged volume. Before anything is done on a disk, it is known whose it is.
func (s lun) toStage(v Volume) (step, error) {
	if err := s.refusal(v); err != nil {
		return "", err
	}

	_, mapped := s.device()
	switch {
	case s.here() && !slices.Equal(s.record.Paths, v.Paths):
		return restart, nil
	case !reflect.DeepEqual(s.record, s.kept(v)):
		return keep, nil
	case s.unconnected() && !s.did[connect]:
		return connect, nil
	case len(s.disks()) == 0:
		return "", status.Errorf(codes.Unavailable, "no path to volume %s works: %s", v.ID, strings.Join(s.failures, "; "))
	case s.record.WWID == "" && !s.did[rescan]:
		return rescan, nil // the kernel may have a disk of before, and remember another LUN
	case s.unjoined() && !s.did[join]:
		return join, nil
	case s.unjoined() && !mapped:
		return "", status.Errorf(codes.Unavailable, "multipathd runs, and makes no map of the disks of volume %s: "+
			"multipath -v3 %s", v.ID, s.disks()[0].Path)
	case s.record.WWID == "":
		return claim, nil
	case v.Block:
		return done, nil
	case s.staged == Mount{}:
		return toMount(v, s.content)
	case !v.ReadOnly && !s.did[grow]:
		return grow, nil
	}

	return done, nil
}

// refusal is why the volume may not be staged, however far it has come. Whoever published the paths may have named
// another volume's, and an array may have given its LUN to another one.
func (s lun) refusal(v Volume) error {
	d, _ := s.device()
	switch {
	case s.staged == Mount{}:
	case !s.here() || !s.staged.is(d, false) && !s.plain():
		return status.Errorf(codes.FailedPrecondition, "something else is mounted at the staging path of volume %s", v.ID)
	case !slices.Equal(s.record.Paths, v.Paths):
		return status.Errorf(codes.FailedPrecondition, "volume %s is mounted, and now has other paths: drain the node", v.ID)
	}

	disks, wwid := s.disks(), v.WWID
	if !slices.Equal(s.record.Paths, v.Paths) {
		disks = nil // they are of other paths, and go away
	} else if wwid == "" && s.here() {
		wwid = s.record.WWID
	}

	for _, disk := range disks {
		if wwid == "" {
			wwid = disk.WWID
		}

		if disk.WWID == "" || disk.WWID != wwid {
			return status.Errorf(codes.FailedPrecondition, "%s has the WWID %.64q, and volume %s has %.64q: the array has "+
				"given its LUN to another volume, or a path leads elsewhere", disk.Path, disk.WWID, v.ID, wwid)
		}
	}

	for _, other := range s.others {
		for _, p := range v.Paths {
			if slices.ContainsFunc(other.Paths, func(o Path) bool { return o.Target == p.Target && o.LUN == p.LUN }) {
				return status.Errorf(codes.FailedPrecondition, "path %s of volume %s is volume %s's on this node",
					p, v.ID, other.Volume)
			}
		}

		if wwid != "" && wwid == other.WWID {
			return status.Errorf(codes.FailedPrecondition, "WWID %.64q of volume %s is volume %s's on this node",
				wwid, v.ID, other.Volume)
		}
	}

	return nil
}

// toUnstage is the next step on the way to a node that has nothing of the volume, by its record alone.
func (s lun) toUnstage() (step, error) {
	_, mapped := s.device()
	scanned := slices.ContainsFunc(s.links, func(l Link) bool { return l.Address != "" })
	anothers := s.users != "" && s.record.WWID == "" // it was not claimed for that
	switch {
	case s.staged != Mount{}:
		return unmount, nil
	case s.record.Volume == "":
		return done, nil
	case anothers && !s.did[leave]:
		return leave, nil
	case anothers:
		return forget, nil
	case s.users != "":
		return "", status.Errorf(codes.Unavailable, "volume %s is still in use: %s", s.record.Volume, s.users)
	case s.half() && !s.did[wipe]:
		return wipe, nil
	case mapped:
		return flush, nil
	case scanned:
		return drop, nil
	case !s.did[leave]:
		return leave, nil
	}

	return forget, nil
}

// half reports whether there is half of a file system, which no other node would format. Nobody can have used it.
func (s lun) half() bool {
	r := s.record

	return r.Formatting != "" && r.Formatting == r.WWID && s.content.FSType == "" && !s.content.Blank &&
		len(s.disks()) > 0 && s.refusal(Volume{ID: r.Volume, Paths: r.Paths}) == nil
}

// size is the least that a disk of the volume has.
func (s lun) size() (least int64) {
	for at, d := range s.disks() {
		if at == 0 || d.Size < least {
			least = d.Size
		}
	}

	return least
}
