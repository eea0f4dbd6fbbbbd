package flow

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/parameters"
	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// gib is the unit of Cinder's sizes.
const gib = 1 << 30

// checkRequest refuses what no volume of Cinder supports. It needs no request to Cinder.
func checkRequest(r contract.Request) error {
	for _, mode := range r.AccessModes {
		switch corev1.PersistentVolumeAccessMode(mode) {
		case corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteOncePod: // Kubernetes enforces the single pod
		case corev1.ReadWriteMany:
			if !block(r) {
				return fmt.Errorf("access mode ReadWriteMany: two nodes would destroy the file system; ask for volumeMode Block, or for ReadWriteOnce")
			}
		default:
			return fmt.Errorf("access mode %s is not supported; ask for ReadWriteOnce, ReadWriteOncePod, ReadOnlyMany, or ReadWriteMany with volumeMode Block", mode)
		}
	}
	if len(r.AccessModes) == 0 {
		return fmt.Errorf("the claim has no access mode")
	}
	if err := checkReaders(r); err != nil {
		return err
	}
	if mode := r.VolumeMode; mode != "" && mode != string(corev1.PersistentVolumeFilesystem) && !block(r) {
		return fmt.Errorf("volumeMode %s is not supported; ask for Filesystem or Block", mode)
	}
	if r.SizeBytes <= 0 || r.SizeBytes > math.MaxInt32*gib {
		return fmt.Errorf("a size of %d bytes is not supported; ask for 1 byte to %d GiB", r.SizeBytes, math.MaxInt32)
	}
	return nil
}

// checkReaders refuses a file system that several nodes read and another one writes, or that has no data.
func checkReaders(r contract.Request) error {
	if !manyReaders(r) {
		return nil
	}

	for _, mode := range r.AccessModes {
		if mode != string(corev1.ReadOnlyMany) {
			return fmt.Errorf("access mode ReadOnlyMany beside %s: a node that writes damages the file system for "+
				"those that read it; ask for one of them, or for volumeMode Block", mode)
		}
	}
	if r.Source == nil {
		return fmt.Errorf("access mode ReadOnlyMany: an empty file system has nothing to read, and no node may " +
			"write to it; make the claim a clone, or ask for ReadWriteOnce")
	}

	return nil
}

// manyReaders reports whether the volume has a file system that several nodes may mount. Each mounts it read-only.
func manyReaders(r contract.Request) bool {
	return !block(r) && slices.Contains(r.AccessModes, string(corev1.ReadOnlyMany))
}

// manyNodes reports whether several nodes may use the volume at the same time.
func manyNodes(r contract.Request) bool {
	return slices.Contains(r.AccessModes, string(corev1.ReadOnlyMany)) ||
		slices.Contains(r.AccessModes, string(corev1.ReadWriteMany))
}

func block(r contract.Request) bool { return r.VolumeMode == string(corev1.PersistentVolumeBlock) }

// sizeGiB is the size in GiB, rounded up.
func sizeGiB(bytes int64) int { return int((bytes-1)/gib + 1) }

// lastNative is the last minor release of Kubernetes whose kubelet mounts native volumes of Ceph.
const lastNative = 30

// checkNative refuses native volumes of Ceph where no kubelet mounts them: a pod would hang.
func (f *Flow) checkNative(ctx context.Context) error {
	if f.Parameters.RBD != parameters.RBDNative {
		return nil
	}
	major, minor, err := f.Cluster.Version(ctx)
	if err != nil {
		return err
	}

	number, err := strconv.Atoi(strings.TrimRight(minor, "+"))
	if err == nil && major == "1" && number <= lastNative {
		return nil
	}
	return sdk.Refuse(fmt.Errorf("parameter rbd is native, but nodes of Kubernetes %s.%s mount no such volumes: the "+
		"last release that did was 1.%d; set it to ceph-csi",
		major, minor, lastNative))
}

// checkType checks that the volume type allows several attachments, for claims that several nodes may write to. Where
// each node attaches the volume, those that several may read need it, too.
func (f *Flow) checkType(ctx context.Context) error {
	mode := string(corev1.ReadWriteMany)
	if f.perNode() && !slices.Contains(f.Request.AccessModes, mode) {
		mode = string(corev1.ReadOnlyMany)
	}
	if !slices.Contains(f.Request.AccessModes, mode) {
		return nil
	}
	multiattach, err := f.cinder.Multiattach(ctx, f.Parameters.Type)
	if err != nil {
		return err
	}
	if !multiattach {
		name := f.Parameters.Type
		if name == "" {
			name = "that is cinder's default"
		}
		return sdk.Refuse(fmt.Errorf("access mode %s: volume type %s does not say multiattach=\"<is> True\"; use a class "+
			"whose type does, or ask for ReadWriteOnce", mode, name))
	}
	return nil
}
