package classes

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// grace is how long a ConfigMap may exist before its class without a warning: they are applied together.
const grace = 5 * time.Second

// Resolution is what the ConfigMaps of one class come to.
type Resolution struct {
	// Present reports whether there is a ConfigMap.
	Present bool
	// Good is what the ConfigMap Of says, where it is the only one and without faults.
	Good *configmaps.Config
	Of   *corev1.ConfigMap
	// InForce is what the class goes by: Good, or the last good version of a ConfigMap that exists, or nil.
	InForce *configmaps.Config
	// Outdated reports whether InForce is older than its ConfigMap.
	Outdated bool
	// Problem is for users and empty where something is in force. Warnings are for administrators.
	Problem  string
	Warnings []Warning
	// Ignored are the saved versions that do not count, and why.
	Ignored []error
}

// Warning is a warning on a ConfigMap.
type Warning struct {
	About  *corev1.ConfigMap
	Reason podspec.Reason
	Text   string
}

// Objects are what a class is resolved from.
type Objects struct {
	// Provisioner is the name that the dispatcher serves.
	Provisioner string
	Classes     []*storagev1.StorageClass
	// ConfigMaps are the provisioner ConfigMaps of all classes, and Revisions the saved versions of them.
	ConfigMaps []*corev1.ConfigMap
	Revisions  []*appsv1.ControllerRevision
}

// class is the StorageClass of a name, nil where there is none.
func (o Objects) class(name string) *storagev1.StorageClass {
	for _, class := range o.Classes {
		if class.Name == name {
			return class
		}
	}

	return nil
}

// named reports whether another StorageClass names this one as the class whose ConfigMap serves it.
func (o Objects) named(name string) bool {
	return slices.ContainsFunc(o.Classes, func(class *storagev1.StorageClass) bool {
		served, _ := ServedAs(class.Name, class, o.Provisioner)
		return served == name && class.Name != name
	})
}

// Resolve finds the configuration in force for one class. before was in force until now, nil for nothing. requeueAfter
// is when to resolve the class again, 0 for when something changes.
func Resolve(
	name string, before *configmaps.Config, now time.Time, o Objects,
) (r Resolution, requeueAfter time.Duration) {
	maps := ConfigMapsOf(name, o.ConfigMaps, o.Provisioner)
	slices.SortFunc(maps, func(a, b *corev1.ConfigMap) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})

	r, requeueAfter = resolve(name, maps, o, now)

	r.InForce = r.Good
	if r.Good == nil && r.Present {
		r.InForce, r.Ignored = lastGood(name, maps, before, o.Revisions)
	}

	if r.InForce != nil {
		r.Problem = ""
	}

	if warning, old := outdated(name, maps, r); old {
		r.Outdated, r.Warnings = true, append(r.Warnings, warning)
	}

	return r, requeueAfter
}

// resolve is Resolve by the ConfigMaps as they are now, without regard to what was in force before or was saved.
func resolve(
	name string, maps []*corev1.ConfigMap, o Objects, now time.Time,
) (r Resolution, requeueAfter time.Duration) {
	r.Present = len(maps) > 0
	if len(maps) > 1 {
		r.Problem = fmt.Sprintf("class %q has %d provisioner ConfigMaps, %s among them: an administrator has to "+
			"remove all but one", name, len(maps), maps[0].Name)
		for _, cm := range maps {
			r.Warnings = append(r.Warnings, Warning{cm, events.ReasonConfigDuplicate, r.Problem})
		}

		return r, 0
	}

	if len(maps) == 0 {
		r.Problem = misnamed(name, o)
		return r, 0
	}

	cm := maps[0]
	config, faults := configmaps.Parse(cm)
	if len(faults) > 0 {
		r.Problem = fmt.Sprintf("the provisioner ConfigMap %s of class %q is invalid: an administrator finds the "+
			"faults in its events", cm.Name, name)
		r.Warnings = append(r.Warnings, Warning{cm, events.ReasonConfigInvalid,
			podspec.Clip(podspec.OneLine(faults.ToAggregate().Error()), 1000)})

		return r, 0
	}

	r.Good, r.Of = config, cm
	if config.LiteralToken {
		r.Warnings = append(r.Warnings, Warning{cm, events.ReasonLiteralToken,
			"data[service-token] is not used: each pod gets a token of data[service-account-name] that ends with " +
				"it, and only such a token may create volumes; revoke the literal one, which everybody can read who " +
				"may read ConfigMaps, and remove the key"})
	}

	age, class := now.Sub(cm.CreationTimestamp.Time), o.class(name)
	served, _ := ServedAs(name, class, o.Provisioner)
	switch {
	case o.named(name):
	case class == nil && age < grace:
		return r, grace - age
	case class == nil:
		r.Warnings = append(r.Warnings, Warning{cm, events.ReasonClassNotFound,
			fmt.Sprintf("StorageClass %q does not exist: create it with provisioner %s, or mend the label "+
				"storage-class", name, o.Provisioner)})
	case class.Provisioner != o.Provisioner:
		r.Warnings = append(r.Warnings, Warning{cm, events.ReasonClassMismatch,
			fmt.Sprintf("StorageClass %q has the provisioner %s, not %s: its claims never come here",
				name, class.Provisioner, o.Provisioner)})
	case served != name && served != "":
		r.Warnings = append(r.Warnings, Warning{cm, events.ReasonConfigUnused,
			fmt.Sprintf("StorageClass %q has parameter %s: %s, so that nothing uses this ConfigMap: remove it, "+
				"or create the StorageClass again without the parameter",
				name, contract.ParameterConfigFromClass, served)})
	}

	return r, 0
}

// ConfigMapsOf are those of the ConfigMaps that are for the class and concern the provisioner's dispatcher.
func ConfigMapsOf(class string, all []*corev1.ConfigMap, provisioner string) (maps []*corev1.ConfigMap) {
	for _, cm := range all {
		if configmaps.ClassName(cm) == class && Concerns(cm, provisioner) {
			maps = append(maps, cm)
		}
	}

	return maps
}

// misnamed says, for users, that the ConfigMap of a class is for another provisioner than the class; empty where it is
// not so.
func misnamed(class string, o Objects) string {
	for _, cm := range o.ConfigMaps {
		if configmaps.ClassName(cm) == class && Ours(o.class(class), o.Provisioner) {
			return fmt.Sprintf("ConfigMap %s/%s is there, but its plugin-name is %q, not %s: an administrator has to "+
				"correct it", cm.Namespace, cm.Name, configmaps.PluginName(cm), o.Provisioner)
		}
	}

	return ""
}

// Concerns reports whether the ConfigMap is not another dispatcher's. One whose plugin-name can be nobody's concerns
// every dispatcher.
func Concerns(cm *corev1.ConfigMap, provisioner string) bool {
	name := configmaps.PluginName(cm)
	return name == provisioner || name == "" || len(configmaps.CheckPluginName(name, nil)) > 0
}

// NoConfigMap says, for users, that no ConfigMap of the namespace is for the class.
func NoConfigMap(namespace, class string) string {
	return fmt.Sprintf("namespace %s has no provisioner ConfigMap for class %q: an administrator has to create one "+
		"there with the labels storage-class and type=provisioner-config",
		namespace, class)
}
