package dispatcher

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// gather collects from the caches what is known about a UID.
func (d *Dispatcher) gather(class, uid string) (*facts, error) {
	f := &facts{now: time.Now(), uid: uid, class: class}
	claims, err := d.caches.claims.GetIndexer().ByIndex(byUID, uid)
	if err != nil {
		return nil, fmt.Errorf("look up claim %s: %w", uid, err)
	}
	if len(claims) > 0 {
		f.claim = claims[0].(*corev1.PersistentVolumeClaim)
	}
	if obj, ok, _ := d.caches.volumes.GetStore().GetByKey(podspec.VolumeName(uid)); ok {
		f.volume = obj.(*corev1.PersistentVolume)
	}
	if obj, ok, _ := d.caches.classes.GetStore().GetByKey(class); ok {
		f.terms = obj.(*storagev1.StorageClass)
	}
	if err := d.gatherPods(f); err != nil {
		return nil, err
	}
	f.config, f.configProblem = d.configs.get(class)
	f.uncontained = d.Lacks()
	d.gatherIntake(f)
	return f, nil
}

func (d *Dispatcher) gatherPods(f *facts) error {
	pods, err := d.caches.pods.GetIndexer().ByIndex(byClaimUID, f.uid)
	if err != nil {
		return fmt.Errorf("look up pods of claim %s: %w", f.uid, err)
	}
	for _, obj := range pods {
		pod := obj.(*corev1.Pod)
		if _, _, _, ok := podspec.ParseName(pod.Name); !ok {
			continue
		}
		a := newAttempt(pod, d.troubles.of(pod.UID))
		if slices.Contains(pod.Finalizers, contract.PodFinalizer) || !a.outcome.Final() {
			f.attempts = append(f.attempts, a)
		} else {
			f.kept = append(f.kept, a)
		}
	}
	sortAttempts(f.attempts)
	sortAttempts(f.kept)
	return nil
}

func (d *Dispatcher) gatherIntake(f *facts) {
	var released types.UID
	f.wanted, released = d.intake.get(f.uid)
	f.released = f.volume != nil && f.volume.UID == released && awaitsDeletion(f.volume)
}

// confirm replaces what the caches say of the claim and its volume by what the API server says now. A cache may lag by
// any time: a claim that was bound and deleted meanwhile would otherwise be provisioned a second time.
func (d *Dispatcher) confirm(ctx context.Context, f *facts) error {
	var volume *corev1.PersistentVolume
	var claim *corev1.PersistentVolumeClaim
	var noVolume, noClaim error
	var both sync.WaitGroup
	both.Go(func() {
		volume, noVolume = d.client.CoreV1().PersistentVolumes().Get(ctx, podspec.VolumeName(f.uid), metav1.GetOptions{})
	})
	if f.claim != nil {
		claim, noClaim = d.client.CoreV1().PersistentVolumeClaims(f.claim.Namespace).Get(ctx, f.claim.Name, metav1.GetOptions{})
	}
	both.Wait()
	switch {
	case apierrors.IsNotFound(noVolume):
		f.volume = nil
	case noVolume != nil:
		return fmt.Errorf("get volume %s: %w", podspec.VolumeName(f.uid), noVolume)
	default:
		f.volume = volume
	}
	switch {
	case f.claim == nil:
	case apierrors.IsNotFound(noClaim):
		f.claim = nil
	case noClaim != nil:
		return fmt.Errorf("get claim %s/%s: %w", f.claim.Namespace, f.claim.Name, noClaim)
	case string(claim.UID) != f.uid:
		f.claim = nil // deleted, and another one has its name
	default:
		f.claim = claim
	}
	d.gatherIntake(f)
	return nil
}

// vanished says that the API server no longer has the volume. In doubt it says no.
func (d *Dispatcher) vanished(ctx context.Context, v *corev1.PersistentVolume) bool {
	now, err := d.client.CoreV1().PersistentVolumes().Get(ctx, v.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && now.UID != v.UID
}
