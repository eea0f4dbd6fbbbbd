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
