package configmaps

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// ownPaths are the mounts of every provisioner pod. No other mount may be at, below or above one of them. A mount below
// could replace the request or the token. Mounts inside a mounted directory of the node would create their directories
// there.
var ownPaths = []string{contract.RequestDir, contract.BinDir, contract.TokenDir, contract.SecretsDir, "/run/secrets",
	"/proc"}

// readOnly is the suffix of a directory that is mounted read-only.
const readOnly = ":ro"

func parseHostPaths(c *Config, value string, at *field.Path) field.ErrorList {
	items, errs := list(value, at)
	for i, item := range items {
		p, only := strings.CutSuffix(item, readOnly)
		errs = append(errs, checkMountPath(item, p, at.Index(i))...)
		if slices.Contains(c.HostPaths, HostPath{Path: p, ReadOnly: !only}) {
			errs = append(errs, field.Duplicate(at.Index(i), p))
		}

		c.HostPaths = append(c.HostPaths, HostPath{Path: p, ReadOnly: only})
	}

	return errs
}

func parseMountClaims(c *Config, value string, at *field.Path) (errs field.ErrorList) {
	c.MountClaims, errs = claimMounts(value, at, "a claim and where to mount it, such as exports:/exports",
		checkMountPath)

	return errs
}

func parseDevices(c *Config, value string, at *field.Path) (errs field.ErrorList) {
	c.Devices, errs = claimMounts(value, at, "a claim and its device, such as disk:/dev/disk", checkDevicePath)
	return errs
}

// claimMounts parses a list of claims with their paths. checkPath checks each path.
func claimMounts(
	value string, at *field.Path, form string, checkPath func(item, p string, at *field.Path) field.ErrorList,
) (mounts []ClaimMount, errs field.ErrorList) {
	items, errs := list(value, at)
	claims := map[string]bool{}
	for i, item := range items {
		claim, p, found := strings.Cut(item, ":")
		if !found {
			errs = append(errs, field.Invalid(at.Index(i), item, "must be "+form))
			continue
		}

		if claims[claim] {
			errs = append(errs, field.Duplicate(at.Index(i), claim))
		}

		claims[claim] = true
		errs = append(errs, checkObjectName(claim, at.Index(i))...)
		errs = append(errs, checkPath(item, p, at.Index(i))...)
		mounts = append(mounts, ClaimMount{Claim: claim, Path: p})
	}

	return mounts, errs
}

// ownDevices are the names that every container has in /dev.
var ownDevices = []string{"console", "core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr",
	"stdin", "stdout", "termination-log", "tty", "urandom", "zero"}

// checkDevicePath checks the path p of an item. A device is directly in /dev, with a name that not every container has.
func checkDevicePath(item, p string, at *field.Path) field.ErrorList {
	dir, name := path.Split(p)
	switch {
	case dir != "/dev/" || !deviceName.MatchString(name):
		return field.ErrorList{field.Invalid(at, item,
			"must have a path /dev/NAME, of letters, digits, '-', '_' and '.'")}
	case slices.Contains(ownDevices, name):
		return field.ErrorList{field.Invalid(at, item,
			"would hide /dev/"+name+", which every container has; name another device")}
	}

	return nil
}

var deviceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// checkMountPath checks the path p of an item.
func checkMountPath(item, p string, at *field.Path) field.ErrorList {
	if !path.IsAbs(p) || path.Clean(p) != p || strings.Contains(p, ":") {
		return field.ErrorList{field.Invalid(at, item,
			"must have an absolute path without '..', '.', '//', ':' or a '/' at its end")}
	}

	for _, own := range ownPaths {
		if isWithin(p, own) || isWithin(own, p) {
			return field.ErrorList{field.Invalid(at, item,
				"would hide "+own+", which the pod needs; name another directory")}
		}
	}

	if p == "/tmp" {
		return field.ErrorList{field.Invalid(at, item,
			"the pod has a /tmp of its own; name a directory below it or another one")}
	}

	return nil
}

// isWithin reports whether the clean path p is dir or lies below it. /mnt/flexible is not within /mnt/flex.
func isWithin(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// checkMounts checks rules over several keys: no two mounts have the same path, and no device and mount have the same
// claim. An admission policy decides which directories and devices a class may have, when its pods are created.
func (c *Config) checkMounts() field.ErrorList {
	var errs field.ErrorList
	paths, claims := map[string]bool{}, map[string]bool{}
	for _, h := range c.HostPaths {
		paths[h.Path] = true
	}

	for _, m := range c.MountClaims {
		if paths[m.Path] {
			errs = append(errs, field.Duplicate(dataPath.Key(keyMountClaims), m.Path))
		}

		paths[m.Path], claims[m.Claim] = true, true
	}

	devices := map[string]bool{}
	for _, d := range c.Devices {
		if claims[d.Claim] {
			errs = append(errs, field.Invalid(dataPath.Key(keyDevices), d.Claim,
				"is mounted by "+keyMountClaims+" already: a claim is a file system or a device"))
		}

		if devices[d.Path] {
			errs = append(errs, field.Duplicate(dataPath.Key(keyDevices), d.Path))
		}

		devices[d.Path] = true
	}

	return errs
}
