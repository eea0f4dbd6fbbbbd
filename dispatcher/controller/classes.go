package controller

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/cache"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/classes"
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
	maps := slices.DeleteFunc(c.Cache.ConfigMapsOf(class), func(cm *corev1.ConfigMap) bool { return !c.concerns(cm) })
	now := c.Now()
	j, again = classes.Judge(class, maps, c.usesOf(class), c.ProvisionerName, now)
	inForce := c.memory.setConfig(class, j, maps, func() *configmaps.Config { return c.lastKept(class, maps) })
	reminder, old := classes.Outdated(class, maps, j, inForce)
	c.Recorder.Metrics.SetConfigOutdated(class, j.Present, old)
	complaints := j.Complaints
	if old {
		complaints = append([]classes.Complaint{reminder}, complaints...)
	}
	for _, complaint := range complaints {
		if later := c.Recorder.RecordConfigMap(complaint.About, complaint.Reason, complaint.Text).Sub(now); again == 0 || later < again {
			again = max(later, time.Millisecond)
		}
	}
	c.keepConfigMaps()
	c.queue.RequeueClasses(func(name string) bool {
		of := c.Cache.Class(name)
		served, _ := c.servedAs(name, of)
		return name == class || served == class || !c.ours(of) // that goes by the ConfigMaps of its volumes
	})
	c.endClass(class)
	return j, again
}

// ours says that the StorageClass exists and is this dispatcher's. Another provisioner's parameters say nothing here.
func (c *Controller) ours(class *storagev1.StorageClass) bool {
	return class != nil && class.Provisioner == c.ProvisionerName
}

// servedAs is the class whose ConfigMap serves the class of the name, which may be gone.
func (c *Controller) servedAs(name string, class *storagev1.StorageClass) (string, field.ErrorList) {
	return classes.ServedAs(name, class, c.ProvisionerName)
}

func (c *Controller) usesOf(name string) classes.Uses {
	u := classes.Uses{Class: c.Cache.Class(name)}
	if served, _ := c.servedAs(name, u.Class); served != name {
		u.Other = served
	}
	for _, class := range cache.All[*storagev1.StorageClass](c.Cache.Classes) {
		served, _ := c.servedAs(class.Name, class)
		u.Named = u.Named || served == name && class.Name != name
	}
	return u
}

// classChanged judges the ConfigMaps that serve a class again, and hands over the class's claims that have no volume.
func (c *Controller) classChanged(class *storagev1.StorageClass, deleted bool) {
	c.judging.Add(class.Name)
	if served, _ := configmaps.ServedAs(class.Name, class.Parameters); served != "" {
		c.judging.Add(served)
	}
	if deleted || !c.ours(class) {
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

func (c *Controller) concerns(cm *corev1.ConfigMap) bool {
	return classes.Concerns(cm, c.ProvisionerName)
}
