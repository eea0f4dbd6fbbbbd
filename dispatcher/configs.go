package dispatcher

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// Reasons of events on provisioner ConfigMaps.
const (
	ReasonConfigInvalid   podspec.Reason = "ConfigInvalid"
	ReasonConfigDuplicate podspec.Reason = "ConfigDuplicate"
	ReasonClassNotFound   podspec.Reason = "ClassNotFound"
	ReasonClassMismatch   podspec.Reason = "ClassOfOtherProvisioner"
	ReasonLiteralToken    podspec.Reason = "LiteralToken"
)

// classGrace is how long a ConfigMap may be there before its class without a word: they are applied together.
const classGrace = 5 * time.Second

// configs are the configurations in force, by class.
type configs struct {
	mu      sync.Mutex
	byClass map[string]classConfig
	told    map[string]toldOf // by ConfigMap
}

// toldOf is what was told of one version of a ConfigMap.
type toldOf struct {
	version string
	told    told
}

type classConfig struct {
	good    *configmaps.Config
	problem string
}

func newConfigs() *configs {
	return &configs{byClass: map[string]classConfig{}, told: map[string]toldOf{}}
}

// first says whether the key was not told of this version of the ConfigMap before.
func (c *configs) first(cm *corev1.ConfigMap, key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told[cm.Name].version != cm.ResourceVersion {
		c.told[cm.Name] = toldOf{cm.ResourceVersion, told{}}
	}
	return c.told[cm.Name].told.first(key)
}

// forget forgets what was told of a ConfigMap.
func (c *configs) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.told, name)
}

// keep forgets what was told of ConfigMaps that are gone. It is called when a class is judged, which each end of a ConfigMap
// leads to: on the end itself, a judgement that began before could still tell something.
func (c *configs) keep(exists func(name string) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.told, func(name string, _ toldOf) bool { return !exists(name) })
}

// get is the configuration in force for the class, or why there is none.
func (c *configs) get(class string) (*configmaps.Config, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry := c.byClass[class]
	if entry.good != nil {
		return entry.good, ""
	}
	if entry.problem == "" {
		entry.problem = fmt.Sprintf("no provisioner ConfigMap for class %q: an administrator has to create one with the labels storage-class and type=provisioner-config", class)
	}
	return nil, entry.problem
}

// set puts a judgement in force. What was good stays good while its ConfigMap is broken; it goes when the ConfigMap does.
func (c *configs) set(class string, j judgement) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry := classConfig{good: j.good, problem: j.problem}
	if entry.good == nil && j.present {
		entry.good = c.byClass[class].good
	}
	if entry == (classConfig{}) {
		delete(c.byClass, class)
		return
	}
	c.byClass[class] = entry
}

// judgement is what the ConfigMaps of one class come to.
type judgement struct {
	present bool
	good    *configmaps.Config
	// problem is for users, complaints are for the administrators who look at the ConfigMaps.
	problem    string
	complaints []complaint
}

type complaint struct {
	about  *corev1.ConfigMap
	reason podspec.Reason
	text   string
}

// judge is pure: all ConfigMaps for one class, in any order, and the class itself, or nil.
func judge(class string, maps []*corev1.ConfigMap, terms *storagev1.StorageClass, provisioner string, o configmaps.Options, now time.Time) (judgement, time.Duration) {
	j := judgement{present: len(maps) > 0}
	if len(maps) > 1 {
		slices.SortFunc(maps, func(a, b *corev1.ConfigMap) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
		j.problem = fmt.Sprintf("class %q has %d provisioner ConfigMaps, %s among them: an administrator has to remove all but one", class, len(maps), maps[0].Name)
		for _, cm := range maps {
			j.complaints = append(j.complaints, complaint{cm, ReasonConfigDuplicate, j.problem})
		}
		return j, 0
	}
	if len(maps) == 0 {
		return j, 0
	}
	cm := maps[0]
	config, faults := configmaps.Parse(cm, o)
	if len(faults) > 0 {
		j.problem = fmt.Sprintf("the provisioner ConfigMap %s of class %q is invalid: an administrator finds the faults in its events", cm.Name, class)
		j.complaints = append(j.complaints, complaint{cm, ReasonConfigInvalid, podspec.Clip(podspec.OneLine(faults.ToAggregate().Error()), 1000)})
		return j, 0
	}
	j.good = config
	if config.LiteralToken {
		j.complaints = append(j.complaints, complaint{cm, ReasonLiteralToken,
			"data[service-token] is a credential that everybody can read who may read ConfigMaps, and it never expires; remove the key: pods then get a short-lived token of data[service-account-name]"})
	}
	switch age := now.Sub(cm.CreationTimestamp.Time); {
	case terms == nil && age < classGrace:
		return j, classGrace - age
	case terms == nil:
		j.complaints = append(j.complaints, complaint{cm, ReasonClassNotFound,
			fmt.Sprintf("StorageClass %q does not exist: create it with provisioner %s, or mend the label storage-class", class, provisioner)})
	case terms.Provisioner != provisioner:
		j.complaints = append(j.complaints, complaint{cm, ReasonClassMismatch,
			fmt.Sprintf("StorageClass %q has the provisioner %s, not %s: its claims never come here", class, terms.Provisioner, provisioner)})
	}
	return j, 0
}

// judgeClass judges the ConfigMaps of a class anew and lets everything of the class look again.
func (d *Dispatcher) judgeClass(class string) time.Duration {
	var maps []*corev1.ConfigMap
	for _, obj := range d.caches.configMaps.GetStore().List() {
		cm := obj.(*corev1.ConfigMap)
		if configmaps.ClassName(cm) == class && d.concerns(cm) {
			maps = append(maps, cm)
		}
	}
	var terms *storagev1.StorageClass
	if obj, ok, _ := d.caches.classes.GetStore().GetByKey(class); ok {
		terms = obj.(*storagev1.StorageClass)
	}
	j, again := judge(class, maps, terms, d.options.ProvisionerName, configmaps.Options{AllowedHostPaths: d.options.AllowedHostPaths}, time.Now())
	d.configs.set(class, j)
	for _, c := range j.complaints {
		d.tellConfigOnce(c.about, c.reason, c.text)
	}
	d.configs.keep(func(name string) bool {
		_, ok, _ := d.caches.configMaps.GetStore().GetByKey(d.cluster.Namespace + "/" + name)
		return ok || name == contract.StopDeletes
	})
	d.lanes.pokeClass(class)
	d.endClass(class)
	return again
}

// concerns leaves the ConfigMaps of other dispatchers alone. One whose plugin-name can be nobody's is everybody's.
func (d *Dispatcher) concerns(cm *corev1.ConfigMap) bool {
	name := configmaps.PluginName(cm)
	return name == d.options.ProvisionerName || name == "" || len(configmaps.CheckPluginName(name, nil)) > 0
}
