package obstacles

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/dispatchertest"
)

// TestOld: a volume counts for the limit of deletions once it is more than a day old.
func TestOld(t *testing.T) {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Time{Time: dispatchertest.Noon.Add(-24 * time.Hour)}}}
	if Old(v, dispatchertest.Noon) || !Old(v, dispatchertest.Noon.Add(time.Second)) {
		t.Error("a day is not the bound")
	}
}
