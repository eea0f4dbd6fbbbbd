package inspect

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// overlap returns an error if another volume shares storage with the volume, since to delete one would then remove data of the other. roots
// are the directories below which the class makes its volumes. A volume of a root, or of a directory above it, is no fault: it is the
// file system that the class divides.
func (o *Objects) overlap(v *corev1.PersistentVolume, roots []string) error {
	for _, other := range o.Volumes {
		if other.Name == v.Name || !shared(v, other) {
			continue
		}
		if otherPath := pathOf(other); otherPath != "" && slices.ContainsFunc(roots, func(root string) bool { return within(root, otherPath) }) {
			continue
		}
		return fmt.Errorf("its storage is, contains or lies within that of volume %s: deleting one would remove data of the other", other.Name)
	}
	return nil
}

// shared reports whether two volumes have storage in common, as far as their sources show it.
func shared(a, b *corev1.PersistentVolume) bool {
	one, other := a.Spec.PersistentVolumeSource, b.Spec.PersistentVolumeSource
	nested := within(pathOf(a), pathOf(b)) || within(pathOf(b), pathOf(a))
	switch {
	case one.NFS != nil && other.NFS != nil:
		return nested && normalizeHost(one.NFS.Server) == normalizeHost(other.NFS.Server)
	case (one.HostPath != nil || one.Local != nil) && (other.HostPath != nil || other.Local != nil):
		return nested && !onDifferentNodes(a, b)
	case one.ISCSI != nil && other.ISCSI != nil: // an IQN names one target, which may have several portals
		return strings.EqualFold(one.ISCSI.IQN, other.ISCSI.IQN) && one.ISCSI.Lun == other.ISCSI.Lun
	case one.FC != nil && other.FC != nil:
		lun := one.FC.Lun != nil && other.FC.Lun != nil && *one.FC.Lun == *other.FC.Lun
		return intersect(one.FC.WWIDs, other.FC.WWIDs) || lun && intersect(one.FC.TargetWWNs, other.FC.TargetWWNs)
	}
	return false
}

// within reports whether dir is other or lies below it.
func within(dir, other string) bool {
	if dir == "" || other == "" {
		return false
	}
	dir, other = path.Clean(dir), path.Clean(other)
	return dir == other || strings.HasPrefix(dir, strings.TrimSuffix(other, "/")+"/")
}

// normalizeHost gives each spelling of a server's name or address the same form.
func normalizeHost(server string) string {
	server = strings.ToLower(strings.TrimSuffix(strings.Trim(server, "[]"), "."))
	if address, err := netip.ParseAddr(server); err == nil {
		return address.Unmap().String()
	}
	return server
}

func intersect(a, b []string) bool {
	return slices.ContainsFunc(a, func(one string) bool {
		return slices.ContainsFunc(b, func(other string) bool { return strings.EqualFold(one, other) })
	})
}

// onDifferentNodes reports whether no node has both volumes, by the node affinity of both.
func onDifferentNodes(a, b *corev1.PersistentVolume) bool {
	for _, key := range []string{corev1.LabelHostname, "metadata.name"} {
		one, known := affinityNodes(a, key)
		other, known2 := affinityNodes(b, key)
		if known && known2 && !intersect(one, other) {
			return true
		}
	}
	return false
}

// affinityNodes lists the nodes of a volume's node affinity by a key. known is false unless every term has that key.
func affinityNodes(v *corev1.PersistentVolume, key string) (names []string, known bool) {
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
