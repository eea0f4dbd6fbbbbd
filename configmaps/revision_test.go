package configmaps

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

func goodConfigMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "one", UID: "u1", ResourceVersion: "7", Labels: map[string]string{LabelType: TypeProvisioner, keyStorageClass: "silver"}},
		Data:       map[string]string{keyPluginName: "example.com/p", "image": "example.com/i", "service-account-name": "s", "zone": "<west>", keyServiceToken: "very secret"},
	}
}

func kept(t *testing.T, cm *corev1.ConfigMap) *appsv1.ControllerRevision {
	t.Helper()
	config, faults := Parse(cm)
	if len(faults) > 0 {
		t.Fatal(faults.ToAggregate())
	}

	revision, err := NewRevision(cm, config, 3)
	if err != nil {
		t.Fatal(err)
	}

	return revision
}

// What is kept of a ConfigMap says what the ConfigMap said, but for a token.
func TestRevision(t *testing.T) {
	cm := goodConfigMap()
	revision := kept(t, cm)
	if text := string(revision.Data.Raw); strings.Contains(text, "secret") || !strings.Contains(text, "<west>") || strings.Contains(text, "\n") {
		t.Errorf("kept is %s", text)
	}

	broken := cm.DeepCopy()
	broken.ResourceVersion, broken.Data = "9", map[string]string{"image": ""}
	got, err := ParseRevision(revision, broken)
	if err != nil {
		t.Fatal(err)
	}

	if config, _ := Parse(cm); got.Digest != config.Digest || got.UID != cm.UID {
		t.Errorf("kept are digest %s and UID %s, want %s and %s", got.Digest, got.UID, config.Digest, cm.UID)
	}

	if said := fmt.Sprint(got.Namespace, got.Name, got.ResourceVersion, got.StorageClass, got.Image, got.Properties, got.LiteralToken); said != "nsone7silverexample.com/imap[zone:<west>] false" {
		t.Errorf("the kept version says %s", said)
	}
}

// Each change of what a ConfigMap says is another name, and no other change is. Every name is one.
func TestRevisionName(t *testing.T) {
	name := kept(t, goodConfigMap()).Name
	for what, c := range map[string]struct {
		change func(cm *corev1.ConfigMap)
		same   bool
	}{
		"its version":      {func(cm *corev1.ConfigMap) { cm.ResourceVersion = "8" }, true},
		"another label":    {func(cm *corev1.ConfigMap) { cm.Labels["team"] = "a" }, true},
		"a property":       {func(cm *corev1.ConfigMap) { cm.Data["zone"] = "east" }, false},
		"the class":        {func(cm *corev1.ConfigMap) { cm.Labels[keyStorageClass] = "gold" }, false},
		"made anew":        {func(cm *corev1.ConfigMap) { cm.UID = "u2" }, false},
		"the longest name": {func(cm *corev1.ConfigMap) { cm.Name = strings.Repeat("a.", 126) + "a" }, false},
	} {
		cm := goodConfigMap()
		c.change(cm)
		got := kept(t, cm).Name
		if (got == name) != c.same || len(validation.IsDNS1123Subdomain(got)) > 0 {
			t.Errorf("%s: %s, before it was %s", what, got, name)
		}
	}
}

// A kept version passes the checks of every ConfigMap, and is of no other one.
func TestRevisionIsRefused(t *testing.T) {
	cm := goodConfigMap()
	for name, c := range map[string]struct {
		change func(r *appsv1.ControllerRevision)
		want   string
	}{
		"of another ConfigMap":     {func(r *appsv1.ControllerRevision) { r.OwnerReferences[0].UID = "u2" }, "is not of ConfigMap one"},
		"of nobody":                {func(r *appsv1.ControllerRevision) { r.OwnerReferences = nil }, "is not of ConfigMap one"},
		"held by somebody else":    {func(r *appsv1.ControllerRevision) { r.OwnerReferences[0].Controller = nil }, "is not of ConfigMap one"},
		"empty":                    {func(r *appsv1.ControllerRevision) { r.Data.Raw = nil }, "decode ControllerRevision"},
		"a pod template":           {func(r *appsv1.ControllerRevision) { r.Data.Raw = []byte(`{"spec":{"template":{}}}`) }, "metadata.resourceVersion is none"},
		"a version of its own":     {replace(`"7"`, `"7\n8"`), "metadata.resourceVersion is none"},
		"a name that is refused":   {replace(`"zone"`, `"LD_PRELOAD"`), "LD_PRELOAD, which is refused"},
		"without an image":         {replace(`"image":`, `"zmage":`), "data[image]: Required value"},
		"not a provisioner's":      {replace(`"type":"provisioner-config"`, `"type":"x"`), "metadata.labels[type]"},
		"a class that is no class": {replace(`"silver"`, `"../x"`), "metadata.labels[storage-class]"},
	} {
		revision := kept(t, cm)
		c.change(revision)
		if _, err := ParseRevision(revision, cm); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func replace(this, by string) func(r *appsv1.ControllerRevision) {
	return func(r *appsv1.ControllerRevision) {
		r.Data.Raw = []byte(strings.ReplaceAll(string(r.Data.Raw), this, by))
	}
}

// What is larger than the API server takes is not kept.
func TestRevisionIsBounded(t *testing.T) {
	cm := goodConfigMap()
	config, faults := Parse(cm)
	if len(faults) > 0 {
		t.Fatal(faults.ToAggregate())
	}

	cm.Data = maps.Clone(cm.Data)
	cm.Data["blob"] = strings.Repeat("x", maxRevision)
	if _, err := NewRevision(cm, config, 1); err == nil || !strings.HasPrefix(err.Error(), "ConfigMap ns/one has 1048") {
		t.Errorf("%v", err)
	}
}

// The versions of a ConfigMap are those that it owns, and the latest is tried first.
func TestRevisionsOf(t *testing.T) {
	cm, yes := goodConfigMap(), true
	owned := func(number int64, owners ...metav1.OwnerReference) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{Revision: number, ObjectMeta: metav1.ObjectMeta{OwnerReferences: owners}}
	}
	own, other := metav1.OwnerReference{UID: cm.UID, Controller: &yes}, metav1.OwnerReference{UID: "u2", Controller: &yes}
	var numbers []int64
	for _, revision := range RevisionsOf([]*appsv1.ControllerRevision{owned(1, own), owned(4, other), owned(5), owned(6, metav1.OwnerReference{UID: cm.UID}), owned(3, own), owned(2, own)}, cm) {
		numbers = append(numbers, revision.Revision)
	}

	if fmt.Sprint(numbers) != "[3 2 1]" {
		t.Errorf("revisions %v, want 3, 2 and 1", numbers)
	}
}

func TestRevisionTooLarge(t *testing.T) {
	cm := goodConfigMap()
	config, _ := Parse(cm)
	size := len(kept(t, cm).Data.Raw) + 1 // and the end of the line
	cm.Data["zone"] += strings.Repeat("x", maxRevision-size)
	if _, err := NewRevision(cm, config, 1); err != nil {
		t.Errorf("as large as it may be: %v", err)
	}

	cm.Data["zone"] += "x"
	if _, err := NewRevision(cm, config, 1); err == nil || err.Error() != "ConfigMap ns/one has 1048577 bytes as JSON; of at most 1048576 a version is kept" {
		t.Errorf("a byte more: %v", err)
	}
}
