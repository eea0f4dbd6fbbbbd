package controller

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// publishCapacity tells the scheduler on which nodes the class can be served. The nodes that are left out are asked
// again after a while.
//
// The scheduler does not learn that a claim's node was refused. It may select that node again, without end, since
// nothing has changed in what it knows. It heeds CSIStorageCapacity objects, but only those of a provisioner that has a
// CSIDriver, whose name can have no slash.
func (c *Controller) publishCapacity(ctx context.Context, class *storagev1.StorageClass) (requeueAfter time.Duration) {
	waits := class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	if !waits || strings.Contains(c.ProvisionerName, "/") {
		return 0
	}

	without, requeueAfter := c.memory.refusedBy(class.Name, c.Now())
	if err := c.writer.SetStorageCapacity(ctx, storageCapacity(class, c.SystemNamespace, without)); err != nil {
		klog.FromContext(ctx).Error(err, "Could not tell the scheduler of capacity, will retry", "class", class.Name)
		return saveRetryPeriod
	}

	return requeueAfter
}

// unlimited is the capacity that every claim fits in. What there is, the provisioner alone knows.
var unlimited = resource.MustParse("7Ei")

// storageCapacity says that a class has capacity on all nodes but those. The nodes are known by the label
// kubernetes.io/hostname: one whose label is not its name is not left out. The object goes with its class. Its name
// tells the nodes, since its topology never changes.
func storageCapacity(class *storagev1.StorageClass, namespace string, without []string) *storagev1.CSIStorageCapacity {
	name, on := "class-"+string(class.UID), &metav1.LabelSelector{}
	if len(without) > 0 {
		name += fmt.Sprintf("-%.5x", sha256.Sum256([]byte(strings.Join(without, ","))))
		on.MatchExpressions = []metav1.LabelSelectorRequirement{
			{Key: corev1.LabelHostname, Operator: metav1.LabelSelectorOpNotIn, Values: without},
		}
	}

	owner := metav1.OwnerReference{
		APIVersion: storagev1.SchemeGroupVersion.String(), Kind: "StorageClass", Name: class.Name, UID: class.UID,
	}

	return &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, OwnerReferences: []metav1.OwnerReference{owner},
		},
		StorageClassName: class.Name, NodeTopology: on, Capacity: &unlimited,
	}
}
