package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
)

// TestNeighbours: what docs/in-your-cluster.md says was tried is a test, and the lines for a ConfigMap are valid.
func TestNeighbours(t *testing.T) {
	page := read(t, "docs/in-your-cluster.md")
	var tests []string
	for _, name := range walk(t, func(name string) bool { return strings.HasSuffix(name, "_test.go") }) {
		for _, match := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(read(t, name), -1) {
			tests = append(tests, match[1])
		}
	}

	tried := 0
	for _, word := range spans(page) {
		if !strings.HasPrefix(word, "Test") {
			continue
		}

		tried++
		if !slices.Contains(tests, word) {
			t.Errorf("the page names %s, which is no test", word)
		}
	}

	lines := regexp.MustCompile(`(?m)^    (pod-labels|pod-annotations|flexctl): .*(\n      .*)*`).FindAllString(page, -1)
	for _, line := range lines {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "silver", Namespace: "flex-provisioners",
			Labels: map[string]string{"storage-class": "silver", "type": "provisioner-config"}}}
		if err := yaml.Unmarshal([]byte(strings.ReplaceAll(line, "\n    ", "\n")[4:]), &cm.Data); err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}

		for key, value := range map[string]string{"plugin-name": "flex-provisioner.io/dispatcher", "image": "x",
			"service-account-name": "silver", "provision": "true", "delete": "true"} {
			cm.Data[key] = value
		}

		if _, faults := configmaps.Parse(cm); len(faults) > 0 {
			t.Errorf("%s: %v", line, faults.ToAggregate())
		}
	}

	if tried < 4 || len(lines) != 4 {
		t.Errorf("the page names %d tests and has %d lines for a ConfigMap: this test looks in the wrong place", tried, len(lines))
	}
}
