package classes

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
)

// lastGood is the last good version of one of a class's ConfigMaps, or nil: what was in force before, else, after a restart, what was
// saved. A ConfigMap that has the name of one that is gone is another one. A saved version of another class does not count, and neither
// does one that has faults by the rules of this program. ignored has the latter.
func lastGood(class string, maps []*corev1.ConfigMap, before *configmaps.Config, revisions []*appsv1.ControllerRevision) (config *configmaps.Config, ignored []error) {
	if before != nil && slices.ContainsFunc(maps, func(cm *corev1.ConfigMap) bool { return cm.UID == before.UID }) {
		return before, nil
	}
	for _, cm := range maps {
		for _, revision := range configmaps.RevisionsOf(revisions, cm) {
			config, err := configmaps.ParseRevision(revision, cm)
			if err != nil {
				ignored = append(ignored, err)
			} else if config.StorageClass == class {
				return config, ignored
			}
		}
	}
	return nil, ignored
}

// outdated is the warning on a ConfigMap that the class runs on an older version of it. Beside a second ConfigMap of the class the present one
// stays in force.
func outdated(class string, maps []*corev1.ConfigMap, r Resolution) (w Warning, outdated bool) {
	inForce := r.InForce
	if r.Good != nil || inForce == nil {
		return w, false
	}
	about := maps[0]
	for _, cm := range maps {
		if cm.Name == inForce.Name {
			about = cm
		}
	}
	return Warning{about, events.ReasonConfigOutdated, fmt.Sprintf("class %q runs on version %s of ConfigMap %s, the last valid one; version %s has no effect until what is wrong is corrected",
		class, inForce.ResourceVersion, inForce.Name, about.ResourceVersion)}, about.Name != inForce.Name || about.ResourceVersion != inForce.ResourceVersion
}
