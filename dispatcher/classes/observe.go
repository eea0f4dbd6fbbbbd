package classes

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Listers are what Observe reads.
type Listers struct {
	// Class is the StorageClass of a name, and ConfigMap the provisioner ConfigMap of a name; nil where there is none.
	Class     func(name string) *storagev1.StorageClass
	ConfigMap func(name string) *corev1.ConfigMap
	// InForce is the configuration in force for a class, or what is wrong with the class's ConfigMaps. Without any it
	// is neither.
	InForce func(class string) (*configmaps.Config, string)
}

// Observe finds the configuration in force for the observed class. Where the StorageClass is gone, and no ConfigMap
// is for its name, storage can still be removed: by the ConfigMap that made it.
func Observe(s *observed.Claim, namespace string, k Listers) {
	served, faults := ServedAs(s.ClassName, s.Class, s.Provisioner)
	if len(faults) > 0 {
		s.Config, s.ConfigProblem = nil, fmt.Sprintf("StorageClass %q: %v", s.ClassName, faults.ToAggregate())
		return
	}

	s.Config, s.ConfigProblem = k.InForce(served)
	if s.Config == nil && s.ConfigProblem == "" {
		s.ConfigProblem = NoConfigMap(namespace, served)
	}

	switch {
	case s.Config != nil:
	case served != s.ClassName:
		s.ConfigProblem = fmt.Sprintf("StorageClass %q has parameter %s: %s, but %s",
			s.ClassName, contract.ParameterConfigFromClass, served, s.ConfigProblem)
		if further, _ := ServedAs(served, k.Class(served), s.Provisioner); further != served && further != "" {
			s.ConfigProblem += fmt.Sprintf("; that class has the ConfigMap of class %q: create StorageClass %q "+
				"again, and name that one", further, s.ClassName)
		}
	case !Ours(s.Class, s.Provisioner):
		if cm := k.ConfigMap(s.RecordedConfig()); cm != nil && Concerns(cm, s.Provisioner) {
			s.Config, _ = k.InForce(configmaps.ClassName(cm))
		}

		if s.Config == nil {
			s.ConfigProblem += fmt.Sprintf("; StorageClass %q does not exist: if it had the parameter %s, create "+
				"it again", s.ClassName, contract.ParameterConfigFromClass)
		}
	}
}

// Ours reports whether the StorageClass exists and is of the provisioner. Another one's parameters say nothing here.
func Ours(class *storagev1.StorageClass, provisioner string) bool {
	return class != nil && class.Provisioner == provisioner
}

// ServedAs is the class whose ConfigMap serves the class of the name, which may be gone.
func ServedAs(name string, class *storagev1.StorageClass, provisioner string) (string, field.ErrorList) {
	if !Ours(class, provisioner) {
		return name, nil
	}

	return configmaps.ServedAs(name, class.Parameters)
}
