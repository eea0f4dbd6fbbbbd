package class

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flex-provisioner/flex-provisioner/allowlist"
	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/contract"
)

// Class is the input for the objects of a class. Name, an image and the grant volumeTypes are required.
type Class struct {
	// Name of the StorageClass and the ConfigMap. The field manager is flexctl-class-Name.
	Name string
	// Place has the names of the installation.
	Place Place
	// ServiceAccount of the provisioner pods; default Name.
	ServiceAccount string
	// Data is the ConfigMap's data without plugin-name and service-account-name: image, scripts, reserved keys and properties.
	Data map[string]string
	// Export is SERVER:/DIRECTORY of an NFS server, or empty. Provisioner pods have it at /export, by a volume and a claim that are both
	// named Name-export.
	Export string
	// Terms has the fields of the StorageClass but its name and provisioner.
	Terms storagev1.StorageClass
	// Grants are the lines of the allow-list by their setting. The line storageClasses is Name, and not among them.
	Grants map[string]string
}

// Place has the names of an installation.
type Place struct {
	// Provisioner is the dispatcher's --provisioner-name. Namespace is that of ConfigMaps and pods, System that of the allow-list.
	Provisioner, Namespace, System string
}

// Default has the names of deploy/base.
func Default() Place {
	return Place{contract.ProvisionerName, contract.ProvisionersNamespace, contract.SystemNamespace}
}

// Object is an object of a class, as it is applied.
type Object struct {
	// Kind has the form of kubectl's output, such as storageclass.storage.k8s.io.
	Kind, Namespace, Name string
	// Manifest has the fields that the class owns, and no others.
	Manifest any
	path     string
}

// Objects are the objects of the class, in the order in which they are applied. The StorageClass comes last, so that no claim can use it
// before the other objects exist. The error lists every fault.
func (c Class) Objects() ([]Object, error) {
	account, cm := c.account(), c.configMap()
	var faults []error
	if _, errs := configmaps.Parse(cm); len(errs) > 0 {
		faults = append(faults, errs.ToAggregate().Errors()...)
	}
	for _, fault := range validation.IsDNS1123Subdomain(c.Name) {
		faults = append(faults, fmt.Errorf("name %q: %s", c.Name, fault))
	}
	if account == "default" {
		faults = append(faults, errors.New("--service-account: default is the account of all pods that name none: choose one for this class alone"))
	}
	if c.Grants["volumeTypes"] == "" {
		faults = append(faults, errors.New("--volume-types: missing: say which types of volumes its pods may make, such as nfs"))
	}
	if _, errs := configmaps.ServedAs(c.Name, c.Terms.Parameters); len(errs) > 0 {
		faults = append(faults, errs.ToAggregate().Errors()...)
	}
	var export []Object
	if c.Export != "" {
		var err error
		if export, err = c.exportObjects(); err != nil {
			faults = append(faults, err)
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	no := false
	terms := c.Terms.DeepCopy()
	terms.TypeMeta = metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"}
	terms.Name, terms.Provisioner = c.Name, c.Place.Provisioner
	core := func(namespace, resource, name string) string {
		return "/api/v1/namespaces/" + namespace + "/" + resource + "/" + name
	}
	return append(export, []Object{
		{"serviceaccount", c.Place.Namespace, account, &corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
			ObjectMeta: metav1.ObjectMeta{Namespace: c.Place.Namespace, Name: account}, AutomountServiceAccountToken: &no}, core(c.Place.Namespace, "serviceaccounts", account)},
		{"configmap", c.Place.System, allowlist.Name, &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: c.Place.System, Name: allowlist.Name}, Data: c.lines()}, core(c.Place.System, "configmaps", allowlist.Name)},
		{"configmap", c.Place.Namespace, c.Name, cm, core(c.Place.Namespace, "configmaps", c.Name)},
		{"storageclass.storage.k8s.io", "", c.Name, terms, "/apis/storage.k8s.io/v1/storageclasses/" + c.Name},
	}...), nil
}

func (c Class) configMap() *corev1.ConfigMap {
	data := maps.Clone(c.Data)
	if data == nil {
		data = map[string]string{}
	}
	data["plugin-name"], data["service-account-name"] = c.Place.Provisioner, c.account()
	if c.Export != "" {
		data["mount-claims"] = strings.TrimPrefix(data["mount-claims"]+","+c.exportName()+":"+exportAt, ",")
	}
	labels := map[string]string{configmaps.LabelType: configmaps.TypeProvisioner}
	if len(c.Name) <= 63 {
		labels["storage-class"] = c.Name
	} else {
		data["storage-class"] = c.Name
	}
	return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Place.Namespace, Name: c.Name, Labels: labels}, Data: data}
}

// Lacks lists what the ConfigMap needs and the class's lines do not grant. Other lines for the same ServiceAccount may grant it.
func (c Class) Lacks() []string {
	config, faults := configmaps.Parse(c.configMap())
	if len(faults) > 0 {
		return nil // Objects returns the faults
	}
	account := c.account()
	var lacks []string
	for _, lack := range allowlist.Of(c.lines(), account).Lacks(c.Name, config) {
		lacks = append(lacks, fmt.Sprintf("%s.%s %s", account, lack.Setting, lack.What))
	}
	return lacks
}

func (c Class) account() string {
	if c.ServiceAccount == "" {
		return c.Name
	}
	return c.ServiceAccount
}

func (c Class) lines() map[string]string {
	lines := map[string]string{c.account() + ".storageClasses": c.Name}
	for setting, value := range c.Grants {
		if value != "" {
			lines[c.account()+"."+setting] = value
		}
	}
	return lines
}

// Granted is a message with the class's lines of the allow-list.
func (c Class) Granted() string {
	lines := c.lines()
	var granted []string
	for _, key := range slices.Sorted(maps.Keys(lines)) {
		granted = append(granted, fmt.Sprintf("  %s: %s", key, lines[key]))
	}
	return fmt.Sprintf("granted in ConfigMap %s/%s to ServiceAccount %s/%s:\n%s", c.Place.System, allowlist.Name, c.Place.Namespace, c.account(), strings.Join(granted, "\n"))
}
