package inspect

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOverlap(t *testing.T) {
	type source = corev1.PersistentVolumeSource
	nfs := func(server, path string) source {
		return source{NFS: &corev1.NFSVolumeSource{Server: server, Path: path}}
	}
	iscsi := func(portal, iqn string, lun int32) source {
		return source{ISCSI: &corev1.ISCSIPersistentVolumeSource{TargetPortal: portal, IQN: iqn, Lun: lun}}
	}
	fc := func(lun int32, wwn string, wwids ...string) source {
		return source{FC: &corev1.FCVolumeSource{TargetWWNs: []string{wwn}, Lun: &lun, WWIDs: wwids}}
	}
	local := func(path string) source { return source{Local: &corev1.LocalVolumeSource{Path: path}} }
	hostPath := func(path string) source { return source{HostPath: &corev1.HostPathVolumeSource{Path: path}} }
	volume := func(name, node string, s source) *corev1.PersistentVolume {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: s}}
		if node != "" {
			v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}}
		}
		return v
	}
	for name, c := range map[string]struct {
		one, other         source
		oneNode, otherNode string
		refused            bool
	}{
		"same":              {one: nfs("h", "/srv/a"), other: nfs("H.", "/srv/a/"), refused: true},
		"contains":          {one: nfs("h", "/srv/a"), other: nfs("h", "/srv/a/b"), refused: true},
		"lies within":       {one: nfs("h", "/srv/a/b"), other: nfs("h", "/srv/a"), refused: true},
		"address spellings": {one: nfs("[fd00::1]", "/srv/a"), other: nfs("fd00:0::1", "/srv/a"), refused: true},
		"beside":            {one: nfs("h", "/srv/a"), other: nfs("h", "/srv/ab")},
		"other server":      {one: nfs("h", "/srv/a"), other: nfs("g", "/srv/a")},
		"the root":          {one: nfs("h", "/srv/a"), other: nfs("h", "/srv")},
		"above the root":    {one: nfs("h", "/srv/a"), other: nfs("h", "/")},
		"same node":         {one: local("/srv/a"), other: hostPath("/srv/a/b"), oneNode: "n", otherNode: "n", refused: true},
		"any node":          {one: local("/srv/a"), other: hostPath("/srv/a"), oneNode: "n", refused: true},
		"other node":        {one: local("/srv/a"), other: local("/srv/a"), oneNode: "n", otherNode: "m"},
		"other portal":      {one: iscsi("p", "iqn.2000-01.x", 1), other: iscsi("q", "IQN.2000-01.x", 1), refused: true},
		"other lun":         {one: iscsi("p", "iqn.2000-01.x", 1), other: iscsi("p", "iqn.2000-01.x", 2)},
		"fc lun":            {one: fc(1, "aa"), other: fc(1, "AA"), refused: true},
		"fc other lun":      {one: fc(1, "aa"), other: fc(2, "aa")},
		"fc wwid":           {one: fc(1, "aa", "w"), other: fc(2, "bb", "w"), refused: true},
		"other type":        {one: nfs("h", "/srv/a"), other: local("/srv/a")},
	} {
		v := volume("v", c.oneNode, c.one)
		o := &Objects{Volumes: []*corev1.PersistentVolume{v, volume("other", c.otherNode, c.other)}}
		if err := o.overlap(v, []string{"/srv"}); (err != nil) != c.refused {
			t.Errorf("%s: %v, refused should be %t", name, err, c.refused)
		}
	}
}
