//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
	"github.com/flex-provisioner/flex-provisioner/test/request"
)

// Without the allow-list nothing is allowed: an installation that lost it stands still and does not stand open.
func TestNoVolumesWithoutAllowList(t *testing.T) {
	data := readVolumes(t)
	pod := provisionerPod(t, holders["foo"].pod, "foo")
	foo := token(t, contract.ProvisionersNamespace, "foo", pod)
	eventually(t, func() error { return judge(createVolume(t, foo, data.Volumes["silver"]), "") })

	lists := server.Client(apiserver.Admin.Token()).CoreV1().ConfigMaps(contract.SystemNamespace)
	list, err := lists.Get(t.Context(), "flex-pv-policy", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	empty := list.DeepCopy()
	empty.Data = nil
	if _, err := lists.Update(t.Context(), empty, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	// As a fresh installation has it.
	eventually(t, func() error {
		return judge(createVolume(t, foo, data.Volumes["silver"]), "spec.storageClassName silver is not in foo.storageClasses of ConfigMap flex-system/flex-pv-policy")
	})
	table := readPrivileges(t)
	c := privilegeCase{Pod: map[string]any{"spec": map[string]any{"hostNetwork": true}}}
	eventually(t, func() error {
		return judge(send(t, dispatcherToken(t), table.request(c)), "ServiceAccount unlisted is not granted host-network: to grant it, write into ConfigMap flex-system/flex-pv-policy unlisted.privileges: \"host-network\"")
	})
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

// The policy on volumes reads the allow-list as its form has it, also where something else was written while that policy was missing.
func TestPatternsOfClasses(t *testing.T) {
	data := readVolumes(t)
	client := server.Client(apiserver.Admin.Token())
	defer unbind(t, "flex-allow-list")()
	write := func(list any) error {
		patch, err := json.Marshal(map[string]any{"data": map[string]any{"unlisted.storageClasses": list, "unlisted.volumeTypes": "nfs"}})
		if err != nil {
			return err
		}
		_, err = client.CoreV1().ConfigMaps(contract.SystemNamespace).Patch(t.Context(), "flex-pv-policy", types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	defer func() {
		if err := write(nil); err != nil {
			t.Error(err)
		}
	}()
	unlisted := holderTokens(t)["unlisted"]
	for _, c := range []struct {
		list, class string
		want        bool
	}{
		{"silver-*", "silver-retain", true},
		{"gold,silver-*", "silver-a.b-c", true},
		{" silver-* , gold", "silver-x", true},
		{"*", "silver", false},
		{"**", "silver", false},
		{"silver*", "silverware", false},
		{"-*", "silver", false},
		{".*", "silver", false},
		{"s.*", "silver", false},
		{"silver-**", "silver-retain", false},
		{"silver-*-x", "silver-a-x", false},
		{"silver-*", "silver", false},
		{"silver-*", "gold-silver-x", false},
	} {
		refused := ""
		if !c.want {
			refused = "spec.storageClassName " + c.class + " is not in unlisted.storageClasses of ConfigMap flex-system/flex-pv-policy"
		}
		// Each list has a class of its own beside, by which the policy is seen to have it.
		mark := fmt.Sprintf("seen.%s", strings.Repeat("x", 1+len(c.list+c.class)))
		eventually(t, func() error { return write(mark + "," + c.list) })
		volume := func(class string) map[string]any {
			return request.Merged(data.Volumes["unlisted"], map[string]any{"spec": map[string]any{"storageClassName": class}})
		}
		eventually(t, func() error { return judge(createVolume(t, unlisted, volume(mark)), "") })
		if err := judge(createVolume(t, unlisted, volume(c.class)), refused); err != nil {
			t.Errorf("%q and class %s: %v", c.list, c.class, err)
		}
	}
}
