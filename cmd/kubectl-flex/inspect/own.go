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
	var own Own
	claims, volumes := map[types.UID]bool{}, map[string]bool{}

	for _, v := range o.Volumes {
		if o.ownVolume(v) {
			own.Volumes = append(own.Volumes, v)
			volumes[v.Name] = true
		}
	}
	for _, claim := range o.Claims {
		if o.provisionerOf(claim) == o.Dispatcher.Provisioner || volumes[claim.Spec.VolumeName] {
			own.Claims = append(own.Claims, claim)
			claims[claim.UID] = true
		}
	}
	for _, class := range o.Classes {
		if classes.Ours(class, o.Dispatcher.Provisioner) {
			own.Classes = append(own.Classes, class)
		}
	}

	o.ownSnapshots(&own)
	for _, r := range own.Requests {
		claims[r.UID] = true
	}
	for _, c := range own.Contents {
		claims[c.UID] = true
	}

	for _, e := range o.Events {
		about := e.InvolvedObject
		if e.Namespace == o.Dispatcher.Namespace || claims[about.UID] || about.Kind == "PersistentVolume" && volumes[about.Name] {
			own.Events = append(own.Events, e)
		}
	}
	return own
}

// OwnConfigMaps lists the ConfigMaps that serve classes of this dispatcher.
func (o *Objects) OwnConfigMaps() (list []*corev1.ConfigMap) {
	for _, cm := range o.ConfigMaps {
		if classes.Concerns(cm, o.Dispatcher.Provisioner) {
			list = append(list, cm)
		}
	}
	return list
}
