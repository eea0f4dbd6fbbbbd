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
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/cache"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/classes"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/versions"
)

// judgeNext judges the next class whose ConfigMaps or whose StorageClass changed.
func (c *Controller) judgeNext(ctx context.Context) bool {
	class, shutdown := c.judging.Get()
	if shutdown {
		return false
	}
	defer c.judging.Done(class)
	j, again := c.judgeClass(class)
	if later := c.keepGood(ctx, class, j); later > 0 && (again == 0 || later < again) {
		again = later
	}
	if again > 0 {
		c.judging.AddAfter(class, again)
	}
	return true
}

func (c *Controller) judgeClass(class string) (j classes.Judgement, again time.Duration) {
	now := c.Now()
	before, _ := c.memory.config(class)
	j, again = classes.Judge(class, before, now, classes.Objects{Provisioner: c.ProvisionerName,
		Classes:    cache.All[*storagev1.StorageClass](c.Cache.Classes),
		ConfigMaps: cache.All[*corev1.ConfigMap](c.Cache.ConfigMaps),
		Revisions:  cache.All[*appsv1.ControllerRevision](c.Cache.Revisions)})
	for _, err := range j.PassedOver {
		c.Recorder.Log("Passed over a kept version", "err", err)
	}
	c.memory.setConfig(class, j.InForce, j.Problem)
	c.Recorder.Metrics.SetConfigOutdated(class, j.Present, j.Outdated)
	for _, complaint := range j.Complaints {
		if later := c.Recorder.RecordConfigMap(complaint.About, complaint.Reason, complaint.Text).Sub(now); again == 0 || later < again {
			again = max(later, time.Millisecond)
		}
	}
	c.keepConfigMaps()
	c.queue.RequeueClasses(func(name string) bool {
		of := c.Cache.Class(name)
		served, _ := classes.ServedAs(name, of, c.ProvisionerName)
		return name == class || served == class || !classes.Ours(of, c.ProvisionerName) // that goes by the ConfigMaps of its volumes
	})
	c.endClass(class)
	return j, again
}

// classChanged judges the ConfigMaps that serve a class again, and hands over the class's claims that have no volume.
func (c *Controller) classChanged(class *storagev1.StorageClass, deleted bool) {
	c.judging.Add(class.Name)
	if served, _ := configmaps.ServedAs(class.Name, class.Parameters); served != "" {
		c.judging.Add(served)
	}
	if deleted || !classes.Ours(class, c.ProvisionerName) {
		return
	}
	// The library drops a claim for good while the cache has its class as another provisioner's.
	for _, claim := range c.Cache.Waiting(class.Name) {
		c.Resync(claim)
	}
}

// keepConfigMaps forgets what was said of ConfigMaps that do not exist any more. Each end of a ConfigMap leads here: on the end itself,
// a judgement that began before could still say something.
func (c *Controller) keepConfigMaps() {
	c.Recorder.KeepConfigMaps(func(name string) bool {
		return c.Cache.ConfigMap(name) != nil || name == contract.StopDeletes && c.Cache.StopDeletes() != nil
	})
}

// keepAgain is when the last good version is kept again after an error.
const keepAgain = 30 * time.Second

// keepGood keeps what was judged good last of a class's ConfigMap.
func (c *Controller) keepGood(ctx context.Context, class string, j classes.Judgement) (again time.Duration) {
	if j.Good == nil {
		return 0
	}
	keeper := versions.Keeper{Reader: c.reader, Writer: c.writer}
	if err := keeper.Keep(ctx, j.Of, j.Good, c.Cache.RevisionsOf(j.Of)); err != nil {
		klog.FromContext(ctx).Error(err, "Keep the last good version again later", "class", class)
		return keepAgain
	}
	return 0
}

// revisionChanged has the ConfigMap judged again that a kept version is of, so that one that somebody deletes is kept anew.
func (c *Controller) revisionChanged(revision *appsv1.ControllerRevision, _ bool) {
	if owner := metav1.GetControllerOf(revision); owner != nil {
		if cm := c.Cache.ConfigMap(owner.Name); cm != nil {
			c.judging.Add(configmaps.ClassName(cm))
		}
	}
}
