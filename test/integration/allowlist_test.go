//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// Without the allow-list nothing is allowed: an installation that lost it stands still and does not stand open.
func TestNoVolumesWithoutAllowList(t *testing.T) {
	var data struct {
		Volumes map[string]map[string]any `json:"volumes"`
		Cases   []volumeCase              `json:"cases"`
	}
	readData(t, "volumes.yaml", &data)
	pod := provisionerPod(t, holders["foo"].pod, "foo")
	foo := token(t, contract.ProvisionersNamespace, "foo", pod)
	eventually(t, func() error { return judge(createVolume(t, foo, data.Volumes["silver"]), "") })

	lists := server.Client(apiserver.Admin.Token()).CoreV1().ConfigMaps(contract.SystemNamespace)
	list, err := lists.Get(t.Context(), "flex-pv-policy", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := lists.Delete(t.Context(), list.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		err := createVolume(t, foo, data.Volumes["silver"])
		if err == nil || !strings.Contains(err.Error(), "no params found for policy binding with `Deny` parameterNotFoundAction") {
			return fmt.Errorf("answer without the allow-list: %v", err)
		}
		return nil
	})

	list.ResourceVersion, list.UID = "", ""
	if _, err := lists.Create(t.Context(), list, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return judge(createVolume(t, foo, data.Volumes["silver"]), "") })
}
