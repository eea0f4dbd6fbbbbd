//go:build integration

package integration

import (
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// attachmentTrials are requests about VolumeAttachments. The holder "attaching NAME" is a pod that attaches by the
// VolumeAttachment of that name, whose ServiceAccount was given all rights by mistake.
func attachmentTrials(t *testing.T, _ map[string]string) []trial {
	t.Helper()

	var data struct {
		Existing []storagev1.VolumeAttachment `json:"existing"`
		Cases    []requestCase                `json:"cases"`
	}
	readData(t, "attachments.yaml", &data)

	tokens := map[string]string{}
	for _, va := range data.Existing {
		made := ensureAttachment(t, va)
		uid, _ := podspec.ClaimUIDOf(*made.Spec.Source.PersistentVolumeName)
		name := podspec.Name(contract.Attach, contract.AttachmentKey(uid, string(made.UID)), 0)
		tokens["attaching "+made.Name] = token(t, contract.ProvisionersNamespace, "mistaken",
			ensurePod(t, name, "mistaken"))
	}

	var all []trial
	for _, c := range data.Cases {
		holder := tokens[c.Holder]
		if c.Holder == "" {
			holder = tokenOf(t, c.As)
		}

		all = append(all, c.trial(t, holder, strings.NewReplacer()))
	}

	return all
}

// ensureAttachment makes a VolumeAttachment. One whose name ends with "going" is being deleted.
func ensureAttachment(t *testing.T, va storagev1.VolumeAttachment) *storagev1.VolumeAttachment {
	t.Helper()

	client := server.Client(apiserver.Admin.Token()).StorageV1().VolumeAttachments()
	_, err := client.Create(t.Context(), &va, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}

	if strings.HasSuffix(va.Name, "going") {
		if err := client.Delete(t.Context(), va.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}

	made, err := client.Get(t.Context(), va.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}

	return made
}
