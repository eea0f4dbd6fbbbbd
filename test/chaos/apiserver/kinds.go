package apiserver

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is what the server keeps. One that was handed out is never changed: change a copy and give it back.
type Object interface {
	metav1.Object
	runtime.Object
}

// Resources that the server knows, as they are written in paths.
const (
	Pods       = "pods"
	Claims     = "persistentvolumeclaims"
	Volumes    = "persistentvolumes"
	ConfigMaps = "configmaps"
	Secrets    = "secrets"
	Events     = "events"
	Classes    = "storageclasses"
	Capacities = "csistoragecapacities"
	Revisions  = "controllerrevisions"
	Namespaces = "namespaces"
	Nodes      = "nodes"
	CSINodes   = "csinodes"
	// Attachments is Kubernetes' order to its attachers.
	Attachments = "volumeattachments"
	// Those of the CustomResourceDefinitions of snapshots.
	Snapshots        = "volumesnapshots"
	SnapshotContents = "volumesnapshotcontents"
	SnapshotClasses  = "volumesnapshotclasses"
)

type kind struct {
	group, version, resource, name string
	make                           func() Object
	// status and created fill in what the server itself decides: the status that a write outside the subresource cannot
	// change, and the first values.
	status  func(to, from Object)
	created func(Object)
	// changed fills in what follows from a change; nil where nothing does.
	changed func(before, after Object)
	fields  func(Object) fields.Set
	// refuses is why a change is not valid, nil where any is.
	refuses func(before, after Object) error

	objects map[string]*entry
	log     []change
	uids    int64
	floor   int64         // watches and lists from before it find it compacted away
	wake    chan struct{} // closed at the next change
}

// entry is one version of an object, with its JSON.
type entry struct {
	object Object
	json   []byte
	nth    int // of the object's versions
}

// name is the same in every run, whatever happens to other objects meanwhile.
func (c *change) name() string {
	if c.after == nil {
		return fmt.Sprintf("%s/%d removed", c.before.object.GetName(), c.before.nth)
	}
	return fmt.Sprintf("%s/%d", c.after.object.GetName(), c.after.nth)
}

// change is one step of a kind's history. before is nil for an addition, after for a removal.
type change struct {
	version       int64
	at            int64 // in nanoseconds since 1970
	before, after *entry
	last          []byte // for a removal the JSON with the version of the removal
}

func of[T any, P interface {
	*T
	Object
}](group, version, resource, name string) *kind {
	return &kind{group: group, version: version, resource: resource, name: name,
		make: func() Object { return P(new(T)) }, objects: map[string]*entry{}, wake: make(chan struct{})}
}

func kinds() map[string]*kind {
	pods := of[corev1.Pod]("", "v1", Pods, "Pod")
	pods.status = func(to, from Object) { to.(*corev1.Pod).Status = from.(*corev1.Pod).Status }
	pods.created = func(o Object) {
		o.(*corev1.Pod).Status = corev1.PodStatus{Phase: corev1.PodPending}
		if seconds := int64(30); o.(*corev1.Pod).Spec.TerminationGracePeriodSeconds == nil {
			o.(*corev1.Pod).Spec.TerminationGracePeriodSeconds = &seconds
		}
	}
	claims := of[corev1.PersistentVolumeClaim]("", "v1", Claims, "PersistentVolumeClaim")
	claims.status = func(to, from Object) {
		to.(*corev1.PersistentVolumeClaim).Status = from.(*corev1.PersistentVolumeClaim).Status
	}
	claims.created = func(o Object) {
		o.(*corev1.PersistentVolumeClaim).Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
		o.SetFinalizers(append(o.GetFinalizers(), "kubernetes.io/pvc-protection"))
	}
	volumes := of[corev1.PersistentVolume]("", "v1", Volumes, "PersistentVolume")
	volumes.status = func(to, from Object) {
		to.(*corev1.PersistentVolume).Status = from.(*corev1.PersistentVolume).Status
	}
	volumes.created = func(o Object) {
		now := metav1.Now().Rfc3339Copy()
		o.(*corev1.PersistentVolume).Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending, LastPhaseTransitionTime: &now}
		o.SetFinalizers(append(o.GetFinalizers(), "kubernetes.io/pv-protection"))
	}
	volumes.changed = func(before, after Object) {
		was, is := &before.(*corev1.PersistentVolume).Status, &after.(*corev1.PersistentVolume).Status
		if is.Phase != was.Phase {
			now := metav1.Now().Rfc3339Copy()
			is.LastPhaseTransitionTime = &now
		}
	}
	events := of[corev1.Event]("", "v1", Events, "Event")
	events.fields = func(o Object) fields.Set {
		e := o.(*corev1.Event)
		return fields.Set{"involvedObject.kind": e.InvolvedObject.Kind, "type": e.Type, "metadata.name": e.Name}
	}
	revisions := of[appsv1.ControllerRevision]("apps", "v1", Revisions, "ControllerRevision")
	// The data never changes, byte by byte, and a strategic patch writes the names in order.
	revisions.refuses = func(before, after Object) error {
		if bytes.Equal(before.(*appsv1.ControllerRevision).Data.Raw, after.(*appsv1.ControllerRevision).Data.Raw) {
			return nil
		}
		return errors.New("data: field is immutable")
	}
	snapshots := of[snapshotv1.VolumeSnapshot](snapshotv1.GroupName, "v1", Snapshots, "VolumeSnapshot")
	snapshots.status = func(to, from Object) {
		to.(*snapshotv1.VolumeSnapshot).Status = from.(*snapshotv1.VolumeSnapshot).Status
	}
	snapshots.created = func(o Object) { o.(*snapshotv1.VolumeSnapshot).Status = nil }
	contents := of[snapshotv1.VolumeSnapshotContent](snapshotv1.GroupName, "v1", SnapshotContents, "VolumeSnapshotContent")
	contents.status = func(to, from Object) {
		to.(*snapshotv1.VolumeSnapshotContent).Status = from.(*snapshotv1.VolumeSnapshotContent).Status
	}
	contents.created = func(o Object) { o.(*snapshotv1.VolumeSnapshotContent).Status = nil }
	contents.refuses = func(before, after Object) error {
		was, is := before.(*snapshotv1.VolumeSnapshotContent).Spec.Source, after.(*snapshotv1.VolumeSnapshotContent).Spec.Source
		if reflect.DeepEqual(was, is) {
			return nil
		}
		return errors.New("spec.source: source is immutable")
	}
	attachments := of[storagev1.VolumeAttachment]("storage.k8s.io", "v1", Attachments, "VolumeAttachment")
	attachments.status = func(to, from Object) {
		to.(*storagev1.VolumeAttachment).Status = from.(*storagev1.VolumeAttachment).Status
	}
	attachments.created = func(o Object) { o.(*storagev1.VolumeAttachment).Status = storagev1.VolumeAttachmentStatus{} }
	table := map[string]*kind{}
	for _, k := range []*kind{pods, claims, volumes, events, snapshots, contents, attachments,
		of[storagev1.CSINode]("storage.k8s.io", "v1", CSINodes, "CSINode"),
		of[snapshotv1.VolumeSnapshotClass](snapshotv1.GroupName, "v1", SnapshotClasses, "VolumeSnapshotClass"),
		of[corev1.ConfigMap]("", "v1", ConfigMaps, "ConfigMap"),
		of[corev1.Secret]("", "v1", Secrets, "Secret"),
		revisions,
		of[corev1.Node]("", "v1", Nodes, "Node"),
		of[corev1.Namespace]("", "v1", Namespaces, "Namespace"),
		of[storagev1.StorageClass]("storage.k8s.io", "v1", Classes, "StorageClass"),
		of[storagev1.CSIStorageCapacity]("storage.k8s.io", "v1", Capacities, "CSIStorageCapacity"),
		of[coordinationv1.Lease]("coordination.k8s.io", "v1", "leases", "Lease"),
		of[admissionv1.ValidatingAdmissionPolicy]("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
		of[admissionv1.ValidatingAdmissionPolicyBinding]("admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
	} {
		if k.fields == nil {
			k.fields = func(o Object) fields.Set { return fields.Set{"metadata.name": o.GetName()} }
		}
		table[k.resource] = k
	}
	return table
}

func (k *kind) apiVersion() string {
	if k.group == "" {
		return k.version
	}
	return k.group + "/" + k.version
}
