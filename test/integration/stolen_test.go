//go:build integration

package integration

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
	"github.com/flex-provisioner/flex-provisioner/test/request"
)

// A token that was stolen from a pod ends with the pod: where the pod is gone, as soon as the API server has forgotten
// that it knew the token, and where a finalizer keeps it, a minute after its deletion. The API server remembers a token
// for 10 seconds.
func TestStolenTokenEndsWithThePod(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, pod string
		keep      bool
		within    time.Duration
	}{
		{"gone", "prov-16161616-1616-4616-8616-161616161616-0", false, 12 * time.Second},
		{"kept by its finalizer", "prov-17171717-1717-4717-8717-171717171717-0", true, 72 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pod := provisionerPod(t, c.pod, "foo")
			pods := server.Client(apiserver.Admin.Token()).CoreV1().Pods(contract.ProvisionersNamespace)
			release := func(ctx context.Context) error {
				_, err := pods.Patch(ctx, pod.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				return err
			}
			if c.keep {
				t.Cleanup(func() { _ = release(context.Background()) })
			} else if err := release(t.Context()); err != nil {
				t.Fatal(err)
			}
			stolen := token(t, contract.ProvisionersNamespace, "foo", pod)
			volume := ownVolume(t, pod.Name)
			eventually(t, func() error { return judge(createVolume(t, stolen, volume), "") })
			now := int64(0)
			if err := pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
				t.Fatal(err)
			}
			deleted, lived := time.Now(), time.Duration(0)
			for {
				err := createVolume(t, stolen, volume)
				if apierrors.IsUnauthorized(err) {
					break
				}
				if lived = time.Since(deleted); err != nil || lived > c.within {
					t.Fatalf("%s after the deletion the answer is %v, want Unauthorized within %s", lived.Round(time.Second), err, c.within)
				}
				select {
				case <-t.Context().Done():
				case <-time.After(500 * time.Millisecond): // what is measured is time
				}
			}
			t.Logf("the token was last good %s after the deletion of its pod", lived.Round(100*time.Millisecond))
		})
	}
}

// ownVolume is the volume of testdata/volumes.yaml called silver, for the pod's claim.
func ownVolume(t *testing.T, pod string) map[string]any {
	t.Helper()
	uid := pod[len("prov-") : len("prov-")+36]
	return request.Merged(readVolumes(t).Volumes["silver"], map[string]any{
		"metadata": map[string]any{"name": "pvc-" + uid, "annotations": map[string]any{contract.AnnClaimUID: uid}}, "spec": map[string]any{"claimRef": map[string]any{"uid": uid}}})
}
