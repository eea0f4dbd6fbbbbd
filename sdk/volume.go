package sdk

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/bare"
)

// NewVolume returns a copy of the skeleton that is completed by v. The copy keeps the skeleton's name, claim, class, annotations and
// finalizers. The capacity can only grow. The error has all faults of v, each with its field. Only the API server checks the fields of
// the volume source.
func NewVolume(skeleton *corev1.PersistentVolume, v Volume) (*corev1.PersistentVolume, error) {
	err := bare.Filling{
		Has: sourceNames(skeleton.Spec.PersistentVolumeSource), Sources: sourceNames(v.Source),
		Requested: skeleton.Spec.Capacity[corev1.ResourceStorage], Capacity: v.Capacity,
		MountOptions: v.MountOptions, Annotations: v.Annotations,
	}.Check()
	if err != nil {
		return nil, err
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

// SetFSType gives a source that has a file system, and names none, the one of the class's parameter csi.storage.k8s.io/fstype. It
// changes nothing where the class has no such parameter, or the volume is a raw device.
func (v *Volume) SetFSType(request Request) error {
	name, err := bare.FSType(request)
	if name == "" || err != nil {
		return err
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

// NodeAffinity binds a volume to the nodes whose label has the value. A PersistentVolume can select nodes by labels only, and not by
// name. The label kubernetes.io/hostname (corev1.LabelHostname) has the node's name in most clusters. Where it does not,
// Request.NodeHostname has the label.
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
