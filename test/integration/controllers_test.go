//go:build integration

package integration

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// Kubernetes' own controllers do in flex-provisioners what they do in any namespace, each under its own name or all
// under one: the namespace gets its authority and its ServiceAccount, what has no owner any more goes, a claim is
// bound, and in the end the namespace goes.
func TestControllersHaveTheirWay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		one  bool
	}{{"each has its own name", false}, {"all have one name", true}} {
		t.Run(c.name, func(t *testing.T) { checkControllers(t, c.one) })
	}
}

func checkControllers(t *testing.T, one bool) {
	t.Helper()
	own, err := apiserver.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Stop)
	p := &played{T: t, own: own, admin: own.Client(apiserver.Admin.Token())}
	p.kubectl("apply", "-k", "deploy/base")
	if one { // the one name has the rights of all that this test needs
		for _, role := range []string{"generic-garbage-collector", "namespace-controller", "persistent-volume-binder",
			"root-ca-cert-publisher", "service-account-controller", "pvc-protection-controller"} {
			p.kubectl("create", "clusterrolebinding", "one-"+role,
				"--clusterrole=system:controller:"+role, "--user="+apiserver.Controllers.Name)
		}
	}
	eventually(t, func() error { // the policies are in force
		_, err := own.Kubectl(t.Context(), "create", "-n", contract.SystemNamespace, "configmap", "flex-pv-policy",
			"--dry-run=server", "--from-literal=x=y")
		if err == nil || apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("a line of no form is accepted: %v", err)
		}
		return nil
	})
	_, err = own.StartControllersAt(apiserver.Limits{QPS: 300, Burst: 500, OneIdentity: one})
	p.ok(err)

	core, ctx := p.admin.CoreV1(), t.Context()
	eventually(t, func() error {
		_, err := core.ConfigMaps(contract.ProvisionersNamespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
	eventually(t, func() error {
		_, err := core.ServiceAccounts(contract.ProvisionersNamespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})

	const noUID = "99999999-9999-4999-8999-999999999999"
	gone := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: noUID}
	_, err = core.ConfigMaps(contract.ProvisionersNamespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{gone}}}, metav1.CreateOptions{})
	p.ok(err)
	eventually(t, func() error {
		_, err := core.ConfigMaps(contract.ProvisionersNamespace).Get(ctx, "owned", metav1.GetOptions{})
		return mustBeGone(err)
	})

	claim := newClaim("mounted", "")
	export := corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "10.0.0.1", Path: "/x"}}
	_, err = core.PersistentVolumes().Create(ctx, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "made-by-hand"},
		Spec: corev1.PersistentVolumeSpec{Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes,
			PersistentVolumeSource: export}}, metav1.CreateOptions{})
	p.ok(err)
	_, err = core.PersistentVolumeClaims(contract.ProvisionersNamespace).Create(ctx, claim, metav1.CreateOptions{})
	p.ok(err)
	eventually(t, func() error {
		now, err := core.PersistentVolumeClaims(contract.ProvisionersNamespace).Get(ctx, claim.Name, metav1.GetOptions{})
		if err == nil && now.Status.Phase != corev1.ClaimBound {
			err = fmt.Errorf("the claim is %s", now.Status.Phase)
		}
		return err
	})

	p.ok(core.Namespaces().Delete(ctx, contract.ProvisionersNamespace, metav1.DeleteOptions{}))
	p.ok(core.Namespaces().Delete(ctx, contract.SystemNamespace, metav1.DeleteOptions{}))
	for _, namespace := range []string{contract.ProvisionersNamespace, contract.SystemNamespace} {
		eventually(t, func() error {
			_, err := core.Namespaces().Get(ctx, namespace, metav1.GetOptions{})
			return mustBeGone(err)
		})
	}
}

func mustBeGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("answer: %v, want that it does not exist", err)
}
