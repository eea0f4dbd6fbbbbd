package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/internal/documents"
	"github.com/flex-provisioner/flex-provisioner/internal/quantity"
)

// shapes are Kubernetes' types of volume sources and node affinity: for each type and field the field's type, as Go writes it. A test
// compares them with k8s.io/api. To import these types would double the size of the program.
var shapes = readShapes(shapesText)

//go:embed shapes.json
var shapesText []byte

func readShapes(text []byte) map[string]map[string]string {
	var all map[string]map[string]string
	if err := json.Unmarshal(text, &all); err != nil {
		panic(err) // the file is a part of the program
	}
	document := maps.Clone(all[sourceShape])
	maps.Copy(document, map[string]string{"capacity": "quantity", "nodeAffinity": "VolumeNodeAffinity", "mountOptions": "[]string", "annotations": "map[string]string"})
	all[documentShape] = document
	return all
}

// Names of shapes: the input of create-pv, and the volume sources in it.
const (
	documentShape = "document"
	sourceShape   = "PersistentVolumeSource"
)

// parseVolume is strict: an unknown field is an error, which lists the known ones. name is that of the input, for errors.
func parseVolume(name string, data []byte) (volumeInput, error) {
	text, err := onlyDocument(name, data)
	if err != nil {
		return volumeInput{}, err
	}
	if !bytes.HasPrefix(text, []byte("{")) {
		return volumeInput{}, fmt.Errorf("the input is %s, but should be a volume source such as `nfs: {server: 10.0.0.1, path: /exports/x}`", text)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var document object
	if err := decoder.Decode(&document); err != nil {
		return volumeInput{}, err
	}
	c := checker{}
	c.check("", document, documentShape)
	if err := errors.Join(append(c.wrong, c.unknown...)...); err != nil {
		return volumeInput{}, err
	}
	f := volumeInput{sources: object{}}
	if f.capacity, err = parseCapacity(document["capacity"]); err != nil {
		return volumeInput{}, err
	}
	for key, value := range document {
		if _, source := shapes[sourceShape][key]; source && value != nil {
			f.sources[key] = value
		}
	}
	f.nodeAffinity, _ = document["nodeAffinity"].(object)
	options, _ := document["mountOptions"].([]any)
	for _, option := range options {
		text, _ := option.(string)
		f.mountOptions = append(f.mountOptions, text)
	}
	annotations, _ := document["annotations"].(object)
	for key, value := range annotations {
		if f.annotations == nil {
			f.annotations = map[string]string{}
		}
		f.annotations[key], _ = value.(string)
	}
	return f, nil
}

// parseCapacity parses a quantity. Its errors name the field.
func parseCapacity(value any) (resource.Quantity, error) {
	if value == nil {
		return resource.Quantity{}, nil
	}
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

// checker compares values with shapes, and collects the faults.
type checker struct{ wrong, unknown []error }

func (c *checker) check(path string, value any, shape string) {
	item, isList := strings.CutPrefix(shape, "[]")
	item, isMap := strings.CutPrefix(item, "map[string]")
	switch fields, known := shapes[shape]; {
	case value == nil || shape == "quantity":
	case isList:
		list, ok := value.([]any)
		c.fits(ok, path, value, "a list")
		for i, one := range list {
			c.check(fmt.Sprintf("%s[%d]", path, i), one, item)
		}
	case isMap || known:
		object, ok := value.(object)
		c.fits(ok, path, value, "a mapping")
		for _, key := range slices.Sorted(maps.Keys(object)) {
			below := strings.TrimPrefix(path+"."+key, ".")
			of, there := fields[key]
			if isMap {
				of, there = item, true
			}
			if !there {
				c.unknown = append(c.unknown, unknownField(path, below, fields))
				continue
			}
			c.check(below, object[key], of)
		}
	case shape == "string":
		_, ok := value.(string)
		c.fits(ok, path, value, "text; put it in quotes")
	case shape == "bool":
		_, ok := value.(bool)
		c.fits(ok, path, value, "true or false")
	default: // int32 and int64
		number, _ := value.(json.Number)
		bits, _ := strconv.Atoi(strings.TrimPrefix(shape, "int"))
		_, err := strconv.ParseInt(number.String(), 10, bits)
		c.fits(err == nil, path, value, "a number")
	}
}

func (c *checker) fits(ok bool, path string, value any, want string) {
	if !ok {
		c.wrong = append(c.wrong, fmt.Errorf("%s: is a %s and should be %s", path, kindOf(value), want))
	}
}

func unknownField(parent, path string, fields map[string]string) error {
	known := strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
	if parent == "" {
		return fmt.Errorf("unknown field %q; known are %s", path, known)
	}
	return fmt.Errorf("unknown field %q; known in %s are %s", path, parent, known)
}

// kindOf is JSON's word for the type of a value. A number is part of it, since it may be out of range.
func kindOf(value any) string {
	switch value := value.(type) {
	case string:
		return "string"
	case bool:
		return "bool"
	case []any:
		return "array"
	case json.Number:
		if strings.ContainsAny(value.String(), ".eE") {
			return "number " + value.String()
		}
		return "number"
	}
	return "object"
}
