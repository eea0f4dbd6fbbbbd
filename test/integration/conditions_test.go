//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/writer"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// TestConditions: the API server takes the condition by which a claim says why it waits, from the dispatcher. It changes and goes without
// those of others. That of another claim of the name stays as it is.
func TestConditions(t *testing.T) {
	admin := server.Client(apiserver.Admin.Token()).CoreV1().PersistentVolumeClaims("default")
	claim, err := admin.Create(t.Context(), newClaim("waits", "none"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Delete(t.Context(), claim.Name, metav1.DeleteOptions{}) })
	claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimResizing, Status: corev1.ConditionTrue}}
	if claim, err = admin.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w := writer.Writer{Client: server.Client(dispatcherToken(t))}
	noon := metav1.NewTime(time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC))
	for _, step := range []struct{ reason, message, want string }{
		{"ProvisionerFailed", "the backend is at lunch", "flex-provisioner.io/Waiting ProvisionerFailed the backend is at lunch 12:00 12:00, Resizing "},
		{"ProvisionerFailed", "still at lunch", "flex-provisioner.io/Waiting ProvisionerFailed still at lunch 12:00 12:10, Resizing "},
		{"", "", "Resizing "},
		{"", "", "Resizing "},
		{"ClaimRefused", strings.Repeat("x", 1024), "flex-provisioner.io/Waiting ClaimRefused " + strings.Repeat("x", 1024) + " 12:40 12:40, Resizing "},
	} {
		if err := w.SetWaitingCondition(t.Context(), claim, step.reason, step.message, noon); err != nil {
			t.Fatal(err)
		}
		if claim, err = admin.Get(t.Context(), claim.Name, metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range claim.Status.Conditions {
			words := string(c.Type) + " " + c.Reason
			if c.Reason != "" {
				words += fmt.Sprint(" ", c.Message, " ", c.LastTransitionTime.UTC().Format("15:04"), " ", c.LastProbeTime.UTC().Format("15:04"))
			}
			got = append(got, words)
		}
		if all := strings.Join(got, ", "); all != step.want {
			t.Errorf("after %s %.30q: %.200q, want %.200q", step.reason, step.message, all, step.want)
		}
		noon = metav1.NewTime(noon.Add(10 * time.Minute))
	}
	other := claim.DeepCopy()
	other.UID = "another"
	if err := w.SetWaitingCondition(t.Context(), other, "ClaimRefused", "x", noon); err == nil || !strings.Contains(err.Error(), "patch persistentvolumeclaims default/waits: ") {
		t.Errorf("another claim of the name is written to: %v", err)
	}
}
