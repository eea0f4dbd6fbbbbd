package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/internal/documents"
	"github.com/flex-provisioner/flex-provisioner/internal/quantity"
)

// sources are the names of Kubernetes' volume sources. A test compares them with k8s.io/api. Of their fields the API
// server says whether it knows them.
var sources = []string{"awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc", "flexVolume",
	"flocker", "gcePersistentDisk", "glusterfs", "hostPath", "iscsi", "local", "nfs", "photonPersistentDisk",
	"portworxVolume", "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume"}

// parseVolume refuses unknown keys. name is that of the input, for errors.
func parseVolume(name string, data []byte) (volumeInput, error) {
	v := volumeInput{sources: object{}}
	text, err := onlyDocument(name, data)
	if err != nil {
		return v, err
	}

	var document map[string]json.RawMessage
	if err := json.Unmarshal(text, &document); err != nil {
		return v, fmt.Errorf("the input is %s, but should be a volume source such as `nfs: {server: 10.0.0.1, path: /exports/x}`", text)
	}

	var errs []error
	for _, key := range slices.Sorted(maps.Keys(document)) {
		errs = append(errs, v.set(key, document[key]))
	}

	return v, errors.Join(errs...)
}

// set sets what a key of the input stands for.
func (v *volumeInput) set(key string, value json.RawMessage) error {
	if string(value) == "null" {
		return nil
	}

	fields, size := object{}, any(nil)
	var into any = &fields
	want := "a mapping"
	switch {
	case key == "capacity":
		into, want = &size, "a quantity"
	case key == "nodeAffinity":
		into = &v.nodeAffinity
	case key == "mountOptions":
		into, want = &v.mountOptions, "a list of text"
	case key == "annotations":
		into, want = &v.annotations, "a mapping, with text in quotes"
	case slices.Contains(sources, key):
		v.sources[key] = fields
	default:
		known := append([]string{"annotations", "capacity", "mountOptions", "nodeAffinity"}, sources...)
		return fmt.Errorf("unknown field %q; known are %s", key, strings.Join(known, ", "))
	}

	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("%s: should be %s", key, want)
	}

	var err error
	if size != nil {
		v.capacity, err = parseCapacity(size)
	}
	return err
}

// parseCapacity parses a quantity. Its errors name the field.
func parseCapacity(value any) (resource.Quantity, error) {
	size, err := quantity.Parse(fmt.Sprint(value))
	if err != nil {
		text, _ := json.Marshal(value)
		return size, fmt.Errorf("capacity: %s is no quantity; write for example 12Gi or a number of bytes", text)
	}
	return size, nil
}

// onlyDocument is the one document in data that is not empty, as JSON.
func onlyDocument(name string, data []byte) ([]byte, error) {
	var objects [][]byte
	for _, document := range documents.Split(data) {
		object, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, documents.NotYAML(name, document, err)
		}
		if string(object) != "null" {
			objects = append(objects, object)
		}
	}
	switch len(objects) {
	case 0:
		return nil, errors.New("the input is empty; write a volume source such as `nfs: {server: 10.0.0.1, path: /exports/x}`")
	case 1:
		return objects[0], nil
	}
	return nil, fmt.Errorf("the input holds %d documents; one claim has one volume, write one", len(objects))
}
