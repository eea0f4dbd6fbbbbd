package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/internal/quantity"
	"github.com/flex-provisioner/flex-provisioner/sdk/bare"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// object is an object of the API, or a part of one, as decoded JSON. Kubernetes' types would double the size of the program.
type object = map[string]any

// volumeFile is the content of contract.VolumeFile, which the dispatcher wrote.
type volumeFile struct {
	APIVersion string
	Kind       string
	Metadata   struct {
		Name        string            `json:"name"`
		Labels      map[string]string `json:"labels,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
		Finalizers  []string          `json:"finalizers,omitempty"`
	}
	Spec object
}

// loadVolume reads contract.VolumeFile: for provision the skeleton, for delete or expand the volume. It is nil for an undo. A volume of
// another name or claim is an error.
func loadVolume(root string, request contract.Request) (*volumeFile, error) {
	file, data, err := bare.ReadVolume(root, request)
	if len(data) == 0 {
		return nil, err
	}
	volume := &volumeFile{}
	if data, err = yaml.YAMLToJSON(data); err == nil {
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.UseNumber()
		err = decoder.Decode(volume)
	}
	if err != nil {
		return nil, fmt.Errorf("read volume %s: %w", file, err)
	}
	claim, _ := volume.Spec["claimRef"].(object)
	claimUID, _ := claim["uid"].(string)
	if err := bare.CheckVolume(file, request, volume.Metadata.Name, claimUID); err != nil {
		return nil, err
	}
	return volume, nil
}

// volumeInput is what the script gives of the volume.
type volumeInput struct {
	// sources are volume sources by their names; there should be one.
	sources      object
	capacity     resource.Quantity
	nodeAffinity object
	mountOptions []string
	annotations  map[string]string
}

// newVolume completes the skeleton. It keeps the name, claim, class, annotations and finalizers of the skeleton. The capacity can only
// grow. fsType is the class's, for a source that has a file system and does not name it.
func newVolume(s *volumeFile, f volumeInput, fsType string) (object, error) {
	requested, err := requestedOf(s)
	if err != nil {
		return nil, err
	}
	err = bare.Filling{Has: sourcesOf(s.Spec), Sources: slices.Sorted(maps.Keys(f.sources)), Requested: requested, Capacity: f.capacity,
		MountOptions: f.mountOptions, Annotations: f.annotations}.Check()
	if err != nil {
		return nil, err
	}
	spec, metadata := maps.Clone(s.Spec), s.Metadata
	for name, fields := range f.sources {
		spec[name] = fields
		if fields, ok := fields.(object); ok && fsType != "" && slices.Contains(formatted, name) && (fields["fsType"] == nil || fields["fsType"] == "") {
			fields["fsType"] = fsType
		}
	}
	if !f.capacity.IsZero() {
		spec["capacity"] = object{"storage": f.capacity.String()}
	}
	if f.nodeAffinity != nil {
		spec["nodeAffinity"] = f.nodeAffinity
	}
	if options, _ := spec["mountOptions"].([]any); len(f.mountOptions) > 0 {
		options = slices.Clone(options)
		for _, option := range f.mountOptions {
			if !slices.Contains(options, any(option)) {
				options = append(options, option)
			}
		}
		spec["mountOptions"] = options
	}
	metadata.Annotations = maps.Clone(metadata.Annotations)
	if metadata.Annotations == nil {
		metadata.Annotations = map[string]string{}
	}
	maps.Copy(metadata.Annotations, f.annotations)
	return object{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}, nil
}

// formatted are the sources on which the kubelet makes a file system.
var formatted = []string{"csi", "fc", "iscsi", "local", "rbd"}

func requestedOf(s *volumeFile) (resource.Quantity, error) {
	capacity, _ := s.Spec["capacity"].(object)
	size, err := quantity.Parse(fmt.Sprint(capacity["storage"]))
	if err != nil {
		return size, fmt.Errorf("read volume: spec.capacity.storage is %v: %w", capacity["storage"], err)
	}
	return size, nil
}

// sourcesOf lists the names of the volume sources in a spec, sorted.
func sourcesOf(spec object) []string {
	var names []string
	for name := range spec {
		if slices.Contains(sources, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
