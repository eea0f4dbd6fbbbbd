package controller

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestClassBack: the library drops claims while their class is another provisioner's. It looks at those that wait again when the class is
// this dispatcher's.
func TestClassBack(t *testing.T) {
	controller, _ := idle(t)
	var again []string
	controller.Resync = func(claim *corev1.PersistentVolumeClaim) { again = append(again, claim.Name) }
	for _, c := range []struct{ name, class, beta, volume string }{
		{name: "waits", class: "silver"}, {name: "waits-too", beta: "silver"}, {name: "bound", class: "silver", volume: "pvc"}, {name: "of-gold", class: "gold"}, {name: "of-none"},
	} {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: c.name, UID: types.UID(c.name)}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: c.volume}}
		if c.class != "" {
			claim.Spec.StorageClassName = &c.class
		}

		if c.beta != "" {
			claim.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: c.beta}
		}

		add(t, controller.Cache.Claims.GetStore().Add(claim))
	}

	class := func(provisioner string) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "silver"}, Provisioner: provisioner}
	}
	controller.classChanged(class("p"), true)
	controller.classChanged(class("csi.example.com"), false)
	if len(again) > 0 {
		t.Errorf("the library is told of %v for a class that is gone or another's", again)
	}

	controller.classChanged(class("p"), false)
	if slices.Sort(again); !slices.Equal(again, []string{"waits", "waits-too"}) {
		t.Errorf("the library is told of %v", again)
	}
}
