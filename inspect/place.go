package inspect

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// overlap is an error if another volume has storage of the volume's, since who deletes one then removes the other's data. roots are the
// directories that the class's volumes lie below: a volume of such a one, or of one above it, is what the storage is taken from.
func (o *Objects) overlap(v *corev1.PersistentVolume, roots []string) error {
	for _, other := range o.Volumes {
		if other.Name == v.Name || !shared(v, other) {
			continue
		}
		if theirs := pathOf(other); theirs != "" && slices.ContainsFunc(roots, func(root string) bool { return within(root, theirs) }) {
			continue
		}
		return fmt.Errorf("its storage is, contains or lies within that of volume %s: deleting one would remove data of the other", other.Name)
	}
	return nil
}

// shared reports whether two volumes have storage in common, for all that their sources say.
func shared(a, b *corev1.PersistentVolume) bool {
	one, other := a.Spec.PersistentVolumeSource, b.Spec.PersistentVolumeSource
	nested := within(pathOf(a), pathOf(b)) || within(pathOf(b), pathOf(a))
	switch {
	case one.NFS != nil && other.NFS != nil:
		return nested && host(one.NFS.Server) == host(other.NFS.Server)
	case (one.HostPath != nil || one.Local != nil) && (other.HostPath != nil || other.Local != nil):
		return nested && !apart(a, b)
	case one.ISCSI != nil && other.ISCSI != nil: // an IQN is of one target, which may have several portals
		return strings.EqualFold(one.ISCSI.IQN, other.ISCSI.IQN) && one.ISCSI.Lun == other.ISCSI.Lun
	case one.FC != nil && other.FC != nil:
		lun := one.FC.Lun != nil && other.FC.Lun != nil && *one.FC.Lun == *other.FC.Lun
		return common(one.FC.WWIDs, other.FC.WWIDs) || lun && common(one.FC.TargetWWNs, other.FC.TargetWWNs)
	}
	return false
}

// within reports whether a directory is the other or lies below it.
func within(dir, other string) bool {
	if dir == "" || other == "" {
		return false
	}
	dir, other = path.Clean(dir), path.Clean(other)
	return dir == other || strings.HasPrefix(dir, strings.TrimSuffix(other, "/")+"/")
}

// host is a server as it is compared: an address has several spellings.
func host(server string) string {
	server = strings.ToLower(strings.TrimSuffix(strings.Trim(server, "[]"), "."))
	if address, err := netip.ParseAddr(server); err == nil {
		return address.Unmap().String()
	}
	return server
}

func common(a, b []string) bool {
	return slices.ContainsFunc(a, func(one string) bool {
		return slices.ContainsFunc(b, func(other string) bool { return strings.EqualFold(one, other) })
	})
}

// apart reports whether no node has both volumes: each names its nodes, by the same key.
func apart(a, b *corev1.PersistentVolume) bool {
	for _, key := range []string{corev1.LabelHostname, "metadata.name"} {
		one, known := nodes(a, key)
		other, known2 := nodes(b, key)
		if known && known2 && !common(one, other) {
			return true
		}
	}
	return false
}

// nodes are what a volume's affinity lists for a key. It is unknown unless every term lists some.
func nodes(v *corev1.PersistentVolume, key string) (names []string, known bool) {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return nil, false
	}
	for _, term := range v.Spec.NodeAffinity.Required.NodeSelectorTerms {
		at := slices.IndexFunc(slices.Concat(term.MatchExpressions, term.MatchFields), func(r corev1.NodeSelectorRequirement) bool {
			return r.Key == key && r.Operator == corev1.NodeSelectorOpIn
		})
		if at < 0 {
			return nil, false
		}
		names = append(names, slices.Concat(term.MatchExpressions, term.MatchFields)[at].Values...)
	}
	return names, len(names) > 0
}

// pathOf is the directory of a volume of type nfs, hostPath or local.
func pathOf(v *corev1.PersistentVolume) string {
	switch s := v.Spec.PersistentVolumeSource; {
	case s.NFS != nil:
		return s.NFS.Path
	case s.HostPath != nil:
		return s.HostPath.Path
	case s.Local != nil:
		return s.Local.Path
	}
	return ""
}
