package classes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// TestMisnamedPlugin: the claims of a class whose ConfigMap is for another provisioner are told so.
func TestMisnamedPlugin(t *testing.T) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "one",
		Labels: map[string]string{"storage-class": "silver"}}, Data: map[string]string{"plugin-name": "pp"}}
	for of, want := range map[string]string{
		"p":  `ConfigMap ns/one is there, but its plugin-name is "pp", not p: an administrator has to correct it`,
		"pp": "", // it is another dispatcher's, with its class
	} {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "silver"}, Provisioner: of}
		j, _ := Resolve("silver", nil, dispatchertest.Noon, Objects{Provisioner: "p",
			Classes: []*storagev1.StorageClass{class}, ConfigMaps: []*corev1.ConfigMap{cm}})
		if j.Present || j.Problem != want {
			t.Errorf("class of %s: %q, want %q", of, j.Problem, want)
		}
	}
}

// What was good of a ConfigMap is good for no other one of its name, also where nobody saw that there was none in between.
func TestGoodOfAnotherConfigMap(t *testing.T) {
	good := &configmaps.Config{Name: "one", UID: "u1", ResourceVersion: "1"}
	before := good
	for _, c := range []struct {
		uid  types.UID
		want *configmaps.Config
	}{{"u1", good}, {"u2", nil}, {"u1", nil}} {
		j, _ := Resolve("silver", before, dispatchertest.Noon, Objects{
			Provisioner: "p",
			Classes:     []*storagev1.StorageClass{{ObjectMeta: metav1.ObjectMeta{Name: "silver"}, Provisioner: "p"}},
			ConfigMaps: []*corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Name: "one", UID: c.uid, ResourceVersion: "2",
				Labels: map[string]string{"storage-class": "silver"}}}},
		})
		if j.Good != nil || j.InForce != c.want || j.Outdated != (c.want != nil) || (j.Problem == "") != (c.want != nil) {
			t.Errorf("with faults in %s: %+v, want %v in force", c.uid, j, c.want)
		}

		before = j.InForce
	}
}
