package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPopulated(t *testing.T) {
	claim := &corev1.ObjectReference{Namespace: "team-a", Name: "data"}
	for name, row := range map[string]struct {
		claim    *corev1.ObjectReference
		key, of  string
		expected bool
	}{
		"filled":                   {claim, "hello.example.com/populated-from", "team-a/hello", true},
		"of no populator":          {claim, "hello.example.com/from", "team-a/hello", false},
		"without a prefix":         {claim, "populated-from", "team-a/hello", false},
		"for another namespace":    {claim, "hello.example.com/populated-from", "team-b/hello", false},
		"for a longer namespace":   {claim, "hello.example.com/populated-from", "team-ab/hello", false},
		"and given to no claim":    {nil, "hello.example.com/populated-from", "team-a/hello", false},
		"by something without one": {claim, "hello.example.com/populated-from", "", false},
	} {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{row.key: row.of}}, Spec: corev1.PersistentVolumeSpec{ClaimRef: row.claim}}
		if got := Populated(v); got != row.expected {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
