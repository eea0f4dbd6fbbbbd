package inspect

import (
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/classes"
)

// Own are the objects of a dispatcher's users: those that it answers for.
type Own struct {
	Claims  []*corev1.PersistentVolumeClaim
	Volumes []*corev1.PersistentVolume
	Classes []*storagev1.StorageClass
	// Requests, Contents and SnapshotClasses are those of snapshots.
	Requests        []*snapshotv1.VolumeSnapshot
	Contents        []*snapshotv1.VolumeSnapshotContent
	SnapshotClasses []*snapshotv1.VolumeSnapshotClass
	// Events are about the claims and volumes, and all of the provisioners' namespace.
	Events []*corev1.Event
}

// Own lists the objects that the dispatcher answers for.
func (o *Objects) Own() Own {
	own := Own{Volumes: filter(o.Volumes, o.ownVolume), Contents: filter(o.Snapshots.Contents, o.ownContent)}
	about, volumes, driven := map[types.UID]bool{}, map[string]bool{}, map[string]bool{}

	for _, v := range own.Volumes {
		volumes[v.Name] = true
	}
	own.Claims = filter(o.Claims, func(c *corev1.PersistentVolumeClaim) bool {
		return o.provisionerOf(c) == o.Dispatcher.Provisioner || volumes[c.Spec.VolumeName]
	})
	own.Classes = filter(o.Classes, func(c *storagev1.StorageClass) bool { return classes.Ours(c, o.Dispatcher.Provisioner) })
	own.SnapshotClasses = filter(o.Snapshots.Classes, func(c *snapshotv1.VolumeSnapshotClass) bool { return c.Driver == o.driver() })
	for _, c := range own.SnapshotClasses {
		driven[c.Name] = true
	}

	for _, c := range own.Contents {
		about[c.UID], about[c.Spec.VolumeSnapshotRef.UID] = true, true
	}
	own.Requests = filter(o.Snapshots.Requests, func(r *snapshotv1.VolumeSnapshot) bool {
		class := r.Spec.VolumeSnapshotClassName
		return about[r.UID] || class != nil && driven[*class]
	})
	for _, r := range own.Requests {
		about[r.UID] = true
	}
	for _, c := range own.Claims {
		about[c.UID] = true
	}

	own.Events = filter(o.Events, func(e *corev1.Event) bool {
		of := e.InvolvedObject
		return e.Namespace == o.Dispatcher.Namespace || about[of.UID] || of.Kind == "PersistentVolume" && volumes[of.Name]
	})
	return own
}

// OwnConfigMaps lists the ConfigMaps that serve classes of this dispatcher.
func (o *Objects) OwnConfigMaps() []*corev1.ConfigMap {
	return filter(o.ConfigMaps, func(cm *corev1.ConfigMap) bool { return classes.Concerns(cm, o.Dispatcher.Provisioner) })
}
