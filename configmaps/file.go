package configmaps

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/internal/documents"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// IsManifest reports whether a file holds objects of Kubernetes and not a program, by the extension, or else by its
// first line that is neither empty nor a comment. A file that begins with #! is a program, whatever its name.
func IsManifest(name string, data []byte) bool {
	if bytes.HasPrefix(data, []byte("#!")) {
		return false
	}

	if slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(name))) {
		return true
	}

	return manifestStart.Match(data)
}

// manifestStart matches a first key that objects of Kubernetes or ConfigMaps have. No command of a shell ends in a
// colon.
var manifestStart = regexp.MustCompile(`\A(?:\x{FEFF})?(?:\s|#.*\n|%.*\n|---.*\n)*` +
	`(?:\{\s*)?["']?(?:apiVersion|kind|metadata|data|binaryData|immutable)["']?\s*:\s`)

// FromFile is the provisioner ConfigMap in a file, which has to have exactly one. Parse has to check it. Errors name
// the file and the line, and show no value.
func FromFile(name string, data []byte) (*corev1.ConfigMap, error) {
	var found [][]byte
	var names, others []string
	for _, document := range documents.Split(data) {
		object, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, documents.NotYAML(name, document, err)
		}

		var head metav1.PartialObjectMetadata
		if err := yaml.Unmarshal(object, &head); err != nil {
			return nil, fmt.Errorf("%s: holds what is no object of Kubernetes: its kind, names or labels are no text",
				name)
		}

		switch {
		case head.Kind == "":
		case head.Kind != "ConfigMap":
			others = append(others, head.Kind)
		case head.Labels[LabelType] == TypeProvisioner:
			found, names = append(found, document), append(names, head.Name)
		default:
			others = append(others, fmt.Sprintf("a ConfigMap without the label %s: %s", LabelType, TypeProvisioner))
		}
	}

	switch {
	case len(found) > 1:
		return nil, fmt.Errorf("%s: holds %d provisioner ConfigMaps, %s: give a file with one of them",
			name, len(found), contract.Clean(strings.Join(names, ", ")))
	case len(found) == 1:
	case len(others) == 0:
		return nil, fmt.Errorf("%s: holds no object of Kubernetes: it needs kind: ConfigMap", name)
	default:
		return nil, fmt.Errorf("%s: holds no provisioner ConfigMap, but %s",
			name, contract.Clean(strings.Join(others, ", ")))
	}

	if err := checkValuesAreText(name, found[0]); err != nil {
		return nil, err
	}

	var cm corev1.ConfigMap
	if err := decode(string(bytes.TrimLeft(found[0], "\n")), &cm); err != nil {
		return nil, fmt.Errorf("%s: ConfigMap %s: %s", name, contract.Clean(names[0]), contract.OneLine(err.Error()))
	}

	return &cm, nil
}

// checkValuesAreText returns an error for the first value that is no text, the most frequent fault of ConfigMaps.
func checkValuesAreText(name string, document []byte) error {
	var cm struct{ Data map[string]any }
	if err := yaml.Unmarshal(document, &cm); err != nil {
		return fmt.Errorf("%s: data: must be a map", name)
	}

	for _, key := range slices.Sorted(maps.Keys(cm.Data)) {
		if _, text := cm.Data[key].(string); !text {
			return fmt.Errorf("%s: data[%s]: must be text: put it in quotes, or after | on lines of its own",
				name, contract.Clean(key))
		}
	}

	return nil
}
