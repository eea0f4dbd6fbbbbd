package sdk

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// NewVolume fills the skeleton in. The skeleton itself is left alone, and so are in the result its name, claim, class,
// annotations and finalizers; the capacity can only grow. All that is wrong with v is in the error at once, each with its
// field. What a volume source has to hold is checked by the API server alone.
func NewVolume(skeleton *corev1.PersistentVolume, v Volume) (*corev1.PersistentVolume, error) {
	requested := skeleton.Spec.Capacity[corev1.ResourceStorage]
	errs := slices.Concat(
		checkSource(skeleton.Spec.PersistentVolumeSource, v.Source),
		checkCapacity(requested, v.Capacity),
		checkMountOptions(v.MountOptions),
		checkAnnotations(v.Annotations),
	)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	volume, filling := skeleton.DeepCopy(), v.deepCopy()
	volume.Spec.PersistentVolumeSource = filling.Source
	if !filling.Capacity.IsZero() {
		volume.Spec.Capacity[corev1.ResourceStorage] = filling.Capacity
	}
	if filling.NodeAffinity != nil {
		volume.Spec.NodeAffinity = filling.NodeAffinity
	}
	for _, option := range filling.MountOptions {
		if !slices.Contains(volume.Spec.MountOptions, option) {
			volume.Spec.MountOptions = append(volume.Spec.MountOptions, option)
		}
	}
	if volume.Annotations == nil {
		volume.Annotations = map[string]string{}
	}
	maps.Copy(volume.Annotations, filling.Annotations)
	return volume, nil
}

// fsTypeForm is of names of file systems as the kubelet passes them to mount.
var fsTypeForm = regexp.MustCompile(`^[a-z0-9]{1,16}$`)

// SetFSType gives a source that has a file system, and names none, the one of the class's parameter csi.storage.k8s.io/fstype. It
// changes nothing where the class has no such parameter, or the volume is a raw device.
func (v *Volume) SetFSType(request Request) error {
	name := request.Parameters[contract.ParameterFSType]
	if name == "" || request.VolumeMode == string(corev1.PersistentVolumeBlock) {
		return nil
	}
	if !fsTypeForm.MatchString(name) {
		return Refuse(fmt.Errorf("parameter %s of class %s is %q: it must be the name of a file system, such as ext4 or xfs", contract.ParameterFSType, request.StorageClass, name))
	}
	set := func(into *string) {
		if *into == "" {
			*into = name
		}
	}
	switch s := &v.Source; {
	case s.ISCSI != nil:
		set(&s.ISCSI.FSType)
	case s.FC != nil:
		set(&s.FC.FSType)
	case s.RBD != nil:
		set(&s.RBD.FSType)
	case s.CSI != nil:
		set(&s.CSI.FSType)
	case s.Local != nil && s.Local.FSType == nil:
		s.Local.FSType = &name
	}
	return nil
}

// NodeAffinity pins a volume to the nodes whose label has the value. A PersistentVolume can only select by label, never by
// the node's name; the label kubernetes.io/hostname (corev1.LabelHostname) is the name of a node in most clusters, but
// not where the cloud's and the host's names differ.
func NodeAffinity(label, value string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: label, Operator: corev1.NodeSelectorOpIn, Values: []string{value},
		}},
	}}}}
}

func (v Volume) deepCopy() Volume {
	return Volume{
		Source:       *v.Source.DeepCopy(),
		Capacity:     v.Capacity.DeepCopy(),
		NodeAffinity: v.NodeAffinity.DeepCopy(),
		MountOptions: slices.Clone(v.MountOptions),
		Annotations:  maps.Clone(v.Annotations),
	}
}

func checkSource(skeleton, made corev1.PersistentVolumeSource) field.ErrorList {
	path := field.NewPath("volume source")
	if names := sourceNames(skeleton); len(names) > 0 {
		return field.ErrorList{field.Forbidden(path, "the skeleton has one already: "+strings.Join(names, ", "))}
	}
	switch names := sourceNames(made); len(names) {
	case 0:
		return field.ErrorList{field.Required(path, "name exactly one, for example nfs or csi")}
	case 1:
		return nil
	default:
		return field.ErrorList{field.Invalid(path, strings.Join(names, ", "), "a volume has exactly one")}
	}
}

// sourceNames are the JSON names of the sources that are set. PersistentVolumeSource is a struct of pointers.
func sourceNames(source corev1.PersistentVolumeSource) []string {
	var names []string
	value := reflect.ValueOf(source)
	for i := range value.NumField() {
		if !value.Field(i).IsNil() {
			name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}

func checkCapacity(requested, made resource.Quantity) field.ErrorList {
	if made.IsZero() || made.Cmp(requested) >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("capacity"), made.String(),
		"less than the "+requested.String()+" that the claim asks for would never bind")}
}

func checkMountOptions(options []string) field.ErrorList {
	var errs field.ErrorList
	for i, option := range options {
		if option == "" || strings.ContainsFunc(option, unicode.IsControl) {
			errs = append(errs, field.Invalid(field.NewPath("mountOptions").Index(i), option,
				"must not be empty or hold control characters"))
		}
	}
	return errs
}

// reservedDomains are those whose annotations mean something to Kubernetes or to the dispatcher: mount options, a group
// for the pod, who deletes the volume, where its storage is.
var reservedDomains = []string{"kubernetes.io", "k8s.io", "flex-provisioner.io"}

func checkAnnotations(annotations map[string]string) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		path := field.NewPath("annotations").Key(key)
		for _, fault := range validation.IsQualifiedName(strings.ToLower(key)) {
			errs = append(errs, field.Invalid(path, key, fault))
		}
		domain, _, found := strings.Cut(key, "/")
		if !found {
			errs = append(errs, field.Invalid(path, key, "must begin with a domain of yours, such as example.com/"))
		}
		for _, reserved := range reservedDomains {
			if lower := strings.ToLower(domain); found && (lower == reserved || strings.HasSuffix(lower, "."+reserved)) {
				errs = append(errs, field.Forbidden(path, reserved+" is reserved; use a domain of yours, such as example.com/"))
			}
		}
	}
	return errs
}
