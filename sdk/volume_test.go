package sdk_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/diff"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

var (
	nfs   = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "10.0.0.1", Path: "/e/x"}}
	local = corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/srv/x"}}
)

func TestNewVolume(t *testing.T) {
	skeleton := sdktest.Skeleton(sdktest.Provision(nil))
	before := skeleton.DeepCopy()
	got, err := sdk.NewVolume(skeleton, sdk.Volume{
		Source:       local,
		Capacity:     resource.MustParse("12Gi"),
		NodeAffinity: sdk.NodeAffinity("kubernetes.io/hostname", "node-1"),
		MountOptions: []string{"hard", "noatime"},
		Annotations:  map[string]string{"example.com/lun": "7"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := before.DeepCopy()
	want.Spec.PersistentVolumeSource = local
	want.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("12Gi")
	want.Spec.NodeAffinity = sdk.NodeAffinity("kubernetes.io/hostname", "node-1")
	want.Spec.MountOptions = []string{"hard", "noatime"}
	want.Annotations["example.com/lun"] = "7"
	if !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("volume:\n%s", diff.Diff(want, got))
	}
	if !equality.Semantic.DeepEqual(skeleton, before) {
		t.Errorf("the skeleton was changed:\n%s", diff.Diff(before, skeleton))
	}
}

// A skeleton that somebody wrote may have no annotations, and a size that is given may be the one that is asked for.
func TestNewVolumeOfBareSkeleton(t *testing.T) {
	skeleton := sdktest.Skeleton(sdktest.Provision(nil))
	skeleton.Annotations = nil
	got, err := sdk.NewVolume(skeleton, sdk.Volume{Source: nfs, Capacity: resource.MustParse("10Gi"), Annotations: map[string]string{"example.com/lun": "7"}})
	if err != nil || got.Annotations["example.com/lun"] != "7" {
		t.Errorf("got %v, %v", got, err)
	}
}

// What is left out stays as the class and the claim have it.
func TestNewVolumeSourceOnly(t *testing.T) {
	want := sdktest.Skeleton(sdktest.Provision(nil))
	want.Spec.PersistentVolumeSource = nfs
	got, err := sdk.NewVolume(sdktest.Skeleton(sdktest.Provision(nil)), sdk.Volume{Source: nfs})
	if err != nil {
		t.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("volume:\n%s", diff.Diff(want, got))
	}
}

func TestNewVolumeErrors(t *testing.T) {
	both := nfs
	both.Local = local.Local
	annotated := func(key string) sdk.Volume {
		return sdk.Volume{Source: nfs, Annotations: map[string]string{key: "x"}}
	}
	for _, c := range []struct {
		name   string
		volume sdk.Volume
		want   string
	}{
		{"no source", sdk.Volume{}, "volume source: Required value: name exactly one, for example nfs or csi"},
		{"two sources", sdk.Volume{Source: both}, `volume source: Invalid value: "nfs, local": a volume has exactly one`},
		{"small", sdk.Volume{Source: nfs, Capacity: resource.MustParse("9Gi")},
			`capacity: Invalid value: "9Gi": less than the 10Gi that the claim asks for would never bind`},
		{"negative", sdk.Volume{Source: nfs, Capacity: resource.MustParse("-1")},
			`capacity: Invalid value: "-1": less than the 10Gi that the claim asks for would never bind`},
		{"empty mount option", sdk.Volume{Source: nfs, MountOptions: []string{"ro", ""}},
			`mountOptions[1]: Invalid value: "": must not be empty or hold control characters`},
		{"hostile mount option", sdk.Volume{Source: nfs, MountOptions: []string{"ro\nsuid"}},
			`mountOptions[0]: Invalid value: "ro\nsuid": must not be empty or hold control characters`},
		{"annotation without domain", annotated("lun"),
			`annotations[lun]: Invalid value: "lun": must begin with a domain of yours, such as example.com/`},
		{"provisioned-by", annotated("pv.kubernetes.io/provisioned-by"),
			"annotations[pv.kubernetes.io/provisioned-by]: Forbidden: kubernetes.io is reserved; use a domain of yours, such as example.com/"},
		{"identity", annotated("flex-provisioner.io/identity"),
			"annotations[flex-provisioner.io/identity]: Forbidden: flex-provisioner.io is reserved; use a domain of yours, such as example.com/"},
		{"upper case", annotated("Volume.Beta.Kubernetes.io/mount-options"),
			"annotations[Volume.Beta.Kubernetes.io/mount-options]: Forbidden: kubernetes.io is reserved; use a domain of yours, such as example.com/"},
		{"all at once", sdk.Volume{MountOptions: []string{""}},
			`[volume source: Required value: name exactly one, for example nfs or csi, mountOptions[0]: Invalid value: "": must not be empty or hold control characters]`},
	} {
		volume, err := sdk.NewVolume(sdktest.Skeleton(sdktest.Provision(nil)), c.volume)
		if err == nil || err.Error() != c.want || volume != nil {
			t.Errorf("%s:\n got %v\nwant %s", c.name, err, c.want)
		}
	}
}

func TestNewVolumeSkeletonWithSource(t *testing.T) {
	skeleton := sdktest.Skeleton(sdktest.Provision(nil))
	skeleton.Spec.PersistentVolumeSource = local
	_, err := sdk.NewVolume(skeleton, sdk.Volume{Source: nfs})
	if err == nil || !strings.HasSuffix(err.Error(), "Forbidden: the skeleton has one already: local") {
		t.Errorf("got %v", err)
	}
}

// The class's file system is that of each source which has one and names none.
func TestSetFSType(t *testing.T) {
	ext4 := "ext4"
	for _, c := range []struct {
		name, mode, parameter string
		source, want          corev1.PersistentVolumeSource
		err                   string
	}{
		{name: "iscsi", parameter: "xfs", source: corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{}}, want: corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{FSType: "xfs"}}},
		{name: "fc", parameter: "xfs", source: corev1.PersistentVolumeSource{FC: &corev1.FCVolumeSource{}}, want: corev1.PersistentVolumeSource{FC: &corev1.FCVolumeSource{FSType: "xfs"}}},
		{name: "rbd", parameter: "xfs", source: corev1.PersistentVolumeSource{RBD: &corev1.RBDPersistentVolumeSource{}}, want: corev1.PersistentVolumeSource{RBD: &corev1.RBDPersistentVolumeSource{FSType: "xfs"}}},
		{name: "csi", parameter: "xfs", source: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{}}, want: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{FSType: "xfs"}}},
		{name: "local", parameter: "ext4", source: local, want: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/srv/x", FSType: &ext4}}},
		{name: "nfs has none", parameter: "xfs", source: nfs, want: nfs},
		{name: "the provisioner's own", parameter: "xfs", source: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{FSType: "ext4"}}, want: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{FSType: "ext4"}}},
		{name: "a raw device", mode: "Block", parameter: "xfs", source: local, want: local},
		{name: "no parameter", source: local, want: local},
		{name: "no file system", parameter: "xfs,rw", source: local, want: local,
			err: `parameter csi.storage.k8s.io/fstype of class silver is "xfs,rw": it must be the name of a file system, such as ext4 or xfs`},
	} {
		request := sdktest.Provision(nil)
		request.Parameters = map[string]string{"csi.storage.k8s.io/fstype": c.parameter}
		if c.mode != "" {
			request.VolumeMode = c.mode
		}
		v := sdk.Volume{Source: *c.source.DeepCopy()}
		if err := v.SetFSType(request); (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%s: %v, want %s", c.name, err, c.err)
		}
		if !equality.Semantic.DeepEqual(v.Source, c.want) {
			t.Errorf("%s:\n%s", c.name, diff.Diff(c.want, v.Source))
		}
	}
}
