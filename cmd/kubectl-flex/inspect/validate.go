package inspect

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/configmaps/allowlist"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/classes"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// Needs lists the ServiceAccounts, Secrets and claims that the ConfigMaps name, for Objects.Exists.
func (o *Objects) Needs(list []*corev1.ConfigMap) []Ref {
	var refs []Ref
	for _, cm := range list {
		config, faults := configmaps.Parse(cm)
		if len(faults) > 0 {
			continue
		}
		refs = append(refs, Ref{"ServiceAccount", config.ServiceAccountName})
		for _, name := range slices.Concat(config.Secrets, config.ImagePullSecrets) {
			refs = append(refs, Ref{"Secret", name})
		}
		for _, mount := range config.MountClaims {
			refs = append(refs, Ref{"PersistentVolumeClaim", mount.Claim})
		}
	}
	return refs
}

// ConfigMapsFor lists the ConfigMaps that serve the class. It is one unless something is wrong.
func (o *Objects) ConfigMapsFor(class string) []*corev1.ConfigMap {
	served, _ := classes.ServedAs(class, o.class(class), o.Dispatcher.Provisioner)
	return classes.ConfigMapsOf(served, o.ConfigMaps, o.Dispatcher.Provisioner)
}

// Validate lists the faults of the ConfigMaps and StorageClasses of a manifest, after Overlay, or of the classes that are named. What
// could not be read is not reported as missing.
func (o *Objects) Validate(m *Manifest, names []string) []Fault {
	list := slices.Clone(m.ConfigMaps)
	for _, name := range names {
		found := o.ConfigMapsFor(name)
		list = append(list, found...)
		if len(found) == 0 {
			list = append(list, nil)
		}
	}
	var faults []Fault
	checked := map[string]bool{}
	for i, cm := range list {
		if cm == nil {
			faults = append(faults, Fault{Object: "StorageClass " + podspec.Clean(names[i-len(m.ConfigMaps)]), Message: o.noConfigMap(names[i-len(m.ConfigMaps)])})
			continue
		}
		faults = append(faults, o.validateConfigMap(m, cm)...)
		checked[configmaps.ClassName(cm)] = true
	}
	for _, name := range names {
		if c, none := o.noTopology(o.class(name)); none {
			faults = append(faults, Fault{Object: "StorageClass " + podspec.Clean(name), Message: c.Message})
		}
	}
	for _, class := range m.Classes {
		if c, none := o.noTopology(class); none {
			faults = append(faults, m.fault(class, objectName("StorageClass", "", class.Name), "allowedTopologies", c.Message))
		}
		name := objectName("StorageClass", "", class.Name)
		if class.Provisioner != o.Dispatcher.Provisioner {
			faults = append(faults, m.fault(class, name, "provisioner", fmt.Sprintf("provisioner: %q is not %q, so that its claims never reach the dispatcher", class.Provisioner, o.Dispatcher.Provisioner)))
			continue
		}
		served, wrong := classes.ServedAs(class.Name, class, o.Dispatcher.Provisioner)
		for _, err := range wrong {
			faults = append(faults, m.fault(class, name, err.Field, err.Error()))
		}
		if j := o.resolve(served); !j.Present && len(wrong) == 0 && (o.reads(ConfigMaps) || len(m.ConfigMaps) > 0) {
			faults = append(faults, m.fault(class, name, "metadata.name", o.noConfigMap(served)))
		}
	}
	return faults
}

func (o *Objects) validateConfigMap(m *Manifest, cm *corev1.ConfigMap) []Fault {
	name := objectName("ConfigMap", cm.Namespace, cm.Name)
	var faults []Fault
	fault := func(path, format string, args ...any) {
		faults = append(faults, m.fault(cm, name, path, fmt.Sprintf(format, args...)))
	}
	if cm.Namespace != o.Dispatcher.Namespace {
		fault("metadata.namespace", "metadata.namespace: %q is not %q, where the dispatcher looks", cm.Namespace, o.Dispatcher.Namespace)
	}
	config, wrong := configmaps.Parse(cm)
	for _, err := range wrong {
		fault(err.Field, "%s", err.Error())
	}
	class := configmaps.ClassName(cm)
	for _, warning := range o.resolve(class).Warnings {
		switch {
		case len(wrong) > 0 && warning.Reason == "ConfigInvalid":
		case warning.Reason == "ClassNotFound" && !o.reads(Classes):
		case warning.About.Name == cm.Name:
			fault("metadata.labels[storage-class]", "%s", warning.Text)
		}
	}
	if config == nil {
		return faults
	}
	for _, ref := range o.Needs([]*corev1.ConfigMap{cm}) {
		if exists, known := o.Exists[ref]; known && !exists {
			fault(configMapKey(config, ref), "%s %s/%s does not exist: create it", ref.Kind, o.Dispatcher.Namespace, ref.Name)
		}
	}
	served := o.classesServedBy(class)
	o.validateGrants(config, class, served, fault)
	for _, sc := range served {
		for _, err := range configmaps.CheckIdentity(config.Properties, configmaps.Parameters(sc.Parameters)) {
			fault(err.Field, "with StorageClass %s: %s", sc.Name, err.Error())
		}
	}
	return faults
}

// classesServedBy lists the StorageClasses that the ConfigMap of a class serves.
func (o *Objects) classesServedBy(class string) (served []*storagev1.StorageClass) {
	for _, sc := range o.Classes {
		name, _ := classes.ServedAs(sc.Name, sc, o.Dispatcher.Provisioner)
		if classes.Ours(sc, o.Dispatcher.Provisioner) && name == class {
			served = append(served, sc)
		}
	}
	return served
}

// configMapKey is the key of the ConfigMap that names an object.
func configMapKey(config *configmaps.Config, ref Ref) string {
	switch {
	case ref.Kind == "ServiceAccount":
		return "data[service-account-name]"
	case ref.Kind == "PersistentVolumeClaim":
		return "data[mount-claims]"
	case slices.Contains(config.Secrets, ref.Name):
		return "data[secrets]"
	}
	return "data[image-pull-secrets]"
}

// validateGrants faults what the allow-list lacks for the class of the ConfigMap, and for the further classes that the
// ConfigMap serves.
func (o *Objects) validateGrants(config *configmaps.Config, class string, served []*storagev1.StorageClass,
	fault func(path, format string, args ...any)) {
	if o.Dispatcher.Insecure || o.AllowList == nil && !o.reads(AllowList) {
		return
	}

	lines := o.grants(config.ServiceAccountName)
	lacks := lines.Lacks(class, config)
	for _, sc := range served {
		for _, lack := range lines.Lacks(sc.Name, config) {
			if !slices.Contains(lacks, lack) {
				lacks = append(lacks, lack)
			}
		}
	}

	for _, lack := range lacks {
		key, known := grantKeys[lack.Setting]
		if !known {
			key = "data[service-account-name]"
		}
		fault(key, "ConfigMap %s/%s: data[%s.%s] %s",
			o.Dispatcher.System, allowlist.Name, config.ServiceAccountName, lack.Setting, lack.What)
	}
}

// grantKeys maps a setting of the allow-list to the ConfigMap's key that needs it. Other settings belong to service-account-name.
var grantKeys = map[string]string{"hostPaths": "data[host-path]"}
