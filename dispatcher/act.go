package dispatcher

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// look is one look at a claim's UID: gather, decide, act. It is never called twice at once for one UID.
func (d *Dispatcher) look(ctx context.Context, class, uid string) (time.Duration, error) {
	if d.slots.isKept(class, uid) {
		defer d.slots.looked(class, uid)
	}
	f, err := d.gather(class, uid)
	if err != nil {
		return 0, err
	}
	if unseen, err := d.unseen(ctx, f); err != nil || unseen {
		return unseenFor, err
	}
	p := decide(f)
	d.yield(f, &p)
	if p.check {
		if err := d.confirmVolume(ctx, f); err != nil {
			return 0, err
		}
		p = decide(f)
	}
	d.awaitTurn(f, &p)
	if p.confirm {
		if err := d.confirm(ctx, f, p.create); err != nil {
			return 0, err
		}
		p = decide(f)
	}
	d.noteHeld(f, p.held)
	if err := d.act(ctx, f, p); err != nil {
		return 0, err
	}
	if err := d.sweep(ctx, f, &p); err != nil {
		return 0, err
	}
	if p.forget && len(f.kept) == 0 && d.forget(f) {
		return 0, nil
	}
	if p.again.IsZero() {
		return 0, nil
	}
	return max(p.again.Sub(f.now), time.Millisecond), nil
}

// act carries out a plan in the order of its fields. Each step may be the last before the process dies; the next look
// finds what was done and goes on from there.
func (d *Dispatcher) act(ctx context.Context, f *facts, p plan) error {
	for _, r := range p.reports {
		d.tell(ctx, f, r)
	}
	if p.mend != nil {
		if err := d.mend(ctx, f.volume, p.mend); err != nil {
			return err
		}
	}
	if p.cloneOf != "" {
		if err := d.answerClone(ctx, f.claim, p.cloneOf); err != nil {
			return err
		}
	}
	if p.grow != nil {
		if err := d.grow(ctx, f.volume, p.grow); err != nil {
			return err
		}
	}
	if p.mark != nil {
		if err := d.mark(ctx, f, p.mark); err != nil {
			return err
		}
	}
	if p.create != nil {
		if err := d.start(ctx, f, p.create); err != nil {
			return err
		}
	}
	for _, pod := range p.stop {
		if err := d.deletePod(ctx, pod); err != nil {
			return err
		}
	}
	if p.dropVolume && !d.intake.isDropped(f.uid, f.volume.UID) {
		d.guard.remove(f.volume.UID, f.now)
		if err := d.dropVolume(ctx, f.volume); err != nil {
			return err
		}
		d.intake.drop(f.uid, f.volume.UID)
	}
	if p.reschedule {
		d.intake.unwant(f.uid)
		if err := d.reschedule(ctx, f.claim); err != nil {
			return err
		}
	}
	for _, pod := range p.settle {
		if err := d.settle(ctx, pod, keepFor(f, pod)); err != nil {
			return err
		}
	}
	for _, pod := range p.retire {
		if err := d.settle(ctx, pod, max(keepFor(f, pod), f.holds(pod))); err != nil {
			return err
		}
	}
	if p.handOver {
		d.caches.claims.kick(f.claim)
	}
	return nil
}

// holds is how long a pod has to stay for its number alone: for ever, if it is the first or the newest of a claim that
// waits, or the first of deletes that have not come to an end. Who knows of none of them finds the name taken.
func (f *facts) holds(pod *corev1.Pod) time.Duration {
	a := newAttempt(pod, "")
	if f.waiting() && (a.number == 0 || f.newest(a)) || a.op == contract.Delete && a.number == 0 && len(f.of(contract.Delete)) > 0 {
		return forItsName
	}
	return 0
}

// forItsName is for how long a pod stays whose name must not be free.
const forItsName = time.Duration(math.MaxInt64)

// start creates the pod of an order. Its name is the lock: who finds it taken has lost nothing, and watches the pod that
// is there.
func (d *Dispatcher) start(ctx context.Context, f *facts, o *order) error {
	made, err := d.attemptOf(f, o)
	if err != nil {
		return d.refused(ctx, f, o, err)
	}
	pod, err := podspec.Build(made, d.cluster)
	if err != nil {
		return d.refused(ctx, f, o, err)
	}
	if o.op == contract.Provision && o.record != nil || o.suspect {
		pod.Annotations[contract.AnnSuspect] = "true"
	}
	if f.config.NodeLocal && o.node != "" {
		pod.Annotations[contract.AnnNode] = o.node
	}
	if o.op == contract.Delete && f.volume != nil && !f.released {
		pod.Annotations[contract.AnnUndo] = "true"
	}
	if !d.slots.take(f.class, d.lanes.namespace(f.uid), f.uid, pod.Name, f.config.MaxConcurrent) {
		d.lanes.poke(f.uid) // another one took it meanwhile: this one waits, and says so in time
		return nil
	}
	logger := klog.FromContext(ctx)
	d.intake.expect(f.uid, pod)
	created, err := d.createPod(ctx, pod)
	switch {
	case err == nil:
		d.intake.expect(f.uid, created)
		logger.Info("Created provisioner pod", "pod", klog.KObj(pod), "PVC", klog.KRef(made.Request.Claim.Namespace, made.Request.Claim.Name), "StorageClass", f.class)
		d.metrics.attempts.WithLabelValues(f.class, string(o.op)).Inc()
		if o.op == contract.Delete && f.released && old(f.volume, f.now) {
			d.guard.order(f.class, f.uid, f.now)
		}
	case apierrors.IsAlreadyExists(err):
		logger.V(4).Info("Found provisioner pod", "pod", klog.KObj(pod))
		d.freeEnded(f.class, pod)
	default:
		d.slots.free(f.class, pod.Name)
		return d.refused(ctx, f, o, fmt.Errorf("create pod %s/%s: %w", pod.Namespace, pod.Name, err))
	}
	d.intake.clear(f.uid) // what kept the claim waiting is over; if it comes again, it is told again
	for _, old := range o.replaces {
		keep := time.Duration(0)
		if _, _, number, _ := podspec.ParseName(old.Name); number == 0 {
			keep = f.holds(old)
		}
		if err := d.settle(ctx, old, keep); err != nil {
			return err
		}
	}
	return nil
}

// createPod sends the order once. The client would send it again a second or more after an answer of 429, when what was
// confirmed before it need not be so any more.
func (d *Dispatcher) createPod(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	created := &corev1.Pod{}
	return created, d.client.CoreV1().RESTClient().Post().MaxRetries(0).Namespace(pod.Namespace).Resource("pods").Body(pod).Do(ctx).Into(created)
}

// freeEnded gives the slot of a pod back that was found to exist, and whose end was heard of before the slot was taken: no
// later event would free it. The cache is written before an event is heard.
func (d *Dispatcher) freeEnded(class string, pod *corev1.Pod) {
	obj, ok, _ := d.caches.pods.GetStore().GetByKey(pod.Namespace + "/" + pod.Name)
	if ok && podspec.OutcomeOf(obj.(*corev1.Pod)).Final() {
		d.slots.free(class, pod.Name)
	}
}

// refused tells that no pod could be made. The error is returned too, so that the lane looks again, with growing delays.
func (d *Dispatcher) refused(ctx context.Context, f *facts, o *order, err error) error {
	r := report{on: onClaim, pod: o.record, warning: true, reason: ReasonPodRefused, message: podspec.Clean(err.Error())}
	r.key = "refused-pod/" + r.message
	if o.op == contract.Delete && f.volume != nil {
		r.on = onVolume
	} else if f.claim == nil {
		r.on = onPod
	}
	d.tell(ctx, f, r)
	return err
}

// keepFor is how long a pod stays for its logs after its outcome has been acted on.
func keepFor(f *facts, pod *corev1.Pod) time.Duration {
	if f.config == nil || podspec.OutcomeOf(pod).Phase != podspec.Failed {
		return 0
	}
	return f.config.FailedPodTTL
}

// sweep removes kept pods whose time is over.
func (d *Dispatcher) sweep(ctx context.Context, f *facts, p *plan) error {
	for _, a := range f.kept {
		if f.holds(a.pod) > 0 {
			continue
		}
		until := a.outcome.Finished.Add(keepFor(f, a.pod))
		if f.now.Before(until) {
			p.look(until)
		}
		if err := d.settle(ctx, a.pod, until.Sub(f.now)); err != nil {
			return err
		}
	}
	return nil
}

// settle ends an attempt whose outcome has been acted on. The finalizer goes first: a pod that is being deleted with
// its finalizer would look like one that somebody else took away.
func (d *Dispatcher) settle(ctx context.Context, pod *corev1.Pod, keep time.Duration) error {
	d.intake.untell(string(pod.Labels[contract.LabelClaimUID]), pod.Name)
	var err error
	switch {
	case keep == forItsName && podspec.Settled(pod):
		return nil
	case keep == forItsName:
		err = d.patchPod(ctx, pod, map[string]any{"uid": pod.UID, "annotations": map[string]any{contract.AnnSettled: "true"}})
	case slices.Contains(pod.Finalizers, contract.PodFinalizer):
		patch := withoutFinalizer(pod.UID, contract.PodFinalizer)
		if keep == 0 {
			patch = unmanaged(patch)
		}
		err = d.patchPod(ctx, pod, patch)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil || pod.DeletionTimestamp != nil || keep > 0:
		return err
	}
	return d.deletePod(ctx, pod)
}

func (d *Dispatcher) patchPod(ctx context.Context, pod *corev1.Pod, metadata map[string]any) error {
	patch, err := patchOf(metadata)
	if err == nil {
		err = d.patch(ctx, "pods", pod, patch)
	}
	if err != nil {
		return fmt.Errorf("settle pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// patch does not decode the object that comes back, which would be a good part of what a claim costs here.
func (d *Dispatcher) patch(ctx context.Context, resource string, object metav1.Object, patch []byte) error {
	namespace := object.GetNamespace()
	return d.client.CoreV1().RESTClient().Patch(types.StrategicMergePatchType).NamespaceIfScoped(namespace, namespace != "").
		Resource(resource).Name(object.GetName()).Body(patch).Do(ctx).Error()
}

// withoutFinalizer is for a strategic merge patch that takes one finalizer off and leaves what others add or take
// meanwhile. The UID makes it fail on a later object of the same name.
func withoutFinalizer(uid types.UID, name string) map[string]any {
	return map[string]any{"uid": uid, "$deleteFromPrimitiveList/finalizers": []string{name}}
}

// unmanaged makes the API server forget who wrote which field, which spares it the comparison of all fields. It is for the last
// write to an object.
func unmanaged(metadata map[string]any) map[string]any {
	metadata["managedFields"] = []any{map[string]any{}}
	return metadata
}

func patchOf(metadata map[string]any) ([]byte, error) {
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	return patch, nil
}

// deletePod asks once: until the cache shows that the pod is being deleted, or gone, other looks would ask again.
func (d *Dispatcher) deletePod(ctx context.Context, pod *corev1.Pod) error {
	if d.intake.isRemoved(pod.UID) {
		return nil
	}
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}
	if podspec.OutcomeOf(pod).Final() {
		none := int64(0) // nothing runs any more that would need time to end
		options.GracePeriodSeconds = &none
	}
	d.intake.remove(pod.UID) // before the answer, which may come after the pod's end
	err := d.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
	if err != nil {
		d.intake.gone(pod.UID)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// dropVolume removes a volume after its storage is gone. The library would do it too, if Delete told it so; but its cache
// lags behind its own writes, so that it deletes one volume in four twice.
func (d *Dispatcher) dropVolume(ctx context.Context, v *corev1.PersistentVolume) error {
	volumes := d.client.CoreV1().PersistentVolumes()
	err := volumes.Delete(ctx, v.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &v.UID}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete volume %s: %w", v.Name, err)
	}
	patch, err := patchOf(unmanaged(withoutFinalizer(v.UID, contract.VolumeFinalizer)))
	if err != nil {
		return fmt.Errorf("take finalizer off volume %s: %w", v.Name, err)
	}
	err = d.patch(ctx, "persistentvolumes", v, patch)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("take finalizer off volume %s: %w", v.Name, err)
	}
	return nil
}

// reschedule asks the scheduler for another node. The resource version makes sure that it is this choice that is undone.
func (d *Dispatcher) reschedule(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	patch, err := patchOf(map[string]any{"resourceVersion": claim.ResourceVersion, "annotations": map[string]any{annSelectedNode: nil}})
	if err != nil {
		return fmt.Errorf("take selected node off claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	_, err = d.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("take selected node off claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}
