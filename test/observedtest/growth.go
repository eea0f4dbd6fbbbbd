package observedtest

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// Growth is a bound claim in a few words. Sizes are quantities. The volume has 1Gi unless it says otherwise.
type Growth struct {
	// Asked is the claim's request, Has its status.capacity (default 1Gi), Made the volume's capacity (default Has).
	Asked, Has, Made string
	// Status is "", or progress, infeasible, pending, node or broken, and the allocated size.
	Status string
	// Volume is nfs unless it names another source; block; foreign.
	Volume string
	// Pods are as in dispatchertest.Pod, with the size after a colon: "exp-0:2Gi failed".
	Pods []string
	// Also is as in Scene, and unable (the class cannot expand), limited (to 3Gi), deleting (the claim), unbound,
	// released (the claim is gone), no-volume (nor a claim).
	Also string
}

// Observed is what is known of the claim at dispatchertest.Noon.
func (g Growth) Observed() *observed.Claim {
	s := Scene{Claim: "bound", Volume: "fits bound", Also: g.Also}
	if s.has("deleting") {
		s.Claim = "deleting"
	}

	f := s.Observed()
	if f.Config != nil {
		f.Config.Expandable = !s.has("unable")
	}

	if s.has("limited") {
		f.Config.MaxSize = 3 << 30
	}

	g.setClaim(f.Claim)
	if s.has("unbound") {
		f.Claim.Status.Phase = corev1.ClaimPending
	}

	f.Volume.Spec.Capacity = sizes(cmp.Or(g.Made, cmp.Or(g.Has, "1Gi")))
	setVolume(f.Volume, g.Volume)
	f.Claim.Spec.VolumeMode = f.Volume.Spec.VolumeMode
	if s.has("released") {
		f.Claim, f.Volume.Status.Phase = nil, corev1.VolumeReleased
	}

	if s.has("no-volume") {
		f.Claim, f.Volume = nil, nil
	}

	for i, words := range g.Pods {
		name, rest, _ := strings.Cut(words, " ")
		name, size, sized := strings.Cut(name, ":")
		pod := dispatchertest.Pod(name+" "+rest, dispatchertest.Noon.Add(time.Duration(i-len(g.Pods))*time.Minute),
			dispatchertest.Noon.Add(-500*time.Millisecond))
		if sized {
			quantity := resource.MustParse(size)
			pod.Annotations[contract.AnnRequest] = fmt.Sprintf(`{"sizeBytes":%d}`, quantity.Value())
		}

		f.Attempts = append(f.Attempts, observed.NewAttempt(pod, ""))
	}

	return f
}

func (g Growth) setClaim(claim *corev1.PersistentVolumeClaim) {
	claim.Spec.Resources.Requests, claim.Spec.VolumeName = sizes(g.Asked), "pvc-"+dispatchertest.UID
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: sizes(cmp.Or(g.Has, "1Gi"))}
	word, allocated, _ := strings.Cut(g.Status, " ")
	if allocated != "" {
		claim.Status.AllocatedResources = sizes(allocated)
	}

	status, ok := map[string]corev1.ClaimResourceStatus{
		"progress":   corev1.PersistentVolumeClaimControllerResizeInProgress,
		"infeasible": corev1.PersistentVolumeClaimControllerResizeInfeasible,
		"pending":    corev1.PersistentVolumeClaimNodeResizePending,
		"node":       corev1.PersistentVolumeClaimNodeResizeInProgress,
		"broken":     corev1.PersistentVolumeClaimNodeResizeInfeasible}[word]
	if ok {
		claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
			corev1.ResourceStorage: status,
		}
	}

	if word == "progress" {
		claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimResizing,
			Status: corev1.ConditionTrue}}
	}
}

func setVolume(v *corev1.PersistentVolume, words string) {
	v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{}}
	for word := range strings.FieldsSeq(words) {
		switch word {
		case "block":
			mode := corev1.PersistentVolumeBlock
			v.Spec.VolumeMode = &mode
		case "forged":
			v.Annotations[contract.AnnIdentity] = `{"properties":{"zone":"mine"}}`
			delete(v.Annotations, podspec.Verified)
		case "foreign":
			v.Annotations[contract.ProvisionedBy] = "another"
		case "local":
			v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{}}
		case "iscsi":
			v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{}}
		case "csi":
			v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{}}
		default:
			panic("no such volume: " + word)
		}
	}
}

func sizes(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}
