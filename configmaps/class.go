package configmaps

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// ClassName is the storage class that a ConfigMap names, without any check; "" if it names none. What is too long for
// a name is shortened.
func ClassName(cm *corev1.ConfigMap) string {
	if label := cm.Labels[keyStorageClass]; label != "" {
		return label
	}

	return contract.Clip(strings.TrimSpace(cm.Data[keyStorageClass]), contract.MaxClass)
}

// parseClass sets the class's name from the label, and compares it with the key storage-class, which was parsed before.
func (c *Config) parseClass(cm *corev1.ConfigMap) field.ErrorList {
	path := field.NewPath("metadata", "labels").Key(keyStorageClass)
	label := cm.Labels[keyStorageClass]
	_, inData := cm.Data[keyStorageClass]
	switch {
	case label == "" && !inData:
		return field.ErrorList{field.Required(path,
			"the StorageClass that this provisioner serves; a name of more than 63 characters goes into "+
				"data[storage-class] instead")}
	case label == "":
		return nil
	case len(label) > validation.LabelValueMaxLength:
		return field.ErrorList{tooLong(path,
			"does not fit into a label: put the name into data[storage-class] instead")}
	case c.StorageClass != "" && c.StorageClass != label:
		return field.ErrorList{field.Invalid(dataPath.Key(keyStorageClass), c.StorageClass,
			fmt.Sprintf("%s says %q: remove one of them", path, label))}
	}

	c.StorageClass = label

	return checkObjectName(label, path)
}

func parseClassKey(c *Config, value string, path *field.Path) field.ErrorList {
	c.StorageClass = value
	return checkObjectName(value, path)
}

// CheckPluginName checks the name of a provisioner, which the ConfigMap's plugin-name, the StorageClass's provisioner
// and the dispatcher's flag --provisioner-name share.
func CheckPluginName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path,
			"the StorageClass's provisioner, usually "+contract.ProvisionerName)}
	}

	// kube-controller-manager, pv_controller.go: findProvisionablePlugin returns an error for an unknown name under
	// this prefix instead of handing the claim to an external provisioner, and findDeletablePlugin does so for volumes.
	if strings.HasPrefix(name, "kubernetes.io/") {
		return field.ErrorList{field.Invalid(path, name,
			"kube-controller-manager refuses unknown provisioners under kubernetes.io/, so a claim would never "+
				"reach the dispatcher; use "+contract.ProvisionerName+", here and as the StorageClass's provisioner")}
	}

	// The API server applies the same rule to a StorageClass's provisioner in lower case.
	if len(validation.IsQualifiedName(strings.ToLower(name))) > 0 {
		return field.ErrorList{field.Invalid(path, name,
			"must be a name that a StorageClass can have as its provisioner, such as "+contract.ProvisionerName)}
	}

	return nil
}

func parsePluginName(_ *Config, value string, path *field.Path) field.ErrorList {
	return CheckPluginName(value, path)
}
