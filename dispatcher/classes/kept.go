package classes

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
)

// Kept is the version that is kept of the first of a class's ConfigMaps that has one, or nil. What is kept for another class, or has
// faults by the rules of this program, counts as none. The latter is in passedOver.
func Kept(class string, maps []*corev1.ConfigMap, revisionsOf func(*corev1.ConfigMap) []*appsv1.ControllerRevision) (config *configmaps.Config, passedOver []error) {
	for _, cm := range maps {
		for _, revision := range revisionsOf(cm) {
			config, err := configmaps.ParseRevision(revision, cm)
			if err != nil {
				passedOver = append(passedOver, err)
			} else if config.StorageClass == class {
				return config, passedOver
			}
		}
	}
	return nil, passedOver
}

// Outdated says on a ConfigMap that the class runs on an older version of it. Beside a second ConfigMap of the class the present one
// stays in force.
func Outdated(class string, maps []*corev1.ConfigMap, j Judgement, inForce *configmaps.Config) (c Complaint, outdated bool) {
	if j.Good != nil || inForce == nil {
		return c, false
	}
	about := maps[0]
	for _, cm := range maps {
		if cm.Name == inForce.Name {
			about = cm
		}
	}
	return Complaint{about, events.ReasonConfigOutdated, fmt.Sprintf("class %q runs on version %s of ConfigMap %s, the last valid one; version %s has no effect until what is wrong is corrected",
		class, inForce.ResourceVersion, inForce.Name, about.ResourceVersion)}, about.Name != inForce.Name || about.ResourceVersion != inForce.ResourceVersion
}
