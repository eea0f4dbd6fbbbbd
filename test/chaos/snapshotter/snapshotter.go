// Package snapshotter does what the snapshot-controller of external-snapshotter v8.7.0 does, as far as a driver concerns
// it: pkg/common-controller/snapshot_controller.go, function by function.
package snapshotter

import (
	"slices"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// Finalizers that the controller places.
const (
	AsSource = "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection"
	Bound    = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection"
	OfClaim  = "snapshot.storage.kubernetes.io/pvc-as-source-protection"
)

// Controller works on a server.
type Controller struct {
	Server *apiserver.Server
	// Unseen, where not nil, reports whether the controller's cache has not got the content yet.
	Unseen func(*snapshotv1.VolumeSnapshotContent) bool
}

// SyncAll looks at each object once.
func (c Controller) SyncAll() {
	for _, content := range apiserver.List[*snapshotv1.VolumeSnapshotContent](c.Server, apiserver.SnapshotContents) {
		c.SyncContent(content.Name)
	}
	for _, o := range apiserver.List[*snapshotv1.VolumeSnapshot](c.Server, apiserver.Snapshots) {
		c.Sync(o.Namespace, o.Name)
	}
}

func (c Controller) content(name string) *snapshotv1.VolumeSnapshotContent {
	content, ok := apiserver.Get[*snapshotv1.VolumeSnapshotContent](c.Server, apiserver.SnapshotContents, "", name)
	if !ok || c.Unseen != nil && c.Unseen(content) {
		return nil
	}
	return content
}

func isFor(content *snapshotv1.VolumeSnapshotContent, o *snapshotv1.VolumeSnapshot) bool {
	ref := content.Spec.VolumeSnapshotRef
	return ref.Namespace == o.Namespace && ref.Name == o.Name && ref.UID == o.UID
}

// SyncContent is syncContent.
func (c Controller) SyncContent(name string) {
	content := c.content(name)
	if content == nil || content.Spec.VolumeSnapshotRef.UID == "" {
		return
	}
	if content.DeletionTimestamp == nil && !slices.Contains(content.Finalizers, contract.ContentFinalizer) {
		c.changeContent(content, func(now *snapshotv1.VolumeSnapshotContent) {
			now.Finalizers = append(now.Finalizers, contract.ContentFinalizer)
		})
		return
	}
	ref := content.Spec.VolumeSnapshotRef
	o, ok := apiserver.Get[*snapshotv1.VolumeSnapshot](c.Server, apiserver.Snapshots, ref.Namespace, ref.Name)
	if ok && isFor(content, o) && isCandidate(o) {
		c.markDeleted(content)
	}
}

// isCandidate is IsSnapshotDeletionCandidate.
func isCandidate(o *snapshotv1.VolumeSnapshot) bool {
	return o.DeletionTimestamp != nil && (slices.Contains(o.Finalizers, AsSource) || slices.Contains(o.Finalizers, Bound))
}

func (c Controller) markDeleted(content *snapshotv1.VolumeSnapshotContent) {
	c.changeContent(content, func(now *snapshotv1.VolumeSnapshotContent) {
		metav1.SetMetaDataAnnotation(&now.ObjectMeta, contract.AnnBeingDeleted, "yes")
	})
}

func (c Controller) changeContent(content *snapshotv1.VolumeSnapshotContent, change func(*snapshotv1.VolumeSnapshotContent)) {
	c.Server.Mutate(apiserver.SnapshotContents, "", content.Name, func(o apiserver.Object) {
		if o.GetUID() == content.UID {
			change(o.(*snapshotv1.VolumeSnapshotContent))
		}
	})
}

func (c Controller) change(o *snapshotv1.VolumeSnapshot, change func(*snapshotv1.VolumeSnapshot)) {
	c.Server.Mutate(apiserver.Snapshots, o.Namespace, o.Name, func(now apiserver.Object) {
		if now.GetUID() == o.UID {
			change(now.(*snapshotv1.VolumeSnapshot))
		}
	})
}

// Sync is syncSnapshot.
func (c Controller) Sync(namespace, name string) {
	o, ok := apiserver.Get[*snapshotv1.VolumeSnapshot](c.Server, apiserver.Snapshots, namespace, name)
	if !ok {
		return
	}
	c.releaseClaim(o, false)
	if o.DeletionTimestamp != nil {
		c.remove(o)
		return
	}
	content := c.contentOf(o)
	c.change(o, func(now *snapshotv1.VolumeSnapshot) {
		bound := now.Status != nil && now.Status.BoundVolumeSnapshotContentName != nil
		place(now, AsSource, true)
		place(now, Bound, bound && content != nil && content.Spec.DeletionPolicy == snapshotv1.VolumeSnapshotContentDelete)
	})
	if ready(o) {
		return
	}
	switch {
	case content != nil:
		c.bind(o, content)
	case o.Spec.Source.VolumeSnapshotContentName != nil:
		c.fault(o, "VolumeSnapshotContent is missing")
	case c.holdClaim(o) && c.makeContent(o):
	case c.holdClaim(o):
		c.fault(o, "Failed to create snapshot content with error cannot find CSI PersistentVolumeSource for volume")
	default:
		c.fault(o, "Failed to create snapshot content with error cannot get claim from snapshot")
	}
}

// makeContent is createSnapshotContent, which is for volumes of the type csi.
func (c Controller) makeContent(o *snapshotv1.VolumeSnapshot) bool {
	claim, _ := apiserver.Get[*corev1.PersistentVolumeClaim](c.Server, apiserver.Claims, o.Namespace, *o.Spec.Source.PersistentVolumeClaimName)
	class, known := apiserver.Get[*snapshotv1.VolumeSnapshotClass](c.Server, apiserver.SnapshotClasses, "", *o.Spec.VolumeSnapshotClassName)
	v, bound := apiserver.Get[*corev1.PersistentVolume](c.Server, apiserver.Volumes, "", claim.Spec.VolumeName)
	if !known || !bound || v.Spec.CSI == nil {
		return false
	}
	_, err := c.Server.Create(apiserver.SnapshotContents, &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: "snapcontent-" + string(o.UID)},
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			VolumeSnapshotRef:       corev1.ObjectReference{Kind: "VolumeSnapshot", Namespace: o.Namespace, Name: o.Name, UID: o.UID},
			Source:                  snapshotv1.VolumeSnapshotContentSource{VolumeHandle: &v.Spec.CSI.VolumeHandle},
			VolumeSnapshotClassName: &class.Name, DeletionPolicy: class.DeletionPolicy, Driver: class.Driver,
			SourceVolumeMode: v.Spec.VolumeMode,
		}})
	return err == nil
}

func place(o metav1.Object, finalizer string, wanted bool) {
	if wanted && !slices.Contains(o.GetFinalizers(), finalizer) {
		o.SetFinalizers(append(slices.Clone(o.GetFinalizers()), finalizer))
	}
}

func drop(o metav1.Object, finalizers ...string) {
	o.SetFinalizers(slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return slices.Contains(finalizers, f) }))
}

func ready(o *snapshotv1.VolumeSnapshot) bool {
	return o.Status != nil && o.Status.ReadyToUse != nil && *o.Status.ReadyToUse
}

// contentOf is getPreprovisionedContentFromStore and getDynamicallyProvisionedContentFromStore.
func (c Controller) contentOf(o *snapshotv1.VolumeSnapshot) *snapshotv1.VolumeSnapshotContent {
	if name := o.Spec.Source.VolumeSnapshotContentName; name != nil {
		content := c.content(*name)
		if content == nil || content.Spec.Source.SnapshotHandle == nil {
			return nil
		}
		ref := content.Spec.VolumeSnapshotRef
		if ref.Namespace != o.Namespace || ref.Name != o.Name || ref.UID != "" && ref.UID != o.UID {
			return nil
		}
		return content
	}
	content := c.content("snapcontent-" + string(o.UID))
	if content == nil || content.Spec.Source.VolumeHandle == nil || !isFor(content, o) {
		return nil
	}
	return content
}

// bind is checkandBindSnapshotContent and updateSnapshotStatus.
func (c Controller) bind(o *snapshotv1.VolumeSnapshot, content *snapshotv1.VolumeSnapshotContent) {
	if content.Spec.VolumeSnapshotRef.UID == "" || content.Spec.VolumeSnapshotClassName == nil {
		c.changeContent(content, func(now *snapshotv1.VolumeSnapshotContent) {
			now.Spec.VolumeSnapshotRef.UID = o.UID
			if class := o.Spec.VolumeSnapshotClassName; class != nil {
				now.Spec.VolumeSnapshotClassName = class
			}
		})
	}
	c.change(o, func(now *snapshotv1.VolumeSnapshot) { now.Status = statusOf(content) })
}

func statusOf(content *snapshotv1.VolumeSnapshotContent) *snapshotv1.VolumeSnapshotStatus {
	no, status := false, &snapshotv1.VolumeSnapshotStatus{BoundVolumeSnapshotContentName: &content.Name}
	status.ReadyToUse = &no
	from := content.Status
	if from == nil {
		return status
	}
	if from.ReadyToUse != nil {
		status.ReadyToUse = from.ReadyToUse
	}
	if from.CreationTime != nil {
		at := metav1.NewTime(time.Unix(0, *from.CreationTime)).Rfc3339Copy()
		status.CreationTime = &at
	}
	if from.RestoreSize != nil {
		status.RestoreSize = resource.NewQuantity(*from.RestoreSize, resource.BinarySI)
	}
	status.Error = from.Error.DeepCopy()
	return status
}

// fault is updateSnapshotErrorStatusWithEvent.
func (c Controller) fault(o *snapshotv1.VolumeSnapshot, message string) {
	no := false
	c.change(o, func(now *snapshotv1.VolumeSnapshot) {
		if now.Status == nil {
			now.Status = &snapshotv1.VolumeSnapshotStatus{}
		}
		if now.Status.Error == nil || now.Status.Error.Message == nil || *now.Status.Error.Message != message {
			at := metav1.Now().Rfc3339Copy()
			now.Status.Error, now.Status.ReadyToUse = &snapshotv1.VolumeSnapshotError{Time: &at, Message: &message}, &no
		}
	})
}

// remove is processSnapshotWithDeletionTimestamp.
func (c Controller) remove(o *snapshotv1.VolumeSnapshot) {
	if !isCandidate(o) {
		return
	}
	name := ""
	switch {
	case o.Status != nil && o.Status.BoundVolumeSnapshotContentName != nil:
		name = *o.Status.BoundVolumeSnapshotContentName
	case o.Spec.Source.PersistentVolumeClaimName != nil:
		name = "snapcontent-" + string(o.UID)
	}
	content := c.content(name)
	if content != nil && !isFor(content, o) {
		content = nil
	}
	if content != nil && c.restores(o) {
		return
	}
	cascades := content != nil && content.Spec.DeletionPolicy == snapshotv1.VolumeSnapshotContentDelete
	if content != nil {
		c.markDeleted(content)
	}
	if cascades {
		_, _ = c.Server.Delete(apiserver.SnapshotContents, "", content.Name, metav1.DeleteOptions{})
	}
	c.releaseClaim(o, true)
	c.change(o, func(now *snapshotv1.VolumeSnapshot) {
		if drop(now, AsSource); !cascades {
			drop(now, Bound)
		}
	})
}

// restores is isVolumeBeingCreatedFromSnapshot. It looks at spec.dataSource alone.
func (c Controller) restores(o *snapshotv1.VolumeSnapshot) bool {
	return slices.ContainsFunc(apiserver.List[*corev1.PersistentVolumeClaim](c.Server, apiserver.Claims), func(claim *corev1.PersistentVolumeClaim) bool {
		from := claim.Spec.DataSource
		return claim.Namespace == o.Namespace && from != nil && from.Kind == "VolumeSnapshot" && from.Name == o.Name && claim.Status.Phase == corev1.ClaimPending
	})
}

func (c Controller) claimOf(o *snapshotv1.VolumeSnapshot) *corev1.PersistentVolumeClaim {
	if o.Spec.Source.PersistentVolumeClaimName == nil {
		return nil
	}
	claim, ok := apiserver.Get[*corev1.PersistentVolumeClaim](c.Server, apiserver.Claims, o.Namespace, *o.Spec.Source.PersistentVolumeClaimName)
	if !ok {
		return nil
	}
	return claim
}

// holdClaim is ensurePVCFinalizer.
func (c Controller) holdClaim(o *snapshotv1.VolumeSnapshot) bool {
	claim := c.claimOf(o)
	if claim == nil || claim.DeletionTimestamp != nil {
		return false
	}
	c.Server.Mutate(apiserver.Claims, claim.Namespace, claim.Name, func(now apiserver.Object) {
		place(now, OfClaim, now.GetUID() == claim.UID && now.GetDeletionTimestamp() == nil)
	})
	return true
}

// Removed is deleteSnapshot, for a VolumeSnapshot that is gone.
func (c Controller) Removed(o *snapshotv1.VolumeSnapshot) {
	if o.Status != nil && o.Status.BoundVolumeSnapshotContentName != nil {
		c.SyncContent(*o.Status.BoundVolumeSnapshotContentName)
	}
}

// releaseClaim is checkandRemovePVCFinalizer. With going, the VolumeSnapshot itself does not count.
func (c Controller) releaseClaim(o *snapshotv1.VolumeSnapshot, going bool) {
	claim := c.claimOf(o)
	if claim == nil || !slices.Contains(claim.Finalizers, OfClaim) {
		return
	}
	for _, other := range apiserver.List[*snapshotv1.VolumeSnapshot](c.Server, apiserver.Snapshots) {
		of := other.Spec.Source.PersistentVolumeClaimName
		if other.Namespace == o.Namespace && of != nil && *of == claim.Name && !ready(other) && (!going || other.Name != o.Name) {
			return
		}
	}
	c.Server.Mutate(apiserver.Claims, claim.Namespace, claim.Name, func(now apiserver.Object) { drop(now, OfClaim) })
}
