package configmaps

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The label by which a dispatcher finds provisioner ConfigMaps.
const (
	LabelType       = "type"
	TypeProvisioner = "provisioner-config"
)

// Config is a provisioner ConfigMap that has been checked: it cannot be wrong in itself.
type Config struct {
	// Name, Namespace and ResourceVersion are the ConfigMap's.
	Name, Namespace, ResourceVersion string
	// UID is the ConfigMap's.
	UID types.UID
	// Digest identifies the ConfigMap's data but for service-token, which nobody uses: 16 hexadecimal digits of a SHA-256, for change
	// detection.
	Digest string
	// IdentityDigest is the same over Properties alone.
	IdentityDigest string
	// StorageClass is the class that the ConfigMap is for: the label storage-class, or the key of that name where the
	// class's name does not fit into a label.
	StorageClass string
	// Image runs as the provisioner.
	Image string
	// ServiceAccountName is the ServiceAccount of the provisioner pods, in the ConfigMap's namespace.
	ServiceAccountName string
	// LiteralToken reports whether the ConfigMap holds a service-token. Nobody uses it: the admission policies let only tokens that are
	// bound to a provisioner pod create volumes.
	LiteralToken bool
	// Properties are all keys that are not reserved, by the names they have in the ConfigMap. Their environment names are
	// legal, allowed and unique.
	Properties map[string]string
	// NodeSelector restricts the nodes that provisioner pods run on; nil means any node.
	NodeSelector map[string]string
	// Tolerations are the pod's.
	Tolerations []corev1.Toleration
	// Timeout bounds one attempt from the pod's start. Whole seconds, default 10 minutes.
	Timeout time.Duration
	// StartTimeout bounds the time from the pod's creation until its container runs. Whole seconds, default 5 minutes.
	StartTimeout time.Duration
	// FailedPodTTL is how long a failed pod stays for its logs once nobody needs it as a record. Whole seconds, default 0.
	// The last failed pod of a claim that still waits always stays until the next attempt.
	FailedPodTTL time.Duration
	// MaxConcurrent bounds the pods of this class that run at the same time; 0 means no limit.
	MaxConcurrent int
	// DeleteLimit is how many volumes of this class that are older than a day may be deleted within an hour before the rest
	// waits for an administrator; 0 means no limit and nil the dispatcher's own.
	DeleteLimit *int
	// ImagePullPolicy is empty for Kubernetes' own default.
	ImagePullPolicy corev1.PullPolicy
	// ImagePullSecrets are names of Secrets in the ConfigMap's namespace.
	ImagePullSecrets []string
	// Resources of the provisioner's container, complete with the defaults.
	Resources corev1.ResourceRequirements
	// RunAsUser is the pod's user; 0 means root and nil the default, 65532.
	RunAsUser *int64
	// UserOfNamespace reports whether the pod states no user: the cluster chooses one, by the pod's namespace, or else the image.
	// RunAsUser is nil then.
	UserOfNamespace bool
	// Capabilities are Linux capabilities of the container, without CAP_, beside those that root has. Only root has any.
	Capabilities []corev1.Capability
	// Privileged makes the container privileged.
	Privileged bool
	// HostNetwork puts the pod into the network of its node.
	HostNetwork bool
	// Secrets are names of Secrets in the ConfigMap's namespace that are mounted as files.
	Secrets []string
	// HostPaths are directories of the node, mounted at the same path.
	HostPaths []HostPath
	// MountClaims are claims of the ConfigMap's namespace that are mounted into the pod.
	MountClaims []ClaimMount
	// Devices are claims of the ConfigMap's namespace that the container has as devices, at a path below /dev.
	Devices []ClaimMount
	// PriorityClassName is the pod's PriorityClass, empty for the cluster's default.
	PriorityClassName string
	// PodLabels and PodAnnotations are the pod's, beside the dispatcher's own. None has a name that Kubernetes, a container
	// runtime or the dispatcher acts on.
	PodLabels, PodAnnotations map[string]string
	// Provision and Delete are inline scripts: both are set or neither. Expand needs both.
	Provision, Delete, Expand string
	// Expandable reports whether the class's provisioner can expand volumes: it has the inline script Expand, or an image that
	// knows the operation. Default false.
	Expandable bool
	// Listable reports whether the image knows the operation list, by which the audit compares the storage. Default false.
	Listable bool
	// FlexctlInImage reports whether the image has flexctl, or that the scripts need none: none is put into the pod. Default false.
	FlexctlInImage bool
	// AccessModes that claims of the class may ask for. Default: all four.
	AccessModes []corev1.PersistentVolumeAccessMode
	// VolumeModes that claims of the class may ask for. Default: Filesystem only.
	VolumeModes []corev1.PersistentVolumeMode
	// MinSize and MaxSize bound in bytes what claims of the class may ask for; 0 means no bound.
	MinSize, MaxSize int64
	// NodeLocal reports whether the storage lives on the node that the provision pod ran on.
	NodeLocal bool
	// ShowLogs lets users see the last log lines of a failed pod that left no message.
	ShowLogs bool
}

// ClaimMount is a claim and the absolute, clean path that the pod has it at.
type ClaimMount struct{ Claim, Path string }

// HostPath is a directory of the node, absolute and clean, and whether the pod may only read it.
type HostPath struct {
	Path     string
	ReadOnly bool
}

// String is the directory as it is written in the ConfigMap and in the allow-list.
func (h HostPath) String() string {
	if h.ReadOnly {
		return h.Path + readOnly
	}
	return h.Path
}

// Parse checks a provisioner ConfigMap. It returns either a Config or every fault there is, in a stable order: first the
// metadata, then reserved keys in the order of the reference, then properties by name.
func Parse(cm *corev1.ConfigMap) (*Config, field.ErrorList) {
	c := &Config{Name: cm.Name, Namespace: cm.Namespace, ResourceVersion: cm.ResourceVersion, UID: cm.UID}
	errs := checkType(cm)
	errs = append(errs, c.parseReserved(cm.Data)...)
	errs = append(errs, c.parseClass(cm)...)
	errs = append(errs, checkScripts(cm.Data)...)
	errs = append(errs, c.checkExpand(cm.Data)...)
	errs = append(errs, c.checkMounts()...)
	errs = append(errs, c.checkCapabilities()...)
	errs = append(errs, c.parseProperties(cm.Data)...)
	errs = append(errs, checkBinary(cm.BinaryData)...)
	if len(errs) > 0 {
		return nil, errs
	}
	c.Digest = digest(used(cm.Data))
	c.IdentityDigest = digest(c.Properties)
	return c, nil
}

// used are the data without the token that nobody uses.
func used(data map[string]string) map[string]string {
	data = maps.Clone(data)
	delete(data, keyServiceToken)
	return data
}

// PluginName is the provisioner name that a ConfigMap is for, without any check, so that a dispatcher can pass over the
// ConfigMaps of others.
func PluginName(cm *corev1.ConfigMap) string { return strings.TrimSpace(cm.Data[keyPluginName]) }

var dataPath = field.NewPath("data")

// checkType makes the tools that check files refuse what a dispatcher would never see.
func checkType(cm *corev1.ConfigMap) field.ErrorList {
	path := field.NewPath("metadata", "labels").Key(LabelType)
	switch got := cm.Labels[LabelType]; got {
	case TypeProvisioner:
		return nil
	case "":
		return field.ErrorList{field.Required(path, "dispatchers find provisioner ConfigMaps by the label "+LabelType+": "+TypeProvisioner)}
	default:
		return field.ErrorList{field.NotSupported(path, got, []string{TypeProvisioner})}
	}
}

func (c *Config) parseReserved(data map[string]string) field.ErrorList {
	var errs field.ErrorList
	for _, key := range reserved {
		value, present := data[key.name]
		path := dataPath.Key(key.name)
		if !present {
			value = key.preset
			if key.required {
				errs = append(errs, field.Required(path, key.meaning))
			}
			if value == "" {
				continue
			}
		}
		errs = append(errs, key.read(c, value, path)...)
	}
	return errs
}

func (c *Config) parseProperties(data map[string]string) field.ErrorList {
	c.Properties = map[string]string{}
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if isReserved(key) {
			continue
		}
		if meant := resembles(key); meant != "" {
			errs = append(errs, misspelled(key, meant))
			continue
		}
		c.Properties[key] = data[key]
	}
	return append(errs, checkPairs(c.Properties, dataPath)...)
}

// checkScripts demands both scripts or none: with one of them the other operation would run the image's own entrypoint. It
// refuses keys that have no meaning beside them, or without them.
func checkScripts(data map[string]string) field.ErrorList {
	_, provision := data[keyProvision]
	_, remove := data[keyDelete]
	_, listable := data[keyListable]
	_, flexctl := data[keyFlexctl]
	switch {
	case provision && !remove:
		return field.ErrorList{field.Required(dataPath.Key(keyDelete), "inline scripts come in pairs: without it the storage would never be removed")}
	case remove && !provision:
		return field.ErrorList{field.Required(dataPath.Key(keyProvision), "inline scripts come in pairs: without it no storage would be made")}
	case provision && listable:
		return field.ErrorList{field.Forbidden(dataPath.Key(keyListable), "in a class with inline scripts the image's entrypoint is never run; remove the key")}
	case flexctl && !provision:
		return field.ErrorList{field.Forbidden(dataPath.Key(keyFlexctl), "flexctl is put into pods that run inline scripts only; remove the key")}
	}
	return nil
}

// checkExpand settles whether the class can expand: by its script, or where it has none by the word of the key. In a class
// with inline scripts the image's entrypoint is never run, so that only a script counts.
func (c *Config) checkExpand(data map[string]string) field.ErrorList {
	_, inline := data[keyProvision]
	_, script := data[keyExpand]
	_, word := data[keyExpandable]
	switch {
	case script && !inline:
		return field.ErrorList{field.Required(dataPath.Key(keyProvision), "an inline script to expand comes with those to provision and delete; for an image write "+keyExpandable+`: "true" instead`)}
	case inline && word:
		return field.ErrorList{field.Forbidden(dataPath.Key(keyExpandable), "in a class with inline scripts the script "+keyExpand+" says so; remove the key")}
	}
	c.Expandable = c.Expandable || script
	return nil
}

func checkBinary(data map[string][]byte) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(data)) {
		errs = append(errs, field.Forbidden(field.NewPath("binaryData").Key(key),
			"a provisioner ConfigMap has no binary keys; put text under data and files into a Secret (key secrets)"))
	}
	return errs
}
