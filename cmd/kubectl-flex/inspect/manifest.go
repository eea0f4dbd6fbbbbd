package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	strictjson "sigs.k8s.io/json"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/configmaps/allowlist"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Manifest has the objects of a class, as read from files.
type Manifest struct {
	ConfigMaps []*corev1.ConfigMap
	Classes    []*storagev1.StorageClass
	Claims     []*corev1.PersistentVolumeClaim
	AllowList  *corev1.ConfigMap
	// Exists has the namespaces of each ServiceAccount, Secret and claim in the files.
	Exists map[Ref][]string
	// Skipped lists the objects that belong to no class, as file:line: kind name.
	Skipped []string
	nodes   map[any]place
}

// Ref names a ServiceAccount, a Secret or a claim of the provisioners' namespace.
type Ref struct{ Kind, Name string }

// place is the position of an object in a file.
type place struct {
	file string
	node *yamlv3.Node
}

// Fault is a fault of an object of a class.
type Fault struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Object is its kind and name.
	Object  string `json:"object"`
	Message string `json:"message"`
}

func (f Fault) String() string {
	where := ""
	if f.File != "" {
		where = fmt.Sprintf("%s:%d: ", f.File, f.Line)
	}
	return where + f.Object + ": " + f.Message
}

// Parse adds the objects of a file, including those of a List. Objects of other kinds are listed in Skipped.
func (m *Manifest) Parse(file string, text []byte) (faults []Fault) {
	decoder := yamlv3.NewDecoder(bytes.NewReader(text))
	for {
		var document yamlv3.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return faults
		}
		if err != nil {
			return append(faults, Fault{File: file, Line: lineIn(err, 1), Object: "YAML", Message: podspec.Clean(err.Error())})
		}
		faults = append(faults, m.add(file, &document)...)
	}
}

func (m *Manifest) add(file string, document *yamlv3.Node) []Fault {
	switch {
	case len(document.Content) == 0 || document.Content[0].Tag == "!!null":
		return nil
	case document.Content[0].Kind != yamlv3.MappingNode:
		return []Fault{{File: file, Line: document.Content[0].Line, Object: "YAML", Message: "is no object of Kubernetes"}}
	}
	return m.addNode(file, document.Content[0])
}

func (m *Manifest) addNode(file string, node *yamlv3.Node) []Fault {
	wrong := func(object string, err error) []Fault {
		return []Fault{{File: file, Line: lineIn(err, node.Line), Object: object, Message: podspec.Clean(err.Error())}}
	}
	var fields map[string]any
	if err := node.Decode(&fields); err != nil {
		return wrong("YAML", err)
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return wrong("YAML", err)
	}
	var meta metav1.PartialObjectMetadata
	_, err = strictjson.UnmarshalStrict(text, &meta)
	if err != nil {
		return wrong("metadata", err)
	}
	name := objectName(meta.Kind, meta.Namespace, meta.Name)
	decode := func(into any) (faults []Fault) {
		strict, err := strictjson.UnmarshalStrict(text, into)
		for _, err := range append(strict, err) {
			if err != nil {
				faults = append(faults, wrong(name, err)...)
			}
		}
		m.nodes[into] = place{file, node}
		return faults
	}
	skip := func() []Fault {
		m.Skipped = append(m.Skipped, fmt.Sprintf("%s:%d: %s", podspec.Clean(file), node.Line, name))
		return nil
	}
	switch meta.Kind {
	case "ConfigMap":
		cm := &corev1.ConfigMap{}
		faults := decode(cm)
		if cm.Name != allowlist.Name && cm.Labels[configmaps.LabelType] != configmaps.TypeProvisioner && configmaps.ClassName(cm) == "" && configmaps.PluginName(cm) == "" {
			return skip()
		}
		if cm.Name == allowlist.Name {
			m.AllowList = cm
		} else {
			m.ConfigMaps = append(m.ConfigMaps, cm)
		}
		return faults
	case "List":
		return m.addItems(file, node)
	case "StorageClass":
		class := &storagev1.StorageClass{}
		m.Classes = append(m.Classes, class)
		return decode(class)
	case "PersistentVolumeClaim":
		claim := &corev1.PersistentVolumeClaim{}
		m.Claims = append(m.Claims, claim)
		m.Exists[Ref{meta.Kind, meta.Name}] = append(m.Exists[Ref{meta.Kind, meta.Name}], meta.Namespace)
		return decode(claim)
	case "ServiceAccount", "Secret":
		m.Exists[Ref{meta.Kind, meta.Name}] = append(m.Exists[Ref{meta.Kind, meta.Name}], meta.Namespace)
		return nil
	}
	return skip()
}

// addItems adds the objects of a List, as kubectl get -o yaml writes them.
func (m *Manifest) addItems(file string, list *yamlv3.Node) (faults []Fault) {
	for i := 0; i+1 < len(list.Content); i += 2 {
		if list.Content[i].Value != "items" {
			continue
		}
		for _, item := range list.Content[i+1].Content {
			faults = append(faults, m.add(file, &yamlv3.Node{Content: []*yamlv3.Node{item}})...)
		}
	}
	return faults
}

// Nothing is the message for files without an object of a class, with the names of their objects. It is empty for other files.
func (m *Manifest) Nothing() string {
	if len(m.ConfigMaps)+len(m.Classes) > 0 {
		return ""
	}
	text := "no file has a StorageClass, or a ConfigMap with the label " + configmaps.LabelType + ": " + configmaps.TypeProvisioner
	if passed := m.PassedOver(); passed != "" {
		text += "; passed over: " + passed
	}
	return text
}

// PassedOver names the objects of the files that belong to no class, the first ten of them.
func (m *Manifest) PassedOver() string {
	const most = 10
	text := strings.Join(m.Skipped[:min(len(m.Skipped), most)], ", ")
	if more := len(m.Skipped) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

var lineNumber = regexp.MustCompile(`line ([0-9]+)`)

// lineIn is the line that an error of the YAML library names, or else other.
func lineIn(err error, other int) int {
	if match := lineNumber.FindStringSubmatch(err.Error()); match != nil {
		if line, err := strconv.Atoi(match[1]); err == nil {
			return line
		}
	}
	return other
}

// NewManifest returns an empty Manifest.
func NewManifest() *Manifest { return &Manifest{Exists: map[Ref][]string{}, nodes: map[any]place{}} }

func objectName(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return podspec.Clean(kind + " " + name)
}

// fault is a Fault of a field of an object, with its line if the object is from a file.
func (m *Manifest) fault(object any, name, path, message string) Fault {
	f := Fault{Object: name, Message: podspec.EventMessage(message)}
	if at, ok := m.nodes[object]; ok {
		f.File, f.Line = at.file, lineOf(at.node, path)
	}
	return f
}

// lineOf is the line of the field at a path such as data[timeout] or metadata.labels[type]. If the field is missing, it is the line of the
// last part of the path that exists.
func lineOf(node *yamlv3.Node, path string) int {
	line := node.Line
	for _, key := range strings.FieldsFunc(strings.NewReplacer("[", "\x00", "]", "").Replace(bracketed(path)), func(r rune) bool { return r == 0 }) {
		i := slices.IndexFunc(node.Content, func(n *yamlv3.Node) bool { return n.Value == key })
		if node.Kind != yamlv3.MappingNode || i < 0 || i+1 >= len(node.Content) {
			return line
		}
		line, node = node.Content[i].Line, node.Content[i+1]
	}
	return line
}

// bracketed replaces each dot outside of brackets by an opening bracket, so that every part of a path begins with one.
func bracketed(path string) string {
	var b strings.Builder
	b.WriteByte('[')
	depth := 0
	for _, r := range path {
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case r == '.' && depth == 0:
			r = '['
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Overlay replaces objects of the cluster by those of the manifest.
func (o *Objects) Overlay(m *Manifest) {
	o.index = nil
	for _, cm := range m.ConfigMaps {
		if cm.Namespace == "" {
			cm.Namespace = o.Dispatcher.Namespace
		}
		o.ConfigMaps = append(slices.DeleteFunc(slices.Clone(o.ConfigMaps), func(old *corev1.ConfigMap) bool { return old.Name == cm.Name }), cm)
	}
	for _, class := range m.Classes {
		o.Classes = append(slices.DeleteFunc(slices.Clone(o.Classes), func(old *storagev1.StorageClass) bool { return old.Name == class.Name }), class)
	}
	if m.AllowList != nil {
		o.AllowList = merged(o.AllowList, m.AllowList)
	}
	if o.Exists == nil {
		o.Exists = map[Ref]bool{}
	}
	for ref, namespaces := range m.Exists {
		if slices.Contains(namespaces, o.Dispatcher.Namespace) || slices.Contains(namespaces, "") {
			o.Exists[ref] = true
		}
	}
}

// merged has the lines of both ConfigMaps. The file has the lines of one class's ServiceAccount only.
func merged(old, now *corev1.ConfigMap) *corev1.ConfigMap {
	if old == nil {
		return now
	}
	both := old.DeepCopy()
	for key, value := range now.Data {
		if both.Data == nil {
			both.Data = map[string]string{}
		}
		both.Data[key] = value
	}
	return both
}

// Offline marks every kind as unread and sets the defaults of deploy/base, for use without a cluster.
func Offline(o *Objects) *Objects {
	for _, kind := range []Kind{Claims, Volumes, Pods, ConfigMaps, Classes, Events, Policies, Lease, Deployment, AllowList} {
		o.Unread = append(o.Unread, Unread{Kind: kind})
	}
	o.Dispatcher = DispatcherOptions{Provisioner: contract.ProvisionerName, Namespace: contract.ProvisionersNamespace, System: contract.SystemNamespace}
	return o
}
