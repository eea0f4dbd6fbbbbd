package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/cache"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// classGrace is how long a ConfigMap may exist before its class without a word: they are applied together.
const classGrace = 5 * time.Second

// judgement is what the ConfigMaps of one class come to.
type judgement struct {
	// present says that there is a ConfigMap.
	present bool
	// good is what ConfigMap of says, where it is the only one and without faults.
	good *configmaps.Config
	of   *corev1.ConfigMap
	// problem is for users, complaints are for the administrators who look at the ConfigMaps.
	problem    string
	complaints []complaint
}

type complaint struct {
	about  *corev1.ConfigMap
	reason podspec.Reason
	text   string
}

// uses are the StorageClasses that a class's ConfigMap is for.
type uses struct {
	// class is the one of its name, or nil.
	class *storagev1.StorageClass
	// other is the class whose ConfigMap serves class, empty for its own.
	other string
	// named says that another StorageClass names this one as the class whose ConfigMap serves it.
	named bool
}

// judge is pure: all ConfigMaps for one class, in any order, and what they are for. again is after which time to judge again.
func judge(name string, maps []*corev1.ConfigMap, u uses, provisioner string, now time.Time) (j judgement, again time.Duration) {
	j.present = len(maps) > 0
	if len(maps) > 1 {
		slices.SortFunc(maps, func(a, b *corev1.ConfigMap) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
		j.problem = fmt.Sprintf("class %q has %d provisioner ConfigMaps, %s among them: an administrator has to remove all but one", name, len(maps), maps[0].Name)
		for _, cm := range maps {
			j.complaints = append(j.complaints, complaint{cm, events.ReasonConfigDuplicate, j.problem})
		}
		return j, 0
	}
	if len(maps) == 0 {
		return j, 0
	}
	cm := maps[0]
	config, faults := configmaps.Parse(cm)
	if len(faults) > 0 {
		j.problem = fmt.Sprintf("the provisioner ConfigMap %s of class %q is invalid: an administrator finds the faults in its events", cm.Name, name)
		j.complaints = append(j.complaints, complaint{cm, events.ReasonConfigInvalid, podspec.Clip(podspec.OneLine(faults.ToAggregate().Error()), 1000)})
		return j, 0
	}
	j.good, j.of = config, cm
	if config.LiteralToken {
		j.complaints = append(j.complaints, complaint{cm, events.ReasonLiteralToken,
			"data[service-token] is not used: each pod gets a token of data[service-account-name] that ends with it, and only such a token may create volumes; revoke the literal one, which everybody can read who may read ConfigMaps, and remove the key"})
	}
	switch age, class := now.Sub(cm.CreationTimestamp.Time), u.class; {
	case u.named:
	case class == nil && age < classGrace:
		return j, classGrace - age
	case class == nil:
		j.complaints = append(j.complaints, complaint{cm, events.ReasonClassNotFound,
			fmt.Sprintf("StorageClass %q does not exist: create it with provisioner %s, or mend the label storage-class", name, provisioner)})
	case class.Provisioner != provisioner:
		j.complaints = append(j.complaints, complaint{cm, events.ReasonClassMismatch,
			fmt.Sprintf("StorageClass %q has the provisioner %s, not %s: its claims never come here", name, class.Provisioner, provisioner)})
	case u.other != "":
		j.complaints = append(j.complaints, complaint{cm, events.ReasonConfigUnused,
			fmt.Sprintf("StorageClass %q has parameter %s: %s, so that nothing uses this ConfigMap: remove it, or create the StorageClass again without the parameter",
				name, contract.ParameterConfigFromClass, u.other)})
	}
	return j, 0
}

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

func (c *Controller) judgeClass(class string) (j judgement, again time.Duration) {
	maps := slices.DeleteFunc(c.Cache.ConfigMapsOf(class), func(cm *corev1.ConfigMap) bool { return !c.concerns(cm) })
	now := c.Now()
	j, again = judge(class, maps, c.usesOf(class), c.ProvisionerName, now)
	inForce := c.memory.setConfig(class, j, func() *configmaps.Config { return c.lastKept(class, maps) })
	reminder, old := outdated(class, maps, j, inForce)
	c.Recorder.Metrics.SetConfigOutdated(class, j.present, old)
	if old {
		c.Recorder.RemindOfConfigMap(reminder.about, reminder.reason, reminder.text, now.Truncate(remindPeriod))
		again = remindPeriod
	}
	for _, complaint := range j.complaints {
		c.Recorder.RecordConfigMap(complaint.about, complaint.reason, complaint.text)
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
	if !c.ours(class) {
		return name, nil
	}
	return configmaps.ServedAs(name, class.Parameters)
}

func (c *Controller) usesOf(name string) uses {
	u := uses{class: c.Cache.Class(name)}
	if served, _ := c.servedAs(name, u.class); served != name {
		u.other = served
	}
	for _, class := range cache.All[*storagev1.StorageClass](c.Cache.Classes) {
		served, _ := c.servedAs(class.Name, class)
		u.named = u.named || served == name && class.Name != name
	}
	return u
}

// classChanged has the ConfigMaps judged that serve a class.
func (c *Controller) classChanged(class *storagev1.StorageClass, _ bool) {
	c.judging.Add(class.Name)
	if served, _ := configmaps.ServedAs(class.Name, class.Parameters); served != "" {
		c.judging.Add(served)
	}
}

// keepConfigMaps forgets what was said of ConfigMaps that do not exist any more. Each end of a ConfigMap leads here: on the end itself,
// a judgement that began before could still say something.
func (c *Controller) keepConfigMaps() {
	c.Recorder.KeepConfigMaps(func(name string) bool {
		return c.Cache.ConfigMap(name) != nil || name == contract.StopDeletes && c.Cache.StopDeletes() != nil
	})
}

// concerns leaves the ConfigMaps of other dispatchers alone. One whose plugin-name can be nobody's is everybody's.
func (c *Controller) concerns(cm *corev1.ConfigMap) bool {
	name := configmaps.PluginName(cm)
	return name == c.ProvisionerName || name == "" || len(configmaps.CheckPluginName(name, nil)) > 0
}
