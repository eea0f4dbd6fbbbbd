package configmaps

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// A class's name is the key of queues, metrics and log lines. A text that is too long for one is none, and is
// shortened.
func TestLongClassName(t *testing.T) {
	for length, want := range map[int]int{253: 253, contract.MaxClass: contract.MaxClass, 200 << 10: contract.MaxClass} {
		cm := &corev1.ConfigMap{Data: map[string]string{keyStorageClass: " " + strings.Repeat("x", length) + "\n"}}
		if got := ClassName(cm); len(got) != want {
			t.Errorf("of a name of %d bytes %d stay, want %d", length, len(got), want)
		}
	}
}
