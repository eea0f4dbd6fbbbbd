package cache

import (
	"context"
	"fmt"
	"slices"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	snapshotinformers "github.com/kubernetes-csi/external-snapshotter/client/v8/informers/externalversions"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// snapshots are the informers of the objects of snapshots. Their CustomResourceDefinitions may come at any time.
type snapshots struct {
	Requests, Contents, Classes cache.SharedIndexInformer
}

// ServeSnapshots fills the caches of snapshots, and returns once they are. They are filled until ctx ends. Handlers are
// added by SnapshotHandlers after that.
func (c *Cache) ServeSnapshots(ctx context.Context, client snapshotclient.Interface) error {
	factory := snapshotinformers.NewSharedInformerFactoryWithOptions(client, 0,
		snapshotinformers.WithTransform(c.transformSnapshot))
	v1 := factory.Snapshot().V1()
	all := &snapshots{
		Requests: v1.VolumeSnapshots().Informer(),
		Contents: v1.VolumeSnapshotContents().Informer(),
		Classes:  v1.VolumeSnapshotClasses().Informer(),
	}

	for _, index := range []struct {
		of   cache.SharedIndexInformer
		name string
		keys func(obj any) string
	}{
		{all.Requests, byUID, func(obj any) string { return string(obj.(metav1.Object).GetUID()) }},
		{all.Requests, byRequest, requestOf},
		{all.Requests, byClass, classOfRequest},
		{all.Contents, byUID, func(obj any) string { return string(obj.(metav1.Object).GetUID()) }},
		{all.Contents, byHandle, c.handleOf},
	} {
		err := index.of.AddIndexers(cache.Indexers{index.name: func(obj any) ([]string, error) {
			if key := index.keys(obj); key != "" {
				return []string{key}, nil
			}

			return nil, nil
		}})
		if err != nil {
			return fmt.Errorf("add index %s: %w", index.name, err)
		}
	}

	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), all.Requests.HasSynced, all.Contents.HasSynced, all.Classes.HasSynced) {
		return fmt.Errorf("caches of snapshots did not fill: %w", context.Cause(ctx))
	}

	c.snapshots.Store(all)

	return nil
}

// SnapshotHandlers are the informers of VolumeSnapshots, their contents and their classes, once they are filled.
func (c *Cache) SnapshotHandlers() (requests, contents, classes cache.SharedIndexInformer) {
	all := c.snapshots.Load()
	return all.Requests, all.Contents, all.Classes
}

// ServesSnapshots reports whether the objects of snapshots can be read.
func (c *Cache) ServesSnapshots() bool { return c.snapshots.Load() != nil }

// transformSnapshot keeps of each object what somebody here reads. Tenants write VolumeSnapshots, and other drivers
// contents. The definitions of these kinds limit no text, so that what is too long for a name is shortened.
func (c *Cache) transformSnapshot(obj any) (any, error) {
	object, ok := obj.(metav1.Object)
	if !ok {
		return obj, nil
	}

	kept := metav1.ObjectMeta{Namespace: intern(object.GetNamespace()), Name: object.GetName(), UID: object.GetUID(),
		ResourceVersion: object.GetResourceVersion(), CreationTimestamp: object.GetCreationTimestamp(),
		DeletionTimestamp: object.GetDeletionTimestamp()}
	switch o := obj.(type) {
	case *snapshotv1.VolumeSnapshot:
		if slices.Contains(o.Finalizers, contract.SnapshotFinalizer) {
			kept.Finalizers = protected
		}

		o.ObjectMeta = kept
		clipRequest(o)
	case *snapshotv1.VolumeSnapshotContent:
		c.key.MarkContent(o)
		kept.Annotations, kept.Finalizers = annotationsOf(o), internAll(o.Finalizers)
		o.ObjectMeta = kept
		clipContent(o)
	case *snapshotv1.VolumeSnapshotClass:
		o.ObjectMeta = kept
	}

	return obj, nil
}

// protected are the finalizers of a VolumeSnapshot that the snapshot-controller looks after. Nobody reads others.
var protected = []string{contract.SnapshotFinalizer}

// clipRequest keeps what a VolumeSnapshot asks for, and that it has a content.
func clipRequest(o *snapshotv1.VolumeSnapshot) {
	o.Spec = snapshotv1.VolumeSnapshotSpec{
		Source: snapshotv1.VolumeSnapshotSource{
			PersistentVolumeClaimName: clipIn(o.Spec.Source.PersistentVolumeClaimName),
			VolumeSnapshotContentName: clipIn(o.Spec.Source.VolumeSnapshotContentName),
		},
		VolumeSnapshotClassName: clipIn(o.Spec.VolumeSnapshotClassName),
	}

	if o.Status != nil {
		o.Status = &snapshotv1.VolumeSnapshotStatus{
			BoundVolumeSnapshotContentName: clipIn(o.Status.BoundVolumeSnapshotContentName),
		}
	}
}

// clipContent comes after the record was verified, which is for the whole handle.
func clipContent(o *snapshotv1.VolumeSnapshotContent) {
	s, ref := o.Spec, o.Spec.VolumeSnapshotRef
	o.Spec = snapshotv1.VolumeSnapshotContentSpec{
		VolumeSnapshotRef: corev1.ObjectReference{
			Namespace: intern(clip(ref.Namespace)), Name: clip(ref.Name), UID: types.UID(clip(string(ref.UID))),
		},
		DeletionPolicy: intern(s.DeletionPolicy), Driver: intern(clip(s.Driver)),
		Source: snapshotv1.VolumeSnapshotContentSource{
			VolumeHandle: clipIn(s.Source.VolumeHandle), SnapshotHandle: clipIn(s.Source.SnapshotHandle),
		},
	}
	if mode := s.SourceVolumeMode; mode != nil {
		o.Spec.SourceVolumeMode = sharedMode(new(corev1.PersistentVolumeMode(clip(string(*mode)))))
	}

	if st := o.Status; st != nil {
		o.Status = &snapshotv1.VolumeSnapshotContentStatus{SnapshotHandle: clipIn(st.SnapshotHandle),
			ReadyToUse: st.ReadyToUse, RestoreSize: st.RestoreSize}
		if st.Error != nil && st.Error.Message != nil {
			message := podspec.Clip(*st.Error.Message, podspec.MaxEvent)
			o.Status.Error = &snapshotv1.VolumeSnapshotError{Message: &message}
		}
	}
}

// readOfContent are the annotations by which somebody here knows a content, beside the volume of its record.
var readOfContent = []string{contract.AnnRecord, contract.AnnClass, contract.AnnAllowDelete, contract.AnnBeingCreated,
	contract.AnnBeingDeleted, contract.AnnModeChange, podspec.Verified}

// annotationsOf are those that are read. Of a recorded volume that nobody answers for, it is that there is one.
func annotationsOf(content *snapshotv1.VolumeSnapshotContent) map[string]string {
	kept := clipped(content.Annotations, readOfContent)
	volume, recorded := content.Annotations[contract.AnnVolume]
	switch {
	case !recorded:
		return kept
	case kept == nil:
		kept = map[string]string{}
	}

	kept[contract.AnnVolume] = ""
	if podspec.VolumeOf(content) != nil {
		kept[contract.AnnVolume] = volume
	}

	return kept
}

// requestOf is the claim that a VolumeSnapshot without a content asks for a snapshot of.
func requestOf(obj any) string {
	o := obj.(*snapshotv1.VolumeSnapshot)
	name := o.Spec.Source.PersistentVolumeClaimName
	bound := o.Status != nil && o.Status.BoundVolumeSnapshotContentName != nil
	if name == nil || bound {
		return ""
	}

	return o.Namespace + "/" + *name
}

func classOfRequest(obj any) string {
	if name := obj.(*snapshotv1.VolumeSnapshot).Spec.VolumeSnapshotClassName; name != nil {
		return *name
	}

	return ""
}

// handleOf is the snapshot of a content of this dispatcher's driver.
func (c *Cache) handleOf(obj any) string {
	content := obj.(*snapshotv1.VolumeSnapshotContent)
	if content.Spec.Driver != contract.SnapshotDriver(c.provisioner) {
		return ""
	}

	return podspec.HandleOf(content)
}

// restoredFrom is the VolumeSnapshot that a claim without a volume asks to be restored from.
func restoredFrom(obj any) string {
	claim := obj.(*corev1.PersistentVolumeClaim)
	if claim.Spec.VolumeName != "" {
		return ""
	}

	if name, _ := observed.SnapshotOf(claim); name != "" {
		return claim.Namespace + "/" + name
	}

	return ""
}

// Request is the VolumeSnapshot with the UID, or nil.
func (c *Cache) Request(uid string) *snapshotv1.VolumeSnapshot {
	if all := c.snapshots.Load(); all != nil {
		return firstOf(indexed[*snapshotv1.VolumeSnapshot](all.Requests, byUID, uid))
	}

	return nil
}

// RequestNamed is the VolumeSnapshot of the name, or nil.
func (c *Cache) RequestNamed(namespace, name string) *snapshotv1.VolumeSnapshot {
	if all := c.snapshots.Load(); all != nil {
		return get[*snapshotv1.VolumeSnapshot](all.Requests, namespace+"/"+name)
	}

	return nil
}

// RequestsFor are the VolumeSnapshots without a content that ask for a snapshot of the claim.
func (c *Cache) RequestsFor(namespace, claim string) []*snapshotv1.VolumeSnapshot {
	if all := c.snapshots.Load(); all != nil {
		return indexed[*snapshotv1.VolumeSnapshot](all.Requests, byRequest, namespace+"/"+claim)
	}

	return nil
}

// RequestsOf are the VolumeSnapshots of a VolumeSnapshotClass.
func (c *Cache) RequestsOf(class string) []*snapshotv1.VolumeSnapshot {
	if all := c.snapshots.Load(); all != nil {
		return indexed[*snapshotv1.VolumeSnapshot](all.Requests, byClass, class)
	}

	return nil
}

// SnapshotClass is the VolumeSnapshotClass of the name, or nil.
func (c *Cache) SnapshotClass(name string) *snapshotv1.VolumeSnapshotClass {
	if all := c.snapshots.Load(); all != nil {
		return get[*snapshotv1.VolumeSnapshotClass](all.Classes, name)
	}

	return nil
}

// ContentNamed is the VolumeSnapshotContent of the name, or nil.
func (c *Cache) ContentNamed(name string) *snapshotv1.VolumeSnapshotContent {
	if all := c.snapshots.Load(); all != nil {
		return get[*snapshotv1.VolumeSnapshotContent](all.Contents, name)
	}

	return nil
}

// Content is the content that is served under the UID, or nil: see observed.ContentKey.
func (c *Cache) Content(uid string) *snapshotv1.VolumeSnapshotContent {
	all := c.snapshots.Load()
	if all == nil {
		return nil
	}

	content := c.ContentNamed(podspec.ContentName(uid))
	if content == nil {
		content = firstOf(indexed[*snapshotv1.VolumeSnapshotContent](all.Contents, byUID, uid))
	}

	if content == nil || observed.ContentKey(content) != uid {
		return nil
	}

	return content
}

// ContentsOf are the contents of this dispatcher's driver that have the snapshot.
func (c *Cache) ContentsOf(handle string) []*snapshotv1.VolumeSnapshotContent {
	if all := c.snapshots.Load(); all != nil {
		return indexed[*snapshotv1.VolumeSnapshotContent](all.Contents, byHandle, handle)
	}

	return nil
}

// DeletedContents are all contents of this dispatcher's driver that are being deleted.
func (c *Cache) DeletedContents() (list []*snapshotv1.VolumeSnapshotContent) {
	all := c.snapshots.Load()
	if all == nil {
		return nil
	}

	driver := contract.SnapshotDriver(c.provisioner)
	for _, content := range All[*snapshotv1.VolumeSnapshotContent](all.Contents) {
		if content.DeletionTimestamp != nil && observed.DueContent(content, driver) {
			list = append(list, content)
		}
	}

	return list
}

// Restoring are the pods that restore the snapshot.
func (c *Cache) Restoring(handle string) []*corev1.Pod {
	return indexed[*corev1.Pod](c.Pods, byRestored, handle)
}

// RestoresOf are the claims without a volume that ask to be restored from the VolumeSnapshot.
func (c *Cache) RestoresOf(namespace, name string) []*corev1.PersistentVolumeClaim {
	return indexed[*corev1.PersistentVolumeClaim](c.Claims, bySnapshot, namespace+"/"+name)
}
