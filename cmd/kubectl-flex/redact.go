package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// hidden stands for a value that may be a secret.
const hidden = "(redacted)"

// redactor takes what may be a secret out of objects and texts. It keeps values that are known to be none, and hides all
// others: what an administrator, a user or an image wrote may be anything. Values of settings that are called a secret
// are hidden wherever they are quoted, so that objects come before texts.
type redactor struct {
	words []string
}

// guarded matches the names of settings whose values are secrets.
var guarded = regexp.MustCompile(`(?i)pass|secret|token|key|chap|cred`)

// shortest is the length in bytes from which a value is hidden in texts. Shorter ones are there by chance.
const shortest = 6

// hide is for the value of a setting. An empty value says more than a hidden one.
func (r *redactor) hide(name, value string) string {
	if guarded.MatchString(name) && len(value) >= shortest && !slices.Contains(r.words, value) {
		r.words = append(r.words, value)
	}
	if value == "" {
		return ""
	}
	return hidden
}

// hideAll hides the values of a map but those of the keys that are known to be no secrets.
func (r *redactor) hideAll(values map[string]string, known func(key string) bool) map[string]string {
	shown := maps.Clone(values)
	for key, value := range values {
		if !known(key) {
			shown[key] = r.hide(key, value)
		}
	}
	return shown
}

func none(string) bool { return false }

func among(names ...string) func(string) bool {
	return func(name string) bool { return slices.Contains(names, name) }
}

// plainAnnotations are those that Kubernetes and the dispatcher write, and that hold names, times and yes or no.
var plainAnnotations = among(contract.AnnClaim, contract.AnnClass, contract.AnnConfig, contract.AnnVolumeUID,
	contract.AnnSuspect, contract.AnnNode, contract.AnnSettled, contract.AnnRetry, contract.AnnUndo, contract.AnnUndoes,
	contract.AnnClaimUID, contract.AnnMadeBefore, contract.AnnAllowDelete, contract.AnnCloneRequest, contract.AnnCloneOf,
	contract.AnnBeingCreated, contract.AnnBeingDeleted, contract.AnnModeChange,
	contract.ProvisionedBy, "pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller",
	"volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner",
	"volume.kubernetes.io/selected-node", "storageclass.kubernetes.io/is-default-class", "deployment.kubernetes.io/revision")

// plainKey reports whether the value of a ConfigMap's key is none of a property and none of an administrator's own text.
func plainKey(key string) bool {
	free := among("service-token", "provision", "delete", "expand", "snapshot", "delete-snapshot", "pod-annotations", "pod-labels")
	return configmaps.IsReserved(key) && !free(key)
}

func (r *redactor) meta(m metav1.Object) {
	m.SetManagedFields(nil)
	m.SetAnnotations(r.hideAll(m.GetAnnotations(), plainAnnotations))
}

// object is a copy of an object without what may be a secret. Kinds that it does not know are an error.
func (r *redactor) object(o runtime.Object) (any, error) {
	object, ok := o.DeepCopyObject().(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("redact %T: it has no metadata", o)
	}
	recorded := object.GetAnnotations()[contract.AnnVolume]
	r.meta(object)
	switch o := object.(type) {
	case *corev1.PersistentVolumeClaim, *snapshotv1.VolumeSnapshot, *corev1.Event: // nothing else of them is hidden
	case *corev1.ConfigMap:
		r.configMap(o)
	case *storagev1.StorageClass:
		o.Parameters = r.hideAll(o.Parameters, among(contract.ParameterConfigFromClass, contract.ParameterFSType, contract.ParameterSmartClone))
		r.mountOptions(o.MountOptions)
	case *corev1.PersistentVolume:
		r.volume(o)
	case *corev1.Pod:
		r.podSpec(&o.Spec)
	case *appsv1.Deployment:
		r.meta(&o.Spec.Template.ObjectMeta)
		r.podSpec(&o.Spec.Template.Spec)
	case *appsv1.ControllerRevision:
		o.Data = runtime.RawExtension{} // a whole ConfigMap or pod
	case *snapshotv1.VolumeSnapshotClass:
		o.Parameters = r.hideAll(o.Parameters, none)
	case *snapshotv1.VolumeSnapshotContent:
		r.content(o, recorded)
	default:
		return nil, fmt.Errorf("redact %T: what it has is not known", o)
	}

	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var data map[string]any
	if err := json.Unmarshal(text, &data); err != nil {
		return nil, err
	}
	data["kind"] = reflect.TypeOf(object).Elem().Name()
	return data, nil
}

// content shows the volume of a content's record as a volume is shown.
func (r *redactor) content(o *snapshotv1.VolumeSnapshotContent, recorded string) {
	v := &corev1.PersistentVolume{}
	if json.Unmarshal([]byte(recorded), v) != nil {
		return
	}

	r.meta(v)
	r.volume(v)
	if text, err := json.Marshal(v); err == nil {
		o.Annotations[contract.AnnVolume] = string(text)
	}
}

func (r *redactor) configMap(cm *corev1.ConfigMap) {
	grants := cm.Labels[configmaps.LabelType] == "" && configmaps.ClassName(cm) == "" && configmaps.PluginName(cm) == ""
	known := plainKey
	if grants { // the allow-list, or stop-deletes
		known = func(string) bool { return true }
	}
	cm.Data = r.hideAll(cm.Data, known)
	for key, value := range cm.BinaryData {
		cm.BinaryData[key] = []byte(r.hide(key, string(value)))
	}
}

func (r *redactor) volume(v *corev1.PersistentVolume) {
	r.mountOptions(v.Spec.MountOptions)
	if csi := v.Spec.CSI; csi != nil {
		csi.VolumeAttributes = r.hideAll(csi.VolumeAttributes, none)
	}
	if flex := v.Spec.FlexVolume; flex != nil {
		flex.Options = r.hideAll(flex.Options, none)
	}
}

// mountOptions hides the values of mount options that are called a secret.
func (r *redactor) mountOptions(list []string) {
	for i, option := range list {
		if name, value, found := strings.Cut(option, "="); found && guarded.MatchString(name) {
			list[i] = name + "=" + r.hide(name, value)
		}
	}
}

// plainVariable reports whether a variable is one of the contract, which says what an attempt is for.
func plainVariable(name string) bool {
	return slices.ContainsFunc(contract.Request{}.Env(""), func(v contract.EnvVar) bool { return v.Name == name })
}

// podSpec hides what may be a secret in containers and volumes. The names of Secrets stay.
func (r *redactor) podSpec(spec *corev1.PodSpec) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			r.container(&containers[i])
		}
	}
	for i := range spec.EphemeralContainers {
		r.container((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	for _, volume := range spec.Volumes {
		if volume.CSI != nil {
			volume.CSI.VolumeAttributes = r.hideAll(volume.CSI.VolumeAttributes, none)
		}
		if volume.FlexVolume != nil {
			volume.FlexVolume.Options = r.hideAll(volume.FlexVolume.Options, none)
		}
	}
}

// container hides the values of variables, and what a container other than the dispatcher runs, such as a class's script.
func (r *redactor) container(c *corev1.Container) {
	for i, v := range c.Env {
		if !plainVariable(v.Name) {
			c.Env[i].Value = r.hide(v.Name, v.Value)
		}
	}
	if c.Name == "dispatcher" {
		return
	}

	for _, words := range [][]string{c.Command, c.Args} {
		for i := range words {
			words[i] = hidden
		}
	}
	c.Lifecycle, c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = nil, nil, nil, nil
}

// looks are what secrets look like in texts, and what is left of them.
var looks = []struct {
	like *regexp.Regexp
	left string
}{
	{regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(-----END [A-Z ]*PRIVATE KEY-----|\z)`), hidden},
	{regexp.MustCompile(`(://)[^/\s:@]+:[^/\s@]+@`), "${1}" + hidden + "@"},
	{regexp.MustCompile(`(?i)\b(bearer|basic) +[\w.~+/=-]{8,}`), "${1} " + hidden},
	{regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]*`), hidden},
	{regexp.MustCompile(`(?i)((?:passw(?:or)?d|passphrase|secret|token|credentials?|api-?key|secret-?key|private-?key|authorization)\\*["']?[ \t]*[:=][ \t]*\\*)(\(redacted\)|"[^"]*"|'[^']*'|[^\s,;"')]+)`),
		"${1}" + hidden},
}

// text hides in a text what looks like a secret, and what is known to be one.
func (r *redactor) text(text string) string {
	slices.SortFunc(r.words, func(a, b string) int { return len(b) - len(a) }) // one may be part of another
	for _, word := range r.words {
		text = strings.ReplaceAll(text, word, hidden)
	}
	for _, look := range looks {
		text = look.like.ReplaceAllString(text, look.left)
	}
	return text
}

// texts is text for every string within data.
func (r *redactor) texts(data any) any {
	switch data := data.(type) {
	case string:
		return r.text(data)
	case []any:
		for i := range data {
			data[i] = r.texts(data[i])
		}
	case map[string]any:
		for key, value := range data {
			data[key] = r.texts(value)
		}
	}
	return data
}
