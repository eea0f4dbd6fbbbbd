//go:build e2e

package attack

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/request"
)

var contents = schema.GroupVersionResource{Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshotcontents"}

// strangeContent makes a VolumeSnapshotContent by hand, as an administrator or a backup tool may, with "patch" applied, and
// with "twin" a second one of the same snapshot. When the first is deleted, the dispatcher has to say why the snapshot stays,
// and no pod may run.
func strangeContent(s *story) {
	if _, err := s.admin.Discovery().ServerResourcesForGroupVersion(contents.GroupVersion().String()); err != nil {
		s.Skipf("the cluster serves no snapshots, see SNAPSHOTS of test/cluster: %v", err)
	}
	client, err := dynamic.NewForConfig(s.config)
	s.ok(err)
	made := s.makeContent(client, s.name)
	if twin, _ := s.a.With["twin"].(bool); twin {
		s.makeContent(client, s.name+"-twin")
	}
	s.ok(client.Resource(contents).Delete(s.ctx, made.GetName(), metav1.DeleteOptions{}))
	s.told(made.GetUID())
	if pods := s.pods(s.ctx, made.GetUID()); len(pods) > 0 {
		s.Errorf("went through: pod %s runs", pods[0].Name)
	}
	if _, err := client.Resource(contents).Get(s.ctx, made.GetName(), metav1.GetOptions{}); err != nil {
		s.Errorf("went through: the object of the snapshot: %v", err)
	}
	s.served(soon)
}

// makeContent makes the content, which goes with the case.
func (s *story) makeContent(client dynamic.Interface, name string) *unstructured.Unstructured {
	s.Helper()
	object := request.Merged(map[string]any{
		"apiVersion": contents.GroupVersion().String(), "kind": "VolumeSnapshotContent",
		"metadata": map[string]any{
			"name": name, "finalizers": []any{contract.ContentFinalizer},
			"annotations": map[string]any{contract.AnnClass: className, contract.AnnBeingDeleted: "yes"},
		},
		"spec": map[string]any{
			"deletionPolicy": "Delete", "driver": contract.SnapshotDriver(contract.ProvisionerName),
			"source":            map[string]any{"snapshotHandle": s.name},
			"volumeSnapshotRef": map[string]any{"namespace": s.tenant, "name": s.name},
		},
	}, s.object("patch"))
	made, err := client.Resource(contents).Create(s.ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
	s.ok(err)
	s.Cleanup(func() {
		ctx := context.Background()
		_ = client.Resource(contents).Delete(ctx, name, metav1.DeleteOptions{})
		_, _ = client.Resource(contents).Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	})
	return made
}
