package dispatcher

import (
	"context"
	"errors"
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
	// The state of the intake comes first: what is handed over later has to be newer than what the caches show here.
	f := &facts{now: time.Now(), uid: uid, class: class, provisioner: d.options.ProvisionerName, key: d.options.RecordKey, seen: d.intake.state()}
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
	d.gatherOrigin(f)
	for _, pod := range d.podsOf(f.uid) {
		d.take(f, pod)
	}
	sortAttempts(f.attempts)
	sortAttempts(f.kept)
	f.config, f.configProblem = d.configs.get(class)
	f.uncontained = d.Lacks()
	d.gatherIntake(f)
	d.gatherGuard(f)
	return f, nil
}

// take adds a pod to the facts: as an attempt, or as one that is kept for its logs or its number.
func (d *Dispatcher) take(f *facts, pod *corev1.Pod) {
	if _, _, _, ok := podspec.ParseName(pod.Name); !ok {
		return
	}
	d.intake.arrived(f.uid, pod)
	a := newAttempt(pod, d.troubles.of(pod.UID))
	if !podspec.Settled(pod) || !a.outcome.Final() {
		f.attempts = append(f.attempts, a)
	} else {
		f.kept = append(f.kept, a)
	}
}

func (d *Dispatcher) gatherIntake(f *facts) {
	var released types.UID
	f.wanted, released = d.intake.get(f.uid)
	f.released = f.volume != nil && f.volume.UID == released && awaitsDeletion(f.volume)
}

// unseenFor is how long a pod that was created may take to reach the cache before the API server is asked for it.
const unseenFor = 2 * time.Second

// unseen says that the cache does not show the pod that was created last, so that nothing can be decided: another pod
// could be ordered beside it. Its arrival brings the UID back here. One that never arrives has come and gone between two
// lists, which is remembered until another one is made.
func (d *Dispatcher) unseen(ctx context.Context, f *facts) (bool, error) {
	name := d.intake.awaited(f.uid)
	if name == "" {
		return false, nil
	}
	pod, err := d.client.CoreV1().Pods(d.cluster.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		f.missed = true
		return false, nil
	case err != nil:
		return false, fmt.Errorf("get pod %s/%s: %w", d.cluster.Namespace, name, err)
	}
	d.intake.expect(f.uid, pod) // what was not answered when it was created
	known := func(a attempt) bool { return a.pod.UID == pod.UID }
	return !slices.ContainsFunc(f.attempts, known) && !slices.ContainsFunc(f.kept, known), nil
}

// confirm replaces what the caches say of the claim, its volume and its pods by what the API server says now. A cache may
// lag by any time: a claim that was bound and deleted meanwhile would otherwise be provisioned a second time, a delete could
// be ordered beside a provision of the former leader, and what another leader made for a claim that the cache does not
// show yet be undone. Volume and pods are asked for only where the cache knows of pods, or missed one: while a claim waits
// its first pod stays, also after its volume is made, so that who knows of none is about to take a name that is taken. No
// pod stays after an expansion, so that for the next one they are always listed.
//
// One of the reads may have taken long, because the client tried it again, and the others be old by then: they are all
// made again, but not for ever, since the API server may be slow throughout.
func (d *Dispatcher) confirm(ctx context.Context, f *facts, o *order) error {
	for try := 1; ; try++ {
		began := time.Now()
		if err := d.confirmOnce(ctx, f, o); err != nil || try == 3 || time.Since(began) < fresh {
			return err
		}
	}
}

// fresh is how old what was confirmed may be when it is acted on.
const fresh = time.Second

func (d *Dispatcher) confirmOnce(ctx context.Context, f *facts, o *order) error {
	var faults [4]error
	var all sync.WaitGroup
	claim, known := f.whose(), f.missed || len(f.attempts)+len(f.kept) > 0 || f.volume != nil && f.growable()
	if claim != nil {
		all.Go(func() { claim, faults[1] = d.liveClaim(ctx, claim) })
	}
	if known || o == nil || o.op != contract.Provision {
		all.Go(func() { faults[0] = d.confirmVolume(ctx, f) })
	}
	if known {
		all.Go(func() { faults[2] = d.confirmPods(ctx, f) })
	}
	if o != nil && o.op == contract.Delete {
		all.Go(func() { faults[3] = d.confirmStop(ctx, f) })
	}
	all.Wait()
	f.claim = claim
	d.gatherOrigin(f)
	d.gatherIntake(f)
	return errors.Join(faults[:]...)
}

// whose is the claim, or where the cache shows none its name and UID as the newest pod has them; nil where none has.
func (f *facts) whose() *corev1.PersistentVolumeClaim {
	if f.claim != nil {
		return f.claim
	}
	newest, ok := last(f.attempts)
	if !ok {
		return nil
	}
	request, err := podspec.RequestOf(newest.pod)
	if err != nil || request.Claim.UID != f.uid {
		return nil
	}
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: request.Claim.Namespace, Name: request.Claim.Name, UID: types.UID(f.uid)}}
}

func (d *Dispatcher) confirmVolume(ctx context.Context, f *facts) error {
	name := podspec.VolumeName(f.uid)
	volume, err := d.client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		f.volume = nil
	case err != nil:
		return fmt.Errorf("get volume %s: %w", name, err)
	default:
		d.options.RecordKey.Mark(volume)
		volume.Spec.AccessModes = distinct(volume.Spec.AccessModes)
		f.volume = volume
	}
	return nil
}

// liveClaim is the claim as it is now, nil where it is gone or another one has its name.
func (d *Dispatcher) liveClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error) {
	now, err := d.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Get(ctx, claim.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && now.UID != claim.UID:
		return nil, nil
	case err != nil:
		return claim, fmt.Errorf("get claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	now.Spec.AccessModes = distinct(now.Spec.AccessModes)
	return now, nil
}

func (d *Dispatcher) confirmPods(ctx context.Context, f *facts) error {
	list, err := d.client.CoreV1().Pods(d.cluster.Namespace).List(ctx, metav1.ListOptions{LabelSelector: contract.LabelClaimUID + "=" + f.uid})
	if err != nil {
		return fmt.Errorf("list pods of claim %s: %w", f.uid, err)
	}
	f.attempts, f.kept = nil, nil
	for i := range list.Items {
		d.take(f, &list.Items[i])
	}
	sortAttempts(f.attempts)
	sortAttempts(f.kept)
	return nil
}
