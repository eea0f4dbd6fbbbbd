package configmaps

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The label of provisioner ConfigMaps, by which dispatchers list and watch them.
const (
	LabelType       = "type"
	TypeProvisioner = "provisioner-config"
)

// Config is the content of a valid provisioner ConfigMap.
type Config struct {
	// Name, Namespace and ResourceVersion are the ConfigMap's.
	Name, Namespace, ResourceVersion string
	// UID is the ConfigMap's.
	UID types.UID
	// Digest detects changes of the ConfigMap's data except service-token, which nobody uses. It has 16 hexadecimal
	// digits of a SHA-256.
	Digest string
	// IdentityDigest is the digest of Properties alone.
	IdentityDigest string
	// StorageClass is the class that the ConfigMap is for. It comes from the label storage-class, or from the key of
	// that name if the class's name is too long for a label.
	StorageClass string
	// Image is the image of the provisioner's container.
	Image string
	// ServiceAccountName is the ServiceAccount of the provisioner pods, in the ConfigMap's namespace.
	ServiceAccountName string
	// LiteralToken reports whether the ConfigMap holds a service-token. Nobody uses the token: the admission policies
	// allow only tokens that are bound to a provisioner pod to create volumes.
	LiteralToken bool
	// Properties are all keys that are not reserved, by their names in the ConfigMap. Their environment names are
	// legal, allowed and unique.
	Properties map[string]string
	// NodeSelector restricts the nodes that provisioner pods run on; nil means any node.
	NodeSelector map[string]string
	// Tolerations are the pod's.
	Tolerations []corev1.Toleration
	// Timeout limits an attempt from the pod's start. It is whole seconds, by default 10 minutes.
	Timeout time.Duration
	// StartTimeout limits the time from the pod's creation until its container runs. It is whole seconds, by default 5
	// minutes.
	StartTimeout time.Duration
	// FailedPodTTL is how long a failed pod is kept for its logs once it is no longer needed as a record. It is whole
	// seconds, by default 0. The last failed pod of a claim that still waits is always kept until the next attempt.
	FailedPodTTL time.Duration
	// MaxConcurrent limits the pods of this class that run at the same time; 0 means no limit.
	MaxConcurrent int
	// DeleteLimit is how many volumes of this class that are older than a day may be deleted within an hour. Further
	// ones wait for an administrator. 0 means no limit, nil the limit of the dispatcher's --delete-limit.
	DeleteLimit *int
	// ImagePullPolicy is empty for Kubernetes' own default.
	ImagePullPolicy corev1.PullPolicy
	// ImagePullSecrets are names of Secrets in the ConfigMap's namespace.
	ImagePullSecrets []string
	// Resources of the provisioner's container, complete with the defaults.
	Resources corev1.ResourceRequirements
	// RunAsUser is the pod's user; 0 means root and nil the default, 65532.
	RunAsUser *int64
	// UserOfNamespace reports whether the pod sets no user, so that the cluster chooses one by the namespace, or else
	// the image does. RunAsUser is nil then.
	UserOfNamespace bool
	// SELinuxLevel is the level of SELinux that the pod runs at, empty for what the cluster or the runtime chooses.
	SELinuxLevel string
	// Capabilities are further Linux capabilities of the container, without the prefix CAP_. Only root has any.
	Capabilities []corev1.Capability
	// Privileged reports whether the container is privileged.
	Privileged bool
	// HostNetwork reports whether the pod is in the network of its node.
	HostNetwork bool
	// Secrets are names of Secrets in the ConfigMap's namespace that are mounted as files.
	Secrets []string
	// HostPaths are directories of the node, mounted at the same path.
	HostPaths []HostPath
	// MountClaims are claims of the ConfigMap's namespace that are mounted into the pod.
	MountClaims []ClaimMount
	// Devices are claims of the ConfigMap's namespace that the container gets as devices, at a path below /dev.
	Devices []ClaimMount
	// PriorityClassName is the pod's PriorityClass, empty for the cluster's default.
	PriorityClassName string
	// PodLabels and PodAnnotations are further labels and annotations of the pod. None has a name that Kubernetes, a
	// container runtime or the dispatcher acts on.
	PodLabels, PodAnnotations map[string]string
	// ClaimLabels and ClaimAnnotations are names of those that a provisioner gets of its claim, as data.
	ClaimLabels, ClaimAnnotations []string
	// Provision and Delete are inline scripts. Both are set or neither. Expand needs both.
	Provision, Delete, Expand string
	// Expandable reports whether the class's provisioner can expand volumes, by the inline script Expand, or by an
	// image that supports the operation. Default false.
	Expandable bool
	// Snapshot and DeleteSnapshot are inline scripts. Both are set or neither, and not without Provision.
	Snapshot, DeleteSnapshot string
	// Snapshots reports whether the class's provisioner takes, removes and restores snapshots, by the inline scripts,
	// or by an image that supports the operations. Default false.
	Snapshots bool
	// Attach and Detach are inline scripts. Both are set or neither, and not without Provision.
	Attach, Detach string
	// Attachments reports whether the class's provisioner attaches volumes to nodes, by the inline scripts, or by an
	// image that supports the operations. Default false.
	Attachments bool
	// Listable reports whether the image supports the operation list, which the audit uses. Default false.
	Listable bool
	// FlexctlInImage reports whether no flexctl is put into the pod, since the image has it or the scripts do not use
	// it. Default false.
	FlexctlInImage bool
	// AccessModes are those that claims of the class may ask for. Default: all four.
	AccessModes []corev1.PersistentVolumeAccessMode
	// VolumeModes are those that claims of the class may ask for. Default: Filesystem only.
	VolumeModes []corev1.PersistentVolumeMode
	// MinSize and MaxSize limit in bytes what claims of the class may ask for; 0 means no limit.
	MinSize, MaxSize int64
	// NodeLocal reports whether the storage is on the node that the provision pod ran on.
	NodeLocal bool
	// DeleteUnderPressure reports whether pods that remove node-local storage run on a node under pressure. Default
	// false.
	DeleteUnderPressure bool
	// GiveUpAfter is how long the node of a released volume has to be gone before the volume goes without its storage.
	// 0 means for ever.
	GiveUpAfter time.Duration
	// VolumesHandedOver reports whether volumes of the class are given to other claims, or restored, by design.
	// Otherwise an administrator is asked before the storage of a restored volume is removed.
	VolumesHandedOver bool
	// ShowLogs reports whether users see the last log lines of a failed pod that left no message.
	ShowLogs bool
}

// ClaimMount is a claim and its path in the pod, which is absolute and clean.
type ClaimMount struct{ Claim, Path string }

// HostPath is a directory of the node, absolute and clean, and whether it is mounted read-only.
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

// Parse checks a provisioner ConfigMap. It returns either a Config or every fault, in a stable order: first the
// metadata, then reserved keys in the order of the reference, then properties by name.
func Parse(cm *corev1.ConfigMap) (*Config, field.ErrorList) {
	c := &Config{Name: cm.Name, Namespace: cm.Namespace, ResourceVersion: cm.ResourceVersion, UID: cm.UID}

	errs := checkType(cm)
	errs = append(errs, c.parseReserved(cm.Data)...)
	errs = append(errs, c.parseClass(cm)...)
	errs = append(errs, checkScripts(cm.Data)...)
	errs = append(errs, c.checkExpand(cm.Data)...)
	errs = append(errs, checkSnapshots.of(cm.Data, &c.Snapshots)...)
	errs = append(errs, checkAttachments.of(cm.Data, &c.Attachments)...)
	errs = append(errs, c.checkMounts()...)
	errs = append(errs, c.checkCapabilities()...)
	errs = append(errs, c.parseProperties(cm.Data)...)
	errs = append(errs, checkBinary(cm.BinaryData)...)
	if len(errs) > 0 {
		return nil, errs
	}

	c.Digest = digest(withoutToken(cm.Data))
	c.IdentityDigest = digest(c.Properties)

	return c, nil
}

// withoutToken is the data without service-token, which nobody uses.
func withoutToken(data map[string]string) map[string]string {
	data = maps.Clone(data)
	delete(data, keyServiceToken)

	return data
}

// PluginName is the provisioner name of a ConfigMap, without any check. By it a dispatcher ignores the ConfigMaps of
// other dispatchers.
func PluginName(cm *corev1.ConfigMap) string { return strings.TrimSpace(cm.Data[keyPluginName]) }

var dataPath = field.NewPath("data")

// checkType refuses a ConfigMap without the label. No dispatcher sees such a ConfigMap, but a tool that checks files
// does.
func checkType(cm *corev1.ConfigMap) field.ErrorList {
	path := field.NewPath("metadata", "labels").Key(LabelType)
	switch got := cm.Labels[LabelType]; got {
	case TypeProvisioner:
		return nil
	case "":
		return field.ErrorList{field.Required(path,
			"dispatchers find provisioner ConfigMaps by the label "+LabelType+": "+TypeProvisioner)}
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
			value = key.defaultValue
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
		if IsReserved(key) {
			continue
		}

		if meant := misspellingOf(key); meant != "" {
			errs = append(errs, misspelledError(key, meant))
			continue
		}

		c.Properties[key] = data[key]
	}

	return append(errs, checkPairs(c.Properties, dataPath)...)
}

// checkScripts requires both scripts or none: with one alone, the other operation would run the image's entrypoint. It
// refuses keys that have no effect with scripts, or without them.
func checkScripts(data map[string]string) field.ErrorList {
	_, provision := data[keyProvision]
	_, remove := data[keyDelete]
	_, listable := data[keyListable]
	_, flexctl := data[keyFlexctl]
	switch {
	case provision && !remove:
		return field.ErrorList{field.Required(dataPath.Key(keyDelete),
			"inline scripts come in pairs: without it the storage would never be removed")}
	case remove && !provision:
		return field.ErrorList{field.Required(dataPath.Key(keyProvision),
			"inline scripts come in pairs: without it no storage would be made")}
	case provision && listable:
		return field.ErrorList{field.Forbidden(dataPath.Key(keyListable),
			"in a class with inline scripts the image's entrypoint is never run; remove the key")}
	case flexctl && !provision:
		return field.ErrorList{field.Forbidden(dataPath.Key(keyFlexctl),
			"flexctl is put into pods that run inline scripts only; remove the key")}
	}

	return nil
}

// checkExpand sets Expandable from the script Expand, or without inline scripts from the key. In a class with inline
// scripts the image's entrypoint is never run, so only a script counts.
func (c *Config) checkExpand(data map[string]string) field.ErrorList {
	_, inline := data[keyProvision]
	_, script := data[keyExpand]
	_, set := data[keyExpandable]
	switch {
	case script && !inline:
		return field.ErrorList{field.Required(dataPath.Key(keyProvision),
			"an inline script to expand comes with those to provision and delete; for an image write "+
				keyExpandable+`: "true" instead`)}
	case inline && set:
		return field.ErrorList{field.Forbidden(dataPath.Key(keyExpandable),
			"in a class with inline scripts the script "+keyExpand+" says so; remove the key")}
	}

	c.Expandable = c.Expandable || script

	return nil
}

// pair is an ability that takes two scripts, or an image that says so by a key. what completes the sentences about it.
type pair struct {
	do, undo, key                string
	what, withoutUndo, withoutDo string
}

var (
	checkSnapshots = pair{keySnapshot, keyDropSnapshot, keySnapshots, "for snapshots",
		"snapshots would never be removed", "no snapshot would be taken"}
	checkAttachments = pair{keyAttach, keyDetach, keyAttachments, "to attach volumes",
		"no volume would be taken away from a node", "no node would reach a volume"}
)

// of sets able from the scripts, or without inline scripts from the key, as checkExpand does. With one script alone,
// what is done would never be undone, or never be done.
func (p pair) of(data map[string]string, able *bool) field.ErrorList {
	_, inline := data[keyProvision]
	_, do := data[p.do]
	_, undo := data[p.undo]
	_, set := data[p.key]
	switch {
	case do && !undo:
		return field.ErrorList{field.Required(dataPath.Key(p.undo), fmt.Sprintf("inline scripts %s come in pairs: "+
			"without it %s; for an image write %s: \"true\" instead", p.what, p.withoutUndo, p.key))}
	case undo && !do:
		return field.ErrorList{field.Required(dataPath.Key(p.do),
			fmt.Sprintf("inline scripts %s come in pairs: without it %s", p.what, p.withoutDo))}
	case do && !inline:
		return field.ErrorList{field.Required(dataPath.Key(keyProvision), fmt.Sprintf("inline scripts %s come with "+
			"those to provision and delete; for an image write %s: \"true\" instead", p.what, p.key))}
	case inline && set:
		return field.ErrorList{field.Forbidden(dataPath.Key(p.key), fmt.Sprintf("in a class with inline scripts the "+
			"script %s says so; remove the key", p.do))}
	}

	*able = *able || do

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
