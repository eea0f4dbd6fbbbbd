package classes

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/dispatchertest"
)

// What was good of a ConfigMap is good for no other one of its name, also where nobody saw that there was none in between.
func TestGoodOfAnotherConfigMap(t *testing.T) {
	good := &configmaps.Config{Name: "one", UID: "u1", ResourceVersion: "1"}
	for _, c := range []struct {
		uid  types.UID
		want *configmaps.Config
	}{{"u1", good}, {"u2", nil}} {
		j, _ := Judge("silver", good, dispatchertest.Noon, Objects{
			Provisioner: "p",
			Class: func(name string) *storagev1.StorageClass {
				return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "p"}
			},
			Classes: func() []*storagev1.StorageClass { return nil },
			ConfigMapsOf: func(string) []*corev1.ConfigMap {
				return []*corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Name: "one", UID: c.uid, ResourceVersion: "2"}}}
			},
			RevisionsOf: func(*corev1.ConfigMap) []*appsv1.ControllerRevision { return nil },
		})
		if j.Good != nil || j.InForce != c.want || j.Outdated != (c.want != nil) || (j.Problem == "") != (c.want != nil) {
			t.Errorf("with faults in %s: %+v, want %v in force", c.uid, j, c.want)
		}
	}
}
