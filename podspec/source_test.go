package podspec

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// onNodes has a node affinity of labels and values.
func onNodes(source corev1.PersistentVolumeSource, pairs ...string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: source}}
	var term corev1.NodeSelectorTerm
	for i := 0; i < len(pairs); i += 2 {
		term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: pairs[i], Operator: corev1.NodeSelectorOpIn, Values: []string{pairs[i+1]}})
	}

	if len(pairs) > 0 {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}}
	}

	return v
}

func TestMountSource(t *testing.T) {
	nfs := func(server, path string) corev1.PersistentVolumeSource {
		return corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: server, Path: path}}
	}
	csi := func(handle string, attributes map[string]string) corev1.PersistentVolumeSource {
		return corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "nfs.csi.k8s.io", VolumeHandle: handle, VolumeAttributes: attributes}}
	}
	local := corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/srv/a"}}
	rbd := func(image string) corev1.PersistentVolumeSource {
		return corev1.PersistentVolumeSource{RBD: &corev1.RBDPersistentVolumeSource{RBDImage: image, CephMonitors: []string{"a"}}}
	}
	const hash = "hash:"
	for name, c := range map[string]struct {
		volume *corev1.PersistentVolume
		want   string // or what it begins with, if it ends with *
	}{
		"nfs":                         {onNodes(nfs("10.0.0.1", "/srv/e1/")), "nfs://10.0.0.1/srv/e1"},
		"all of an nfs server":        {onNodes(nfs("nas", "/")), "nfs://nas/"},
		"nfs by an IPv6 address":      {onNodes(nfs("fd00::1", "/srv")), "nfs://[fd00::1]/srv"},
		"nfs by one in brackets":      {onNodes(nfs("[fd00::1]", "/srv")), "nfs://[fd00::1]/srv"},
		"nfs with lines":              {onNodes(nfs("a", "/srv\nb")), "nfs:*"},
		"csi":                         {onNodes(csi("vol-1", nil)), "csi:nfs.csi.k8s.io/vol-1"},
		"csi, whoever made it":        {onNodes(csi("vol-1", map[string]string{"storage.kubernetes.io/csiProvisionerIdentity": "8081"})), "csi:nfs.csi.k8s.io/vol-1"},
		"csi with attributes":         {onNodes(csi("vol-1", map[string]string{"share": "/a"})), "csi:nfs.csi.k8s.io/vol-1#9d1a6df34f41b1b1"},
		"csi with others":             {onNodes(csi("vol-1", map[string]string{"share": "/b"})), "csi:nfs.csi.k8s.io/vol-1#*"},
		"csi with a very long handle": {onNodes(csi(strings.Repeat("x", 1000), nil)), "csi:*"},
		"a disk of a node":            {onNodes(local, corev1.LabelHostname, "node1"), "local:/srv/a@node1"},
		"a disk of nodes":             {onNodes(local, "zone", "a"), "local:/srv/a@*"},
		"a directory of every node":   {onNodes(corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/srv"}}), "hostPath:/srv"},
		"iscsi":                       {onNodes(corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{TargetPortal: "10.0.0.1:3260", IQN: "iqn.2026-01.x:y", Lun: 3}}), "iscsi://10.0.0.1:3260/iqn.2026-01.x:y/3"},
		"rbd":                         {onNodes(rbd("a")), hash + "*"},
	} {
		got := MountSource(c.volume)
		if want, begins := strings.CutSuffix(c.want, "*"); got != c.want && (!begins || !strings.HasPrefix(got, want) || len(got) > len(want)+16) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}

	if MountSource(onNodes(rbd("a"))) == MountSource(onNodes(rbd("b"))) || MountSource(onNodes(local, "zone", "a")) == MountSource(onNodes(local, "zone", "b")) {
		t.Error("two places are one")
	}

	kept := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{SourceText: "nfs://nas/srv"}}}
	if got := MountSource(kept); got != "nfs://nas/srv" {
		t.Errorf("of a volume in memory it is %s", got)
	}
}
