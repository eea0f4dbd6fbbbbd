package classes

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
)

// lastGood is the last good version of one of a class's ConfigMaps, or nil: the version that was in force before, or
// after a restart the saved one. A ConfigMap that has the name of one that is gone is another one. Saved versions of
// another class do not count. Neither do those with faults by the rules of this program, which ignored has.
func lastGood(
	class string, maps []*corev1.ConfigMap, before *configmaps.Config, revisions []*appsv1.ControllerRevision,
) (config *configmaps.Config, ignored []error) {
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

// outdated is the warning on a ConfigMap that the class runs on an older version of it. Beside a second ConfigMap of
// the class the present one stays in force.
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

	text := fmt.Sprintf("class %q runs on version %s of ConfigMap %s, the last valid one; version %s has no effect "+
		"until what is wrong is corrected", class, inForce.ResourceVersion, inForce.Name, about.ResourceVersion)
	outdated = about.Name != inForce.Name || about.ResourceVersion != inForce.ResourceVersion

	return Warning{about, events.ReasonConfigOutdated, text}, outdated
}
