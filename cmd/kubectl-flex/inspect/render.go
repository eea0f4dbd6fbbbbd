package inspect

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reconcile"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// ExampleUID is the UID of claims in examples.
const ExampleUID = "00000000-0000-4000-8000-000000000001"

// ExampleClaim is a claim that the class accepts.
func (o *Objects) ExampleClaim(class, namespace string) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "example"},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
	}
	s := o.observeFor(claim, class)
	if config := s.Config; config != nil {
		if len(config.AccessModes) > 0 {
			claim.Spec.AccessModes = config.AccessModes[:1]
		}
		if len(config.VolumeModes) > 0 {
			claim.Spec.VolumeMode = &config.VolumeModes[0]
		}
		if size := resource.NewQuantity(config.MinSize, resource.BinarySI); config.MinSize > 1<<30 {
			claim.Spec.Resources.Requests[corev1.ResourceStorage] = *size
		}
	}
	return claim
}

// observeFor observes a claim of the class. The claim need not exist.
func (o *Objects) observeFor(claim *corev1.PersistentVolumeClaim, class string) *observed.Claim {
	claim = claim.DeepCopy()
	if claim.UID == "" {
		claim.UID = types.UID(ExampleUID)
	}
	if claim.Namespace == "" {
		claim.Namespace = metav1.NamespaceDefault
	}
	claim.Spec.StorageClassName, claim.Spec.VolumeName = &class, ""
	with := *o
	with.index = nil
	with.Claims = append(slices.Clone(o.Claims), claim)
	with.Pods, with.Volumes = nil, o.Volumes
	s := with.observe(string(claim.UID))
	s.SetVolume(nil)
	s.Wanted, s.PoliciesMissing = true, "" // they do not change the pod
	if s.WaitsForNode() {
		immediate := s.Class.DeepCopy()
		immediate.VolumeBindingMode = nil
		s.Class = immediate // as if the scheduler had chosen a node, whichever
	}
	return s
}

// Render is the first pod that the dispatcher would create for the claim of the class. The signature in its volume is not the
// dispatcher's. The error says why it would create none.
func (o *Objects) Render(claim *corev1.PersistentVolumeClaim, class string) (*corev1.Pod, error) {
	s := o.observeFor(claim, class)
	plan := reconcile.Decide(s)
	if _, ok := reconcile.Find[reconcile.CreatePod](plan); !ok {
		if cause, ok := lastWarning(plan); ok {
			return nil, fmt.Errorf("no pod would be made: %s: %s", cause.Reason, cause.Message)
		}
		if s.Class != nil && s.Class.Provisioner != s.Provisioner {
			return nil, fmt.Errorf("no pod would be made: StorageClass %s has provisioner %s", class, s.Class.Provisioner)
		}
		return nil, fmt.Errorf("no pod would be made")
	}
	pod, err := s.Pod(observed.AttemptSpec{Op: contract.Provision, Node: s.SelectedNode()}, o.Dispatcher.Cluster)
	if err != nil {
		return nil, err
	}
	return pod, nil
}
