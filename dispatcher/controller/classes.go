package controller

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/cache"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/classes"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/versions"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// syncNextClass syncs the next class whose ConfigMaps or StorageClass changed. It returns false once the queue is shut
// down.
func (c *Controller) syncNextClass(ctx context.Context) bool {
	class, shutdown := c.classQueue.Get()
	if shutdown {
		return false
	}

	defer c.classQueue.Done(class)

	r, requeueAfter := c.syncClass(class)
	requeueAfter = sooner(requeueAfter, c.saveLastGood(ctx, class, r))
	if of := c.Cache.Class(class); classes.Ours(of, c.ProvisionerName) {
		requeueAfter = sooner(requeueAfter, c.publishCapacity(ctx, of))
	}

	if requeueAfter > 0 {
		c.classQueue.AddAfter(class, requeueAfter)
	}

	return true
}

// sooner is the shorter of two delays, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}

	return min(a, b)
}

// syncClass puts in force what a class's ConfigMaps come to, records what is wrong with them, and requeues the claims
// that depend on them.
func (c *Controller) syncClass(class string) (r classes.Resolution, requeueAfter time.Duration) {
	now := c.Now()
	before, _ := c.memory.config(class)
	r, requeueAfter = classes.Resolve(class, before, now, classes.Objects{Provisioner: c.ProvisionerName,
		Classes:    cache.All[*storagev1.StorageClass](c.Cache.Classes),
		ConfigMaps: cache.All[*corev1.ConfigMap](c.Cache.ConfigMaps),
		Revisions:  cache.All[*appsv1.ControllerRevision](c.Cache.Revisions)})

	for _, err := range r.Ignored {
		c.Recorder.Log("Ignored a saved version", "err", err)
	}

	c.memory.setConfig(class, r.InForce, r.Problem)
	c.Recorder.Metrics.SetConfigOutdated(class, r.Present, r.Outdated)
	for _, warning := range r.Warnings {
		again := c.Recorder.RecordConfigMap(warning.About, warning.Reason, warning.Text)
		requeueAfter = sooner(requeueAfter, max(again.Sub(now), time.Millisecond))
	}

	c.forgetConfigMaps()
	c.queue.RequeueClasses(func(name string) bool {
		of := c.Cache.Class(name)
		served, _ := classes.ServedAs(name, of, c.ProvisionerName)

		// that goes by the ConfigMaps of its volumes
		return name == class || served == class || !classes.Ours(of, c.ProvisionerName)
	})
	c.endClass(class)

	return r, requeueAfter
}

// classChanged syncs the class and the class whose ConfigMap serves it. It resyncs the class's claims that have no
// volume, and adds the volumes that lost their record.
func (c *Controller) classChanged(class *storagev1.StorageClass, deleted bool) {
	c.classQueue.Add(class.Name)
	if served, _ := configmaps.ServedAs(class.Name, class.Parameters); served != "" {
		c.classQueue.Add(served)
	}

	if deleted || !classes.Ours(class, c.ProvisionerName) {
		return
	}

	// The library drops a claim for good while the cache has its class as another provisioner's.
	for _, claim := range c.Cache.Waiting(class.Name) {
		c.Resync(claim)
	}

	// A volume that lost its record is this dispatcher's by its class alone, which may reach the cache after it.
	for _, v := range c.Cache.WithoutProvisioner(class.Name) {
		uid, _ := podspec.ClaimUIDOf(v.Name)
		c.enqueue(uid, claimNamespace(v))
	}
}

// forgetConfigMaps ends the memory of events of ConfigMaps that do not exist. For provisioner ConfigMaps it is called
// at the end of each sync, and not when one is deleted: a sync that began earlier could record another event after
// that.
func (c *Controller) forgetConfigMaps() {
	c.Recorder.ForgetConfigMaps(func(name string) bool {
		stops := name == contract.StopDeletes && c.Cache.StopDeletes() != nil
		return stops || c.Cache.ConfigMap(name) != nil
	})
}

// saveRetryPeriod is how long after an error a class's last good version and capacity are written again.
const saveRetryPeriod = 30 * time.Second

// saveLastGood saves the valid version of a class's ConfigMap.
func (c *Controller) saveLastGood(
	ctx context.Context, class string, r classes.Resolution,
) (requeueAfter time.Duration) {
	if r.Good == nil {
		return 0
	}

	keeper := versions.Keeper{Reader: c.reader, Writer: c.writer}
	if err := keeper.Keep(ctx, r.Of, r.Good, c.Cache.RevisionsOf(r.Of)); err != nil {
		klog.FromContext(ctx).Error(err, "Could not save the last good version, will retry", "class", class)
		return saveRetryPeriod
	}

	return 0
}

// revisionChanged syncs the class of the ConfigMap that a saved version is of, so that a version that somebody deletes
// is saved again.
func (c *Controller) revisionChanged(revision *appsv1.ControllerRevision, _ bool) {
	if owner := metav1.GetControllerOf(revision); owner != nil {
		if cm := c.Cache.ConfigMap(owner.Name); cm != nil {
			c.classQueue.Add(configmaps.ClassName(cm))
		}
	}
}
