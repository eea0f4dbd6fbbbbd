package dispatcher

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/flex-provisioner/flex-provisioner/audit"
)

// auditPeriod is how often the dispatcher audits what its caches hold. What it finds has been so for an hour at least.
const auditPeriod = time.Hour

// auditing audits for ever. Unlike the command of that name it sees neither Secrets nor the storage.
func (d *Dispatcher) auditing(ctx context.Context) {
	ticker := time.NewTicker(auditPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			d.audit(time.Now())
		}
	}
}

// audit sets the metric to what is found now, and tells once of each finding.
func (d *Dispatcher) audit(now time.Time) {
	counts, found := map[audit.Kind]int{}, map[string]bool{}
	for _, f := range audit.Compare(audit.State{Now: now, Provisioner: d.options.ProvisionerName, Objects: audit.Objects{
		Claims:  cached[*corev1.PersistentVolumeClaim](d.caches.claims.GetStore()),
		Volumes: cached[*corev1.PersistentVolume](d.caches.volumes.GetStore()),
		Pods:    cached[*corev1.Pod](d.caches.pods.GetStore()),
	}}) {
		counts[f.Kind]++
		key := fmt.Sprintf("%s/%s", f.Kind, f.Name)
		if found[key] = true; d.found[key] {
			continue
		}
		d.recorder.Eventf(f.About, corev1.EventTypeWarning, string(ReasonOrphan), "%s; to remove or mend it: %s", f.Why, f.Command)
		d.log.Info("Reported", "reason", ReasonOrphan, "kind", f.Kind, "name", f.Name, "message", f.Why)
	}
	d.found = found
	for _, kind := range []audit.Kind{audit.Pod, audit.Released, audit.Unprotected} {
		d.metrics.orphans.WithLabelValues(string(kind)).Set(float64(counts[kind]))
	}
}

func cached[T any](store cache.Store) []T {
	objects := store.List()
	list := make([]T, len(objects))
	for i, obj := range objects {
		list[i] = obj.(T)
	}
	return list
}
