package cache

import (
	"fmt"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/resize"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Indexes. The library makes byUID, claims by their UID.
const (
	byDueClass = "due-for-deletion"
	byClaimUID = "claim-uid"
	bySource   = "clone-source"
	byWaiting  = "class-of-waiting"
	byPodUID   = "pod-uid"
	byCopied   = "copied-volume"
	byGiven    = "given-volume"
	byRestored = "restored-snapshot"
	bySnapshot = "snapshot-source"
	byRequest  = "snapshots-of-claim"
	byClass    = "snapshot-class"
	byHandle   = "snapshot-handle"
	byNobody   = "class-without-provisioner"
	byStorage  = "storage-by-hand"
	byUID      = "uid"
	byVolume   = "attached-volume"
)

// Cache is the dispatcher's view of the cluster. Pods are those that have the label claim-uid. PodEvents are warnings
// about pods of the provisioners' namespace, Stop is the ConfigMap that stops deletions, and Revisions are the saved
// versions of provisioner ConfigMaps. Saved are the saved pods, which have the label claim-uid too. Attachments are all
// VolumeAttachments, of which those of other drivers have no more than a name.
type Cache struct {
	Claims, Volumes, Classes, Pods, ConfigMaps, Stop, PodEvents, Revisions, Saved, Attachments cache.SharedIndexInformer

	namespace, provisioner string
	// snapshots is nil until the objects of snapshots can be read: see ServeSnapshots.
	snapshots atomic.Pointer[snapshots]
	key       podspec.RecordKey
}

// New makes the informers, which the caller runs. namespace is the provisioners', and provisioner the name that the
// dispatcher serves.
func New(client kubernetes.Interface, namespace, provisioner string, key podspec.RecordKey) (*Cache, error) {
	t := &transformer{key: key, namespace: namespace, driver: contract.SnapshotDriver(provisioner)}
	keep := informers.WithTransform(t.transform)
	cluster := informers.NewSharedInformerFactoryWithOptions(client, 0, keep)
	pods := func(tweak func(*metav1.ListOptions)) informers.SharedInformerFactory {
		return informers.NewSharedInformerFactoryWithOptions(client, 0, keep,
			informers.WithNamespace(namespace), informers.WithTweakListOptions(tweak))
	}

	labels := func(selector string) func(*metav1.ListOptions) {
		return func(o *metav1.ListOptions) { o.LabelSelector = selector }
	}
	fieldsOf := func(set fields.Set) func(*metav1.ListOptions) {
		return func(o *metav1.ListOptions) { o.FieldSelector = set.AsSelector().String() }
	}

	stop := fields.Set{"metadata.name": contract.StopDeletes}
	podWarnings := fields.Set{"involvedObject.kind": "Pod", "type": corev1.EventTypeWarning}

	claims := func(client kubernetes.Interface, _ time.Duration) cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(claimsOf(client, t.claim), &corev1.PersistentVolumeClaim{}, 0,
			cache.Indexers{})
	}

	c := &Cache{
		Claims:     cluster.InformerFor(&corev1.PersistentVolumeClaim{}, claims),
		Volumes:    cluster.Core().V1().PersistentVolumes().Informer(),
		Classes:    cluster.Storage().V1().StorageClasses().Informer(),
		Pods:       pods(labels(contract.LabelClaimUID)).Core().V1().Pods().Informer(),
		ConfigMaps: pods(labels("type=provisioner-config")).Core().V1().ConfigMaps().Informer(),
		Stop:       pods(fieldsOf(stop)).Core().V1().ConfigMaps().Informer(),
		PodEvents:  pods(fieldsOf(podWarnings)).Core().V1().Events().Informer(),
		Revisions:  pods(labels("type=provisioner-config")).Apps().V1().ControllerRevisions().Informer(),
		Saved:      pods(labels(contract.LabelClaimUID)).Apps().V1().ControllerRevisions().Informer(),

		Attachments: cluster.Storage().V1().VolumeAttachments().Informer(),
		namespace:   namespace, provisioner: provisioner, key: key,
	}

	for _, index := range []struct {
		of   cache.SharedIndexInformer
		name string
		keys func(obj any) string
	}{
		{c.Claims, bySource, sourceOf},
		{c.Claims, byWaiting, waitingFor},
		{c.Claims, byGiven, func(obj any) string { return observed.GivenVolume(obj.(*corev1.PersistentVolumeClaim)) }},
		{c.Pods, byClaimUID, claimUIDOf},
		{c.Saved, byClaimUID, claimUIDOf},
		{c.Pods, byCopied, func(obj any) string { return observed.CopiedVolume(obj.(*corev1.Pod)) }},
		{c.Pods, byRestored, func(obj any) string { return observed.RestoredSnapshot(obj.(*corev1.Pod)) }},
		{c.Claims, bySnapshot, restoredFrom},
		{c.Attachments, byUID, attachmentKey},
		{c.Attachments, byVolume, attachedVolume},
		{c.Volumes, byDueClass, c.dueClass},
		{c.Volumes, byNobody, withoutProvisioner},
		{c.Volumes, byStorage, func(obj any) string { return observed.StorageByHand(obj.(*corev1.PersistentVolume)) }},
		{c.PodEvents, byPodUID, func(obj any) string { return string(obj.(*corev1.Event).InvolvedObject.UID) }},
	} {
		err := index.of.AddIndexers(cache.Indexers{index.name: func(obj any) ([]string, error) {
			if key := index.keys(obj); key != "" {
				return []string{key}, nil
			}

			return nil, nil
		}})
		if err != nil {
			return nil, fmt.Errorf("add index %s: %w", index.name, err)
		}
	}

	return c, nil
}

// claimUIDOf is the UID of the claim that a provisioner pod works for, by the name of the pod, which it is saved by,
// too. It is empty for a name that no provisioner pod has.
func claimUIDOf(obj any) string {
	_, uid, _, _ := podspec.ParseName(obj.(metav1.Object).GetName())
	return uid
}

// sourceOf is the claim that a claim without a volume asks to be a clone of.
func sourceOf(obj any) string {
	claim := obj.(*corev1.PersistentVolumeClaim)
	if claim.Spec.VolumeName != "" {
		return ""
	}

	if name, _ := observed.CloneOf(claim); name != "" {
		return claim.Namespace + "/" + name
	}

	return ""
}

// waitingFor is the class of a claim without a volume.
func waitingFor(obj any) string {
	claim := obj.(*corev1.PersistentVolumeClaim)
	if claim.Spec.VolumeName != "" {
		return ""
	}

	return podspec.ClassOfClaim(claim)
}

// dueClass is the class of a volume whose deletion counts for the limit.
func (c *Cache) dueClass(obj any) string {
	v := obj.(*corev1.PersistentVolume)
	allowed := v.Annotations[contract.AnnAllowDelete] == "true"
	ours := v.Annotations[contract.ProvisionedBy] == c.provisioner
	if !ours || allowed || !observed.AwaitsDeletion(v) {
		return ""
	}

	return podspec.ClassOf(v)
}

// withoutProvisioner is the class of a volume that is named as those of provisioner pods and does not say who made it.
func withoutProvisioner(obj any) string {
	v := obj.(*corev1.PersistentVolume)
	_, named := podspec.ClaimUIDOf(v.Name)
	if _, said := v.Annotations[contract.ProvisionedBy]; said || !named {
		return ""
	}

	return podspec.ClassOf(v)
}

// Informers are all of them.
func (c *Cache) Informers() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{c.Claims, c.Volumes, c.Classes, c.Pods, c.ConfigMaps, c.Stop, c.PodEvents,
		c.Revisions, c.Saved, c.Attachments}
}

// Claim is the claim with the UID, or nil.
func (c *Cache) Claim(uid string) *corev1.PersistentVolumeClaim {
	return firstOf(indexed[*corev1.PersistentVolumeClaim](c.Claims, byUID, uid))
}

// ClaimNamed is the claim of the name, or nil.
func (c *Cache) ClaimNamed(namespace, name string) *corev1.PersistentVolumeClaim {
	return get[*corev1.PersistentVolumeClaim](c.Claims, namespace+"/"+name)
}

// ClonesOf are the claims without a volume that ask to be clones of the claim.
func (c *Cache) ClonesOf(namespace, name string) []*corev1.PersistentVolumeClaim {
	return indexed[*corev1.PersistentVolumeClaim](c.Claims, bySource, namespace+"/"+name)
}

// Users are the claims that are, or were, bound to a volume that was made for another claim.
func (c *Cache) Users(volumeName string) []*corev1.PersistentVolumeClaim {
	return indexed[*corev1.PersistentVolumeClaim](c.Claims, byGiven, volumeName)
}

// Waiting are the claims of a class that have no volume.
func (c *Cache) Waiting(class string) []*corev1.PersistentVolumeClaim {
	return indexed[*corev1.PersistentVolumeClaim](c.Claims, byWaiting, class)
}

// Observe takes the claim of the observed UID, its volume and the claim that has the volume.
func (c *Cache) Observe(s *observed.Claim) {
	s.Claim = c.Claim(s.UID)
	s.SetVolume(c.Volume(podspec.VolumeName(s.UID)))
	s.SetOther(c.ClaimNamed)
	s.SetElsewhere(c.Volume)
}

// KeyOf is the UID under which the claim is served.
func (c *Cache) KeyOf(claim *corev1.PersistentVolumeClaim) string {
	return observed.KeyOf(claim, c.Volume(claim.Spec.VolumeName), c.provisioner)
}

// Due is the class of what is served under the UID, if the library would not hand it over and there is something to
// do: a claim is bound, and has to be expanded, or its status still says that it waits; or a volume has lost its
// record, or is being deleted although a claim has it.
func (c *Cache) Due(uid string) (class string, ok bool) {
	s := &observed.Claim{UID: uid, Provisioner: c.provisioner}
	c.Observe(s)
	class = s.ClassByObjects("")
	s.Class = c.Class(class)
	expands := s.Expandable() && resize.Needed(s.Holder())

	return class, s.RecordLost() || s.VolumeGoing() || expands || outdated(s)
}

// outdated reports whether the status of a bound claim says that the claim waits. It may be bound to a volume of any
// provisioner.
func outdated(s *observed.Claim) bool {
	claim := s.Holder()
	if claim == nil || s.ServedElsewhere(claim) {
		return false
	}

	_, waits := observed.WaitingCondition(claim)

	return waits && claim.Status.Phase == corev1.ClaimBound
}

// Volume is the volume of the name, or nil.
func (c *Cache) Volume(name string) *corev1.PersistentVolume {
	return get[*corev1.PersistentVolume](c.Volumes, name)
}

// DueForDeletion are the class's released volumes whose deletion counts for the limit.
func (c *Cache) DueForDeletion(class string) []*corev1.PersistentVolume {
	return indexed[*corev1.PersistentVolume](c.Volumes, byDueClass, class)
}

// SameStorage are the volumes that no provisioner pod made and that have the storage of a volume. The volume has its
// source only where it was read from the API server.
func (c *Cache) SameStorage(v *corev1.PersistentVolume) []*corev1.PersistentVolume {
	return indexed[*corev1.PersistentVolume](c.Volumes, byStorage, podspec.MountSource(v))
}

// WithoutProvisioner are the class's volumes that are named as those of provisioner pods and do not say who made them.
func (c *Cache) WithoutProvisioner(class string) []*corev1.PersistentVolume {
	return indexed[*corev1.PersistentVolume](c.Volumes, byNobody, class)
}

// Class is the StorageClass of the name, or nil.
func (c *Cache) Class(name string) *storagev1.StorageClass {
	return get[*storagev1.StorageClass](c.Classes, name)
}

// PodsOf are the provisioner pods of the claim with the UID, by their names. They have no labels: see transformer.
func (c *Cache) PodsOf(uid string) []*corev1.Pod {
	return indexed[*corev1.Pod](c.Pods, byClaimUID, uid)
}

// SavedOf are the saved pods of the claim with the UID.
func (c *Cache) SavedOf(uid string) []*appsv1.ControllerRevision {
	return indexed[*appsv1.ControllerRevision](c.Saved, byClaimUID, uid)
}

// Copying are the pods that copy the volume into clones.
func (c *Cache) Copying(volumeName string) []*corev1.Pod {
	return indexed[*corev1.Pod](c.Pods, byCopied, volumeName)
}

// Pod is the pod of the name in the provisioners' namespace, or nil.
func (c *Cache) Pod(name string) *corev1.Pod { return get[*corev1.Pod](c.Pods, c.namespace+"/"+name) }

// PodProblem is the kubelet's last event about a pod that does not start, empty where there is none.
func (c *Cache) PodProblem(pod types.UID) string {
	return observed.PodProblem(indexed[*corev1.Event](c.PodEvents, byPodUID, string(pod)))
}

// ConfigMap is the provisioner ConfigMap of the name, or nil.
func (c *Cache) ConfigMap(name string) *corev1.ConfigMap {
	return get[*corev1.ConfigMap](c.ConfigMaps, c.namespace+"/"+name)
}

// RevisionsOf are the saved versions of a ConfigMap, the latest first.
func (c *Cache) RevisionsOf(cm *corev1.ConfigMap) []*appsv1.ControllerRevision {
	return configmaps.RevisionsOf(All[*appsv1.ControllerRevision](c.Revisions), cm)
}

// StopDeletes is the ConfigMap that stops all deletions, or nil.
func (c *Cache) StopDeletes() *corev1.ConfigMap {
	return get[*corev1.ConfigMap](c.Stop, c.namespace+"/"+contract.StopDeletes)
}

// All is everything that an informer holds.
func All[T any](of cache.SharedIndexInformer) []T { return typed[T](of.GetStore().List()) }

func get[T any](of cache.SharedIndexInformer, key string) (object T) {
	if obj, ok, _ := of.GetStore().GetByKey(key); ok {
		object = obj.(T)
	}

	return object
}

func indexed[T any](of cache.SharedIndexInformer, index, key string) []T {
	list, err := of.GetIndexer().ByIndex(index, key)
	if err != nil {
		panic(err) // there is no such index: New and the library make them
	}

	return typed[T](list)
}

func typed[T any](objects []any) []T {
	list := make([]T, len(objects))
	for i, obj := range objects {
		list[i] = obj.(T)
	}

	return list
}

func firstOf[T any](list []T) (first T) {
	if len(list) > 0 {
		first = list[0]
	}

	return first
}
