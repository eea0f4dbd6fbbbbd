//go:build integration

package integration

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

const (
	changed = "annotations flex-provisioner.io/created-by, created-by-uid and created-by-groups cannot be changed"
	forged  = "annotations flex-provisioner.io/created-by, created-by-uid and created-by-groups may name only the user who creates the claim"
)

// tomsStamp is who tom is to the API server.
var tomsStamp = map[string]string{
	contract.AnnCreatedBy: "tom", contract.AnnCreatedByUID: "uid-of-tom", contract.AnnCreatedByGroups: "team-a,system:authenticated",
}

// forgeries are what tom may try to be.
var forgeries = []struct {
	name        string
	annotations map[string]string
}{
	{"another user", map[string]string{contract.AnnCreatedBy: "admin"}},
	{"nobody", map[string]string{contract.AnnCreatedBy: ""}},
	{"another UID", map[string]string{contract.AnnCreatedBy: "tom", contract.AnnCreatedByUID: "uid-of-admin"}},
	{"a group more", map[string]string{contract.AnnCreatedByGroups: "team-a,system:authenticated,system:masters"}},
	{"a group less", map[string]string{contract.AnnCreatedByGroups: "team-a"}},
}

// Without the stamp, users may say who they are and nobody else.
func TestCreatorGuard(t *testing.T) {
	tom := toms(t)
	eventually(t, func() error {
		_, err := tom.Create(t.Context(), claim(forgeries[0].annotations), dryRun)
		return judge(err, forged)
	})
	for _, c := range forgeries {
		t.Run("refuses "+c.name, func(t *testing.T) {
			_, err := tom.Create(t.Context(), claim(c.annotations), dryRun)
			if err := judge(err, forged); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("leaves unsaid what tom does not say", func(t *testing.T) { checkStamp(t, nil, nil) })
	t.Run("lets tom say who he is", func(t *testing.T) { checkStamp(t, tomsStamp, tomsStamp) })
	t.Run("lets nothing be said later", func(t *testing.T) {
		made := create(t, tom, nil)
		_, err := tom.Patch(t.Context(), made.Name, types.MergePatchType, annotate(contract.AnnCreatedBy, `"tom"`), metav1.PatchOptions{})
		if err := judge(err, changed); err != nil {
			t.Error(err)
		}
	})
	for _, subresource := range []string{"", "status"} {
		t.Run("holds what was said against an update of "+subresource, func(t *testing.T) {
			made := create(t, tom, tomsStamp)
			_, err := tom.Patch(t.Context(), made.Name, types.MergePatchType, annotate(contract.AnnCreatedBy, `"admin"`), metav1.PatchOptions{}, subresources(subresource)...)
			if err := judge(err, changed); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("lets finalizers go", func(t *testing.T) { checkFinalizer(t, create(t, tom, tomsStamp)) })
}

// With the stamp, every claim says who created it.
func TestCreatorStamp(t *testing.T) {
	if !servesStamp(t) {
		t.Skip("this API server has no MutatingAdmissionPolicy v1")
	}
	tom := toms(t)
	unstamped := create(t, tom, nil)
	installStamp(t)
	for _, c := range forgeries {
		t.Run("overwrites "+c.name, func(t *testing.T) { checkStamp(t, c.annotations, tomsStamp) })
	}
	t.Run("stamps a claim without annotations", func(t *testing.T) { checkStamp(t, nil, tomsStamp) })
	t.Run("leaves other annotations", func(t *testing.T) {
		made := create(t, tom, map[string]string{"example.com/x": "y"})
		if made.Annotations["example.com/x"] != "y" {
			t.Errorf("annotations are %v, want example.com/x: y among them", made.Annotations)
		}
	})
	for _, value := range []string{`"admin"`, `""`, "null"} {
		t.Run("restores what an update makes "+value, func(t *testing.T) {
			made := create(t, tom, nil)
			updated, err := tom.Patch(t.Context(), made.Name, types.MergePatchType, annotate(contract.AnnCreatedBy, value), metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			compareStamp(t, updated, tomsStamp)
		})
	}
	t.Run("restores what kubectl replace drops", func(t *testing.T) {
		made := create(t, tom, nil)
		made.Annotations, made.ResourceVersion = nil, ""
		updated, err := tom.Update(t.Context(), made, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		compareStamp(t, updated, tomsStamp)
	})
	t.Run("holds against an update of the status", func(t *testing.T) {
		made := create(t, tom, nil)
		_, err := tom.Patch(t.Context(), made.Name, types.MergePatchType, annotate(contract.AnnCreatedBy, `"admin"`), metav1.PatchOptions{}, "status")
		if err := judge(err, changed); err != nil {
			t.Error(err)
		}
	})
	t.Run("lets finalizers go", func(t *testing.T) { checkFinalizer(t, create(t, tom, nil)) })
	t.Run("lets finalizers of older claims go, and does not stamp them", func(t *testing.T) {
		compareStamp(t, checkFinalizer(t, unstamped), nil)
	})
	t.Run("is required", func(t *testing.T) { checkRequired(t) })
}

// checkRequired takes the stamp away: then no claim may be made.
func checkRequired(t *testing.T) {
	t.Helper()
	admin := server.Client(apiserver.Admin.Token())
	if err := admin.AdmissionregistrationV1().MutatingAdmissionPolicyBindings().Delete(t.Context(), "flex-stamp-claim-creator", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		_, err := toms(t).Create(t.Context(), claim(nil), dryRun)
		return judge(err, "annotation flex-provisioner.io/created-by is missing: is MutatingAdmissionPolicy flex-stamp-claim-creator in force?")
	})
}

var dryRun = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

func toms(t *testing.T) clientcorev1.PersistentVolumeClaimInterface {
	t.Helper()
	return server.Client(tokenOf(t, "tom")).CoreV1().PersistentVolumeClaims("default")
}

// newClaim asks for 1Gi.
func newClaim(name, class string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

// claim is one of class silver that says something of its creator.
func claim(annotations map[string]string) *corev1.PersistentVolumeClaim {
	c := newClaim("", "silver")
	c.GenerateName, c.Annotations, c.Finalizers = "test-", annotations, []string{"example.com/hold"}
	return c
}

// create makes a claim and removes it with the test.
func create(t *testing.T, claims clientcorev1.PersistentVolumeClaimInterface, annotations map[string]string) *corev1.PersistentVolumeClaim {
	t.Helper()
	made, err := claims.Create(t.Context(), claim(annotations), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create claim: %v", err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		_, _ = claims.Patch(ctx, made.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err := claims.Delete(ctx, made.Name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete claim: %v", err)
		}
	})
	return made
}

func annotate(key, value string) []byte {
	return fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, key, value)
}

func subresources(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

// checkStamp makes a claim as tom, saying what he says.
func checkStamp(t *testing.T, said, want map[string]string) {
	t.Helper()
	made, err := toms(t).Create(t.Context(), claim(said), dryRun)
	if err != nil {
		t.Fatalf("create claim: %v", err)
	}
	compareStamp(t, made, want)
}

func compareStamp(t *testing.T, made *corev1.PersistentVolumeClaim, want map[string]string) {
	t.Helper()
	var got map[string]string
	for key := range tomsStamp {
		if value, stamped := made.Annotations[key]; stamped {
			if got == nil {
				got = map[string]string{}
			}
			got[key] = value
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("claim is stamped %v, want %v", got, want)
	}
}

// checkFinalizer removes the claim's finalizer, as a controller does that knows nothing of the stamp.
func checkFinalizer(t *testing.T, made *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	t.Helper()
	claims := server.Client(apiserver.Admin.Token()).CoreV1().PersistentVolumeClaims(made.Namespace)
	updated, err := claims.Patch(t.Context(), made.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(updated.Finalizers) != 0 {
		t.Errorf("finalizers are %v, want none", updated.Finalizers)
	}
	return updated
}

// servesStamp says whether the API server is new enough, 1.36.
func servesStamp(t *testing.T) bool {
	t.Helper()
	list, err := server.Client(apiserver.Admin.Token()).Discovery().ServerResourcesForGroupVersion("admissionregistration.k8s.io/v1")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list.APIResources {
		if r.Name == "mutatingadmissionpolicies" {
			return true
		}
	}
	return false
}

// installStamp adds the stamp for the time of the test, and waits until it is in force.
func installStamp(t *testing.T) {
	t.Helper()
	const stamp = "deploy/policies/creator-stamp"
	t.Cleanup(func() {
		if _, err := server.Kubectl(context.Background(), "delete", "--ignore-not-found", "-k", stamp); err != nil {
			t.Error(err)
		}
		eventually(t, func() error { // for the tests that come after
			made, err := toms(t).Create(context.Background(), claim(nil), dryRun)
			if err == nil && made.Annotations[contract.AnnCreatedBy] != "" {
				err = fmt.Errorf("claim is still stamped")
			}
			return err
		})
	})
	if _, err := server.Kubectl(t.Context(), "apply", "-k", stamp); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		made, err := toms(t).Create(t.Context(), claim(nil), dryRun)
		if err == nil && made.Annotations[contract.AnnCreatedBy] != "tom" {
			err = fmt.Errorf("claim is not stamped")
		}
		return err
	})
}

// A group whose name has a comma would be read as two groups, so it is not among those that the stamp and the guard
// know.
func TestGroupsWithCommasAreLeftOut(t *testing.T) {
	config := server.Config(apiserver.Admin.Token())
	config.Impersonate = rest.ImpersonationConfig{UserName: "eve", Groups: []string{"team-a,system:masters", "system:masters"}}
	eve := kubernetes.NewForConfigOrDie(config).CoreV1().PersistentVolumeClaims("default")
	for groups, want := range map[string]string{
		"system:masters,system:authenticated":                       "",
		"team-a,system:masters,system:masters,system:authenticated": forged,
	} {
		eventually(t, func() error {
			_, err := eve.Create(t.Context(), claim(map[string]string{contract.AnnCreatedByGroups: groups}), dryRun)
			return judge(err, want)
		})
	}
}
