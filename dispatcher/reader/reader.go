package reader

import (
	"context"
	"fmt"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/cache"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Reader reads by a client. Errors name the object. An object that does not exist is nil without an error.
type Reader struct {
	Client kubernetes.Interface
	// Snapshots reads VolumeSnapshots and their contents.
	Snapshots snapshotclient.Interface
	// Namespace has the provisioner pods and ConfigMaps.
	Namespace string
	// RecordKey is what the records of volumes are verified with.
	RecordKey podspec.RecordKey
}

// found is an object that was asked for.
func found[T any](object *T, err error, kind, name string) (*T, error) {
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get %s %s: %w", kind, name, err)
	}

	return object, nil
}

// Claim is the claim as it is now. Another one that has its name is not it.
func (r Reader) Claim(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error) {
	now, err := r.ClaimNamed(ctx, claim.Namespace, claim.Name)
	if now == nil || now.UID != claim.UID {
		return nil, err
	}

	return now, nil
}

// ClaimNamed is the claim of a name.
func (r Reader) ClaimNamed(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	claim, err := r.Client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	claim, err = found(claim, err, "claim", namespace+"/"+name)
	if claim == nil {
		return nil, err
	}

	claim.Spec.AccessModes = cache.DistinctModes(claim.Spec.AccessModes)

	return claim, nil
}

// Volume is the volume of a claim, with the verdict on its record.
func (r Reader) Volume(ctx context.Context, claimUID string) (*corev1.PersistentVolume, error) {
	return r.VolumeNamed(ctx, podspec.VolumeName(claimUID))
}

// VolumeNamed is the volume of a name, with the verdict on its record. The API server takes any text as a claim's
// volumeName, and most texts are the name of no volume.
func (r Reader) VolumeNamed(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	if faults := validation.IsDNS1123Subdomain(name); len(faults) > 0 {
		return nil, nil
	}

	v, err := r.Client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	v, err = found(v, err, "volume", name)
	if v == nil {
		return nil, err
	}

	r.RecordKey.Mark(v)
	v.Spec.AccessModes = cache.DistinctModes(v.Spec.AccessModes)

	return v, nil
}

// Class is the StorageClass of a name.
func (r Reader) Class(ctx context.Context, name string) (*storagev1.StorageClass, error) {
	class, err := r.Client.StorageV1().StorageClasses().Get(ctx, name, metav1.GetOptions{})
	return found(class, err, "StorageClass", name)
}

// Pod is the provisioner pod of a name.
func (r Reader) Pod(ctx context.Context, name string) (*corev1.Pod, error) {
	pod, err := r.Client.CoreV1().Pods(r.Namespace).Get(ctx, name, metav1.GetOptions{})
	return found(pod, err, "pod", r.Namespace+"/"+name)
}

// PodsOf are the provisioner pods of a claim, by their label claim-uid. The policy flex-dispatcher lets the label be
// that of the name alone.
func (r Reader) PodsOf(ctx context.Context, claimUID string) ([]*corev1.Pod, error) {
	list, err := r.Client.CoreV1().Pods(r.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: contract.LabelClaimUID + "=" + claimUID})
	if err != nil {
		return nil, fmt.Errorf("list pods of claim %s: %w", claimUID, err)
	}

	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}

	return pods, nil
}

// Saved is the saved pod of a name. Of one that counts for nothing podspec.SavedPod is nil.
func (r Reader) Saved(ctx context.Context, name string) (*appsv1.ControllerRevision, error) {
	revision, err := r.Client.AppsV1().ControllerRevisions(r.Namespace).Get(ctx, name, metav1.GetOptions{})
	revision, err = found(revision, err, "ControllerRevision", r.Namespace+"/"+name)
	if revision != nil {
		_ = podspec.DecodeSaved(revision) // it has no pod then
	}

	return revision, err
}

// SavedOf are the saved pods of a claim.
func (r Reader) SavedOf(ctx context.Context, claimUID string) ([]*appsv1.ControllerRevision, error) {
	list, err := r.Client.AppsV1().ControllerRevisions(r.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: contract.LabelClaimUID + "=" + claimUID})
	if err != nil {
		return nil, fmt.Errorf("list saved pods of claim %s: %w", claimUID, err)
	}

	saved := make([]*appsv1.ControllerRevision, len(list.Items))
	for i := range list.Items {
		saved[i] = &list.Items[i]
		_ = podspec.DecodeSaved(saved[i]) // it has no pod then
	}

	return saved, nil
}

// NamespaceUID is the UID of the provisioners' namespace, empty where it does not exist.
func (r Reader) NamespaceUID(ctx context.Context) (types.UID, error) {
	namespace, err := r.Client.CoreV1().Namespaces().Get(ctx, r.Namespace, metav1.GetOptions{})
	namespace, err = found(namespace, err, "namespace", r.Namespace)
	if namespace == nil {
		return "", err
	}

	return namespace.UID, nil
}

// NodeMatching reports whether a node has such labels.
func (r Reader) NodeMatching(ctx context.Context, selector labels.Selector) (bool, error) {
	list, err := r.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: selector.String(), Limit: 1})
	if err != nil {
		return false, fmt.Errorf("list nodes with labels %s: %w", selector, err)
	}

	return len(list.Items) > 0, nil
}

// Node is the node of a name. A label may have a value that is no name.
func (r Reader) Node(ctx context.Context, name string) (*corev1.Node, error) {
	if faults := validation.IsDNS1123Subdomain(name); len(faults) > 0 {
		return nil, nil
	}

	node, err := r.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})

	return found(node, err, "node", name)
}

// Attachment is the VolumeAttachment of a name.
func (r Reader) Attachment(ctx context.Context, name string) (*storagev1.VolumeAttachment, error) {
	va, err := r.Client.StorageV1().VolumeAttachments().Get(ctx, name, metav1.GetOptions{})
	return found(va, err, "VolumeAttachment", name)
}

// Attachments are the VolumeAttachments of a volume. The API server cannot select them, so all are read.
func (r Reader) Attachments(ctx context.Context, volume string) (list []*storagev1.VolumeAttachment, err error) {
	all, err := r.Client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list VolumeAttachments: %w", err)
	}

	for i := range all.Items {
		va := &all.Items[i]
		if name := va.Spec.Source.PersistentVolumeName; name != nil && *name == volume {
			list = append(list, va)
		}
	}

	return list, nil
}

// Connector is what the CSI driver of a name says of itself on a node, empty where the node has no such driver.
func (r Reader) Connector(ctx context.Context, node, driver string) (string, error) {
	if faults := validation.IsDNS1123Subdomain(node); len(faults) > 0 {
		return "", nil
	}

	of, err := r.Client.StorageV1().CSINodes().Get(ctx, node, metav1.GetOptions{})
	of, err = found(of, err, "CSINode", node)
	if of == nil {
		return "", err
	}

	for _, d := range of.Spec.Drivers {
		if d.Name == driver {
			return d.NodeID, nil
		}
	}

	return "", nil
}

// ConfigMap is the ConfigMap of a name in the provisioners' namespace.
func (r Reader) ConfigMap(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	cm, err := r.Client.CoreV1().ConfigMaps(r.Namespace).Get(ctx, name, metav1.GetOptions{})
	return found(cm, err, "configmap", r.Namespace+"/"+name)
}

// Request is the VolumeSnapshot of a name. A content may name any text.
func (r Reader) Request(ctx context.Context, namespace, name string) (*snapshotv1.VolumeSnapshot, error) {
	faults := append(validation.IsDNS1123Label(namespace), validation.IsDNS1123Subdomain(name)...)
	if len(faults) > 0 {
		return nil, nil
	}

	o, err := r.Snapshots.SnapshotV1().VolumeSnapshots(namespace).Get(ctx, name, metav1.GetOptions{})

	return found(o, err, "VolumeSnapshot", namespace+"/"+name)
}

// Content is the VolumeSnapshotContent of a name, with the verdict on its record. A VolumeSnapshot may name any text.
func (r Reader) Content(ctx context.Context, name string) (*snapshotv1.VolumeSnapshotContent, error) {
	if faults := validation.IsDNS1123Subdomain(name); len(faults) > 0 {
		return nil, nil
	}

	o, err := r.Snapshots.SnapshotV1().VolumeSnapshotContents().Get(ctx, name, metav1.GetOptions{})
	o, err = found(o, err, "VolumeSnapshotContent", name)
	if o != nil {
		r.RecordKey.MarkContent(o)
	}

	return o, err
}
