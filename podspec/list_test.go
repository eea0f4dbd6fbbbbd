package podspec

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
)

// TestList: the pod that lists is no attempt.
func TestList(t *testing.T) {
	var cm corev1.ConfigMap
	read(t, "testdata/list/configmap.yaml", &cm)
	config, faults := configmaps.Parse(&cm)
	if len(faults) > 0 {
		t.Fatal(faults.ToAggregate())
	}

	pod, err := List(config, map[string]string{"pool": "a"}, "node1", Cluster{Namespace: "flex-provisioners", KubeAPI: "https://10.96.0.1:443"})
	if err != nil {
		t.Fatal(err)
	}

	golden(t, "testdata/list/pod.yaml", pod)
	if _, _, _, ok := ParseName(pod.GenerateName + "x7k2p"); ok || !strings.HasPrefix(pod.GenerateName, "list-") {
		t.Errorf("%s would be taken for an attempt", pod.GenerateName)
	}
}
