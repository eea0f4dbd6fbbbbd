package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

const oddClaims = 10000

var narrowSizes = class{name: "flex-bench-narrow", provisioner: oursClass.provisioner, data: map[string]string{"claim-sizes": "2Gi-3Gi"}}

// runOdd measures what stays in the dispatcher's memory of claims with large odd content that were made and deleted. All are
// refused, so that no pod is made. The same is done once before, with plain claims and with odd ones: Go's maps keep the room
// that they once took, and its heap a part of what it had at its largest.
func runOdd(ctx context.Context, _ settings, r *report) error {
	ctx, cancel := within(ctx, 15*time.Minute, "odd claims")
	defer cancel()
	p, err := startQuietPlane(ctx, narrowSizes)
	if err != nil {
		return err
	}
	defer p.stop()
	d, err := startDispatcher(ctx, p)
	if err != nil {
		return err
	}
	defer d.stop()
	c := fmt.Sprintf("9 what stays: %d claims made and deleted", oddClaims)
	var last, before, refused float64
	for _, round := range []struct {
		what  string
		claim func(i int) (string, runtime.Object)
		seen  float64
	}{
		{"plain", plainClaim, oddClaims}, {"odd", oddClaim, oddClaims / 2},
		{"other odd", func(i int) (string, runtime.Object) { return oddClaim(i + oddClaims) }, oddClaims / 2},
	} {
		refused += round.seen
		after, err := p.comeAndGo(ctx, d, round.claim, refused)
		if err != nil {
			return err
		}
		r.add(figure{Case: c, What: "resident memory after " + round.what + " claims", Unit: "MB"}, after/1e6)
		last, before = before, after
	}
	r.add(figure{Case: c, What: "resident memory, after other odd : before", Unit: "ratio", AtMost: 1.1}, before/last)
	return nil
}

// comeAndGo makes claims, waits until so many have been refused in all, deletes them, and returns the memory that stays.
func (p *plane) comeAndGo(ctx context.Context, d *process, claim func(int) (string, runtime.Object), refused float64) (float64, error) {
	// One by one, so that who watches misses none: removeClaims.
	if err := p.write(ctx, oddClaims, 1, claim); err != nil {
		return 0, err
	}
	line := fmt.Sprintf("flex_provisioner_failures_total{class=%q,reason=\"ClaimRefused\"} %.0f\n", narrowSizes.name, refused)
	if err := d.await(ctx, 2*time.Minute, fmt.Sprintf("%.0f claims refused", refused), d.says(ctx, "/metrics", line)); err != nil {
		return 0, err
	}
	if err := p.removeClaims(ctx, claim); err != nil {
		return 0, err
	}
	for range 3 {
		// The collector would come by itself within minutes.
		if _, err := d.get(ctx, "/debug/pprof/heap?gc=1"); err != nil {
			return 0, err
		}
		if err := pause(ctx, settled); err != nil {
			return 0, err
		}
	}
	now, _, err := d.resident()
	return float64(now), err
}

// removeClaims deletes the claims straight from etcd, each for itself: objects that go in one request have one
// resourceVersion, and a watch that breaks off in their midst goes on behind all of them.
func (p *plane) removeClaims(ctx context.Context, claim func(int) (string, runtime.Object)) error {
	if err := inParallel(ctx, oddClaims, 4, func(i int) error {
		key, _ := claim(i)
		body, err := json.Marshal(map[string][]byte{"key": []byte("/registry/" + key)})
		if err != nil {
			return fmt.Errorf("encode deletion: %w", err)
		}
		return p.ask(ctx, "/v3/kv/deleterange", body)
	}); err != nil {
		return err
	}
	return shown(ctx, 0, p.claims)
}

func plainClaim(i int) (string, runtime.Object) {
	key, o := waitingClaim(i)
	claim := o.(*corev1.PersistentVolumeClaim)
	claim.Spec.StorageClassName = &narrowSizes.name
	return key, claim
}

// oddClaim has all that a tenant can make large or different from all others. Every second one names a class that does not
// exist.
func oddClaim(i int) (string, runtime.Object) {
	_, o := plainClaim(i)
	claim := o.(*corev1.PersistentVolumeClaim)
	text := func(size int) string { return fmt.Sprintf("%d-%s", i, strings.Repeat("odd ", size/4)) }
	claim.Name, claim.UID = fmt.Sprintf("%d-%s", i, strings.Repeat("odd", 60)), claim.UID[:24]+"1"+claim.UID[25:]
	claim.Annotations[contract.AnnCreatedBy] = text(500) + "\x00" + text(500)
	claim.Annotations[contract.AnnCloneRequest] = text(2000)
	claim.Annotations["volume.kubernetes.io/selected-node"] = text(300)
	claim.Annotations[text(40)] = text(1000)
	claim.Labels = map[string]string{fmt.Sprintf("odd-%d", i): fmt.Sprintf("odd-%d", i)}
	claim.Finalizers = append(claim.Finalizers, fmt.Sprintf("example.com/odd-%d", i))
	for range 100 {
		claim.Spec.AccessModes = append(claim.Spec.AccessModes, corev1.ReadWriteMany, corev1.ReadOnlyMany)
	}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(int64(i)+1, resource.BinarySI),
		corev1.ResourceName(fmt.Sprintf("example.com/odd-%d", i)): resource.MustParse("1e30")}
	if i%2 == 1 {
		class := fmt.Sprintf("odd-%d-%s", i, strings.Repeat("odd", 60))
		claim.Spec.StorageClassName = &class
	}
	return "persistentvolumeclaims/" + name + "/" + claim.Name, claim
}
