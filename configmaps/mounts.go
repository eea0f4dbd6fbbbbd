package configmaps

import (
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// ownPaths are what the pod itself mounts. Nothing may lie at, below or above one of them: below, a script could be
// handed another request or token; above, the node's directories would get ours.
var ownPaths = []string{contract.RequestDir, contract.BinDir, contract.TokenDir, contract.SecretsDir, "/run/secrets", "/proc"}

func parseHostPaths(c *Config, value string, at *field.Path) field.ErrorList {
	paths, errs := list(value, at)
	for i, p := range paths {
		errs = append(errs, checkMountPath(p, p, at.Index(i))...)
	}
	c.HostPaths = paths
	return errs
}

func parseMountClaims(c *Config, value string, at *field.Path) field.ErrorList {
	items, errs := list(value, at)
	claims := map[string]bool{}
	for i, item := range items {
		claim, p, found := strings.Cut(item, ":")
		if !found {
			errs = append(errs, field.Invalid(at.Index(i), item, "must be a claim and where to mount it, such as exports:/exports"))
			continue
		}
		if claims[claim] {
			errs = append(errs, field.Duplicate(at.Index(i), claim))
		}
		claims[claim] = true
		errs = append(errs, checkObjectName(claim, at.Index(i))...)
		errs = append(errs, checkMountPath(item, p, at.Index(i))...)
		c.MountClaims = append(c.MountClaims, ClaimMount{Claim: claim, Path: p})
	}
	return errs
}

// checkMountPath checks the path p that the item names.
func checkMountPath(item, p string, at *field.Path) field.ErrorList {
	if !path.IsAbs(p) || path.Clean(p) != p || strings.Contains(p, ":") {
		return field.ErrorList{field.Invalid(at, item, "must have an absolute path without '..', '.', '//', ':' or a '/' at its end")}
	}
	for _, own := range ownPaths {
		if within(p, own) || within(own, p) {
			return field.ErrorList{field.Invalid(at, item, "would hide "+own+", which the pod needs; name another directory")}
		}
	}
	if p == "/tmp" {
		return field.ErrorList{field.Invalid(at, item, "the pod has a /tmp of its own; name a directory below it or another one")}
	}
	return nil
}

// within says whether the clean path p is dir or lies below it. /mnt/flexible is not within /mnt/flex.
func within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// checkMounts checks what host-path and mount-claims cannot tell alone: that no two mounts share a path. Which directories of nodes a
// class may have, an admission policy decides when its pods are created.
func (c *Config) checkMounts() field.ErrorList {
	var errs field.ErrorList
	taken := map[string]bool{}
	for _, p := range c.HostPaths {
		taken[p] = true
	}
	for _, m := range c.MountClaims {
		if taken[m.Path] {
			errs = append(errs, field.Duplicate(dataPath.Key(keyMountClaims), m.Path))
		}
		taken[m.Path] = true
	}
	return errs
}
