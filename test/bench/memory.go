package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

const (
	inFlight    = 10000
	manyVolumes = 50000
	// settled is how long after it has taken everything in the dispatcher's memory is read: by then Go has given back
	// what only the first lists took.
	settled = 30 * time.Second
)

// runMemory is case 6.
func runMemory(ctx context.Context, _ settings, r *report) error {
	ctx, cancel := within(ctx, 20*time.Minute, "memory")
	defer cancel()
	if err := claimsInFlight(ctx, r); err != nil {
		return err
	}
	return boundVolumes(ctx, r)
}

// claimsInFlight lets the dispatcher make a pod for each of 10,000 claims, all of which hang, and restarts it.
func claimsInFlight(ctx context.Context, r *report) error {
	p, err := startQuietPlane(ctx, hangsClass)
	if err != nil {
		return err
	}
	defer p.stop()
	if err := p.put(ctx, inFlight, waitingClaim, p.claims); err != nil {
		return err
	}
	o := newObserver()
	player := startPlayer(ctx, p, o, map[string]act{hangsClass.name: hang})
	if err := o.start(ctx, p.admin); err != nil {
		return err
	}
	defer func() { o.end(); player.end() }()
	d, err := startDispatcher(ctx, p)
	if err != nil {
		return err
	}
	defer func() { d.stop() }()
	if err := podsMade(ctx, o); err != nil {
		return err
	}
	c := fmt.Sprintf("6 memory and start: %d claims in flight", inFlight)
	if err := addMemory(ctx, r, d, figure{Case: c, What: "resident memory", Unit: "MB", AtMost: 120}); err != nil {
		return err
	}
	d.stop()
	before, _, err := p.requests(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	if d, err = launchDispatcher(p); err != nil {
		return err
	}
	if err := d.adopted(ctx, hangsClass.name, inFlight); err != nil {
		return err
	}
	r.add(figure{Case: c, What: "restart: process started to all adopted", Unit: "s", AtMost: 5}, time.Since(start).Seconds())
	if err := addMemory(ctx, r, d, figure{Case: c, What: "resident memory after the restart", Unit: "MB", AtMost: 120}); err != nil {
		return err
	}
	after, _, err := p.requests(ctx)
	if err != nil {
		return err
	}
	again := after.since(before)
	r.add(figure{Case: c, What: "restart: writes", Unit: "count", Note: again.per(1)}, writes(again))
	o.mu.Lock()
	defer o.mu.Unlock()
	twice := 0
	for _, course := range o.courses {
		if course.pods != 1 {
			twice++
		}
	}
	r.add(figure{Case: c, What: "claims that did not get exactly one pod", Unit: "count", AtMost: 0.5}, float64(twice))
	return nil
}

func podsMade(ctx context.Context, o *observer) error {
	ctx, cancel := within(ctx, 4*time.Minute, fmt.Sprintf("%d pods", inFlight))
	defer cancel()
	return o.until(ctx, "pods", o.all(inFlight, hangsClass.name, podMade))
}

// boundVolumes starts the dispatcher beside 50,000 volumes that are bound.
func boundVolumes(ctx context.Context, r *report) error {
	p, err := startQuietPlane(ctx, hangsClass)
	if err != nil {
		return err
	}
	defer p.stop()
	if err := p.put(ctx, manyVolumes, boundClaim, p.claims); err != nil {
		return err
	}
	if err := p.put(ctx, manyVolumes, boundVolume, p.volumes); err != nil {
		return err
	}
	start := time.Now()
	d, err := startDispatcher(ctx, p)
	if err != nil {
		return err
	}
	defer d.stop()
	c := fmt.Sprintf("6 memory and start: %d bound volumes", manyVolumes)
	if err := d.logged(ctx, "Dispatching"); err != nil {
		return err
	}
	r.add(figure{Case: c, What: "process started to dispatching", Unit: "s"}, time.Since(start).Seconds())
	return addMemory(ctx, r, d, figure{Case: c, What: "resident memory", Unit: "MB", AtMost: 200})
}

func addMemory(ctx context.Context, r *report, d *process, f figure) error {
	if err := pause(ctx, settled); err != nil {
		return err
	}
	now, most, err := d.resident()
	if err != nil {
		return err
	}
	r.add(f, float64(now)/1e6)
	f.AtMost, f.What = 0, f.What+", the most so far"
	r.add(f, float64(most)/1e6)
	fmt.Fprintf(os.Stderr, "bench: %s: %s: %.0f MB, the most %.0f MB\n", f.Case, f.What, float64(now)/1e6, float64(most)/1e6)
	return nil
}

// adopted waits until the dispatcher's own metrics count n pods of the class.
func (d *process) adopted(ctx context.Context, class string, n int) error {
	line := fmt.Sprintf("flex_provisioner_pods{class=%q} %d\n", class, n)
	return d.await(ctx, 2*time.Minute, fmt.Sprintf("%d pods adopted", n), d.says(ctx, "/metrics", line))
}

// logged waits for a text in the dispatcher's log.
func (d *process) logged(ctx context.Context, text string) error {
	return d.await(ctx, 2*time.Minute, fmt.Sprintf("%q in the log", text), func() bool {
		log, err := os.ReadFile(d.log)
		return err == nil && strings.Contains(string(log), text)
	})
}

func uidOf(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", i) }

// metaOf is what an object of a real cluster has beside its name.
func metaOf(namespace, name string, uid types.UID) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid, CreationTimestamp: metav1.Now(),
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{".":{}}},"f:spec":{"f:accessModes":{},"f:resources":{"f:requests":{".":{},"f:storage":{}}}}}`)}}}
}

func waitingClaim(i int) (string, runtime.Object) {
	claim := newClaim(fmt.Sprintf("%s-%d", hangsClass.name, i), hangsClass.name)
	spec := claim.Spec
	mode := corev1.PersistentVolumeFilesystem
	spec.VolumeMode = &mode
	claim = &corev1.PersistentVolumeClaim{ObjectMeta: metaOf(name, claim.Name, types.UID(uidOf(i))), Spec: spec,
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}}
	claim.Finalizers = []string{"kubernetes.io/pvc-protection"}
	claim.Annotations = map[string]string{"volume.kubernetes.io/storage-provisioner": hangsClass.provisioner, "volume.beta.kubernetes.io/storage-provisioner": hangsClass.provisioner}
	return "persistentvolumeclaims/" + name + "/" + claim.Name, claim
}

func boundClaim(i int) (string, runtime.Object) {
	key, o := waitingClaim(i)
	claim := o.(*corev1.PersistentVolumeClaim)
	claim.Spec.VolumeName = podspec.VolumeName(uidOf(i))
	claim.Annotations["pv.kubernetes.io/bind-completed"], claim.Annotations["pv.kubernetes.io/bound-by-controller"] = "yes", "yes"
	claim.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"annotations":{},"name":"` +
		claim.Name + `","namespace":"flex-bench"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},"storageClassName":"flex-bench-hangs"}}`
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests}
	return key, claim
}

func boundVolume(i int) (string, runtime.Object) {
	uid := uidOf(i)
	r := contract.Request{VolumeName: podspec.VolumeName(uid), Claim: contract.Claim{Namespace: name, Name: fmt.Sprintf("%s-%d", hangsClass.name, i), UID: uid},
		StorageClass: hangsClass.name, SizeBytes: gibibyte.Value(), AccessModes: []string{"ReadWriteOnce"}, VolumeMode: "Filesystem",
		Identity: contract.Identity{Properties: map[string]string{"zone": "west", "use-nfs-server": "10.10.2.4"}, Parameters: map[string]string{"pool": "silver"}}}
	volume, err := podspec.Skeleton(r, podspec.ClassFields{Provisioner: hangsClass.provisioner, ReclaimPolicy: corev1.PersistentVolumeReclaimDelete, ConfigStamp: "flex-bench-hangs/123@0123456789abcdef"})
	if err != nil {
		panic(err) // the identity cannot be encoded: a mistake in the lines above
	}
	annotations, finalizers := volume.Annotations, append(volume.Finalizers, "kubernetes.io/pv-protection")
	volume.ObjectMeta = metaOf("", volume.Name, types.UID("volume-"+uid))
	volume.Annotations, volume.Finalizers = annotations, finalizers
	volume.Spec.NFS = &corev1.NFSVolumeSource{Server: "10.10.2.4", Path: "/export/" + volume.Name}
	volume.Status.Phase = corev1.VolumeBound
	return "persistentvolumes/" + volume.Name, volume
}
