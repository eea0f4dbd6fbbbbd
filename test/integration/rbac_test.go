//go:build integration

package integration

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

const dispatcherName = "system:serviceaccount:flex-system:dispatcher"

// right is one resource with verbs, in one namespace or, for "", in all and for what has none.
type right struct {
	namespace, resource, verbs string
	name                       string
}

// needed is all that the dispatcher does with the API.
var needed = []right{
	{resource: "persistentvolumes", verbs: "get list watch patch delete"},
	{resource: "persistentvolumeclaims", verbs: "get list watch patch"},
	{resource: "persistentvolumeclaims/status", verbs: "patch"},
	{resource: "storageclasses.storage.k8s.io", verbs: "get list watch"},
	{resource: "nodes", verbs: "get list"},
	{resource: "volumesnapshots.snapshot.storage.k8s.io", verbs: "get list watch"},
	{resource: "volumesnapshotclasses.snapshot.storage.k8s.io", verbs: "get list watch"},
	{resource: "volumesnapshotcontents.snapshot.storage.k8s.io", verbs: "get list watch create patch"},
	{resource: "volumesnapshotcontents.snapshot.storage.k8s.io/status", verbs: "patch"},
	{resource: "volumeattachments.storage.k8s.io", verbs: "get list watch patch"},
	{resource: "volumeattachments.storage.k8s.io/status", verbs: "patch"},
	{resource: "csinodes.storage.k8s.io", verbs: "get"},
	{resource: "events", verbs: "create patch"},
	{resource: "validatingadmissionpolicies.admissionregistration.k8s.io", verbs: "get list watch"},
	{resource: "validatingadmissionpolicybindings.admissionregistration.k8s.io", verbs: "get list watch"},
	{namespace: contract.ProvisionersNamespace, resource: "pods", verbs: "get list watch create patch delete"},
	{namespace: contract.ProvisionersNamespace, resource: "pods/log", verbs: "get"},
	{namespace: contract.ProvisionersNamespace, resource: "configmaps", verbs: "get list watch"},
	{namespace: contract.ProvisionersNamespace, resource: "controllerrevisions.apps", verbs: "get list watch create patch delete"},
	{namespace: contract.ProvisionersNamespace, resource: "namespaces", verbs: "get", name: contract.ProvisionersNamespace},
	{namespace: contract.ProvisionersNamespace, resource: "events", verbs: "get list watch"},
	{namespace: contract.ProvisionersNamespace, resource: "serviceaccounts", verbs: "impersonate", name: "flex-policy-trial"},
	{resource: "userextras.authentication.k8s.io/authentication.kubernetes.io/pod-name", verbs: "impersonate", name: "prov-00000000-0000-4000-8000-000000000000-0"},
	{namespace: contract.SystemNamespace, resource: "secrets", verbs: "get update", name: "flex-provisioner-record-key"},
	{namespace: contract.SystemNamespace, resource: "leases.coordination.k8s.io", verbs: "create"},
	{namespace: contract.SystemNamespace, resource: "leases.coordination.k8s.io", verbs: "get update", name: "flex-provisioner"},
}

// dangerous is what would make the dispatcher, or a provisioner pod, more than it is.
var dangerous = []right{
	{resource: "persistentvolumes", verbs: "create"},
	{resource: "persistentvolumes", verbs: "update"},
	{resource: "persistentvolumeclaims", verbs: "create update delete"},
	{resource: "persistentvolumeclaims/status", verbs: "update"},
	{resource: "persistentvolumes/status", verbs: "update patch"},
	{resource: "volumesnapshots.snapshot.storage.k8s.io", verbs: "create update patch delete"},
	{resource: "volumesnapshots.snapshot.storage.k8s.io/status", verbs: "update patch"},
	{resource: "volumesnapshotclasses.snapshot.storage.k8s.io", verbs: "create update patch delete"},
	{resource: "volumesnapshotcontents.snapshot.storage.k8s.io", verbs: "update delete"},
	{resource: "volumeattachments.storage.k8s.io", verbs: "create update delete"},
	{resource: "volumeattachments.storage.k8s.io/status", verbs: "update"},
	{resource: "csinodes.storage.k8s.io", verbs: "create update patch delete"},
	{resource: "volumesnapshotcontents.snapshot.storage.k8s.io/status", verbs: "update"},
	{resource: "secrets", verbs: "get list watch create update patch"},
	{resource: "nodes", verbs: "watch create update patch delete"},
	{resource: "nodes/status", verbs: "get update patch"},
	{resource: "nodes/proxy", verbs: "get create"},
	{resource: "namespaces", verbs: "update patch"},
	{namespace: contract.ProvisionersNamespace, resource: "provisioners.flex-provisioner.io", verbs: "administer"},
	{namespace: contract.SystemNamespace, resource: "provisioners.flex-provisioner.io", verbs: "administer"},
	{resource: "clusterroles.rbac.authorization.k8s.io", verbs: "create update escalate bind"},
	{resource: "users", verbs: "impersonate"},
	{resource: "groups", verbs: "impersonate"},
	{namespace: contract.ProvisionersNamespace, resource: "serviceaccounts", verbs: "impersonate", name: "foo"},
	{namespace: contract.SystemNamespace, resource: "serviceaccounts", verbs: "impersonate", name: "flex-policy-trial"},
	{resource: "userextras.authentication.k8s.io/authentication.kubernetes.io/pod-name", verbs: "impersonate", name: "prov-11111111-1111-4111-8111-111111111111-0"},
	{resource: "validatingadmissionpolicies.admissionregistration.k8s.io", verbs: "create update patch delete"},
	{namespace: "default", resource: "pods", verbs: "get create"},
	{namespace: "default", resource: "configmaps", verbs: "get"},
	{namespace: contract.SystemNamespace, resource: "pods", verbs: "create"},
	{namespace: contract.SystemNamespace, resource: "configmaps", verbs: "get create update patch"},
	{namespace: contract.SystemNamespace, resource: "leases.coordination.k8s.io", verbs: "get update", name: "other"},
	{namespace: contract.SystemNamespace, resource: "secrets", verbs: "get update", name: "other"},
	{namespace: contract.SystemNamespace, resource: "secrets", verbs: "list watch create delete patch", name: "flex-provisioner-record-key"},
	{namespace: contract.ProvisionersNamespace, resource: "configmaps", verbs: "create update patch delete"},
	{namespace: contract.ProvisionersNamespace, resource: "controllerrevisions.apps", verbs: "update"},
	{namespace: "default", resource: "controllerrevisions.apps", verbs: "list create delete"},
	{namespace: contract.ProvisionersNamespace, resource: "secrets", verbs: "get list create"},
	{namespace: contract.ProvisionersNamespace, resource: "serviceaccounts", verbs: "create update"},
	{namespace: contract.ProvisionersNamespace, resource: "serviceaccounts/token", verbs: "create"},
	{namespace: contract.ProvisionersNamespace, resource: "pods", verbs: "update"},
	{namespace: contract.ProvisionersNamespace, resource: "pods/exec", verbs: "create"},
	{namespace: contract.ProvisionersNamespace, resource: "pods/status", verbs: "update patch"},
	{namespace: contract.ProvisionersNamespace, resource: "pods/ephemeralcontainers", verbs: "update patch"},
}

func TestDispatcherMayDoWhatItMust(t *testing.T) {
	for _, r := range needed {
		checkRight(t, dispatcherName, r, true)
	}
	// What every identity has: the dispatcher asks about itself.
	checkRight(t, dispatcherName, right{resource: "selfsubjectaccessreviews.authorization.k8s.io", verbs: "create"}, true)
}

func TestDispatcherMayNotDoMore(t *testing.T) {
	for _, r := range dangerous {
		checkRight(t, dispatcherName, r, false)
	}
	if got, want := granted(t), flatten(needed); !reflect.DeepEqual(got, want) {
		t.Errorf("roles of the dispatcher grant\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestProvisionersMayOnlyCreateVolumes(t *testing.T) {
	const foo = "system:serviceaccount:flex-provisioners:foo"
	checkRight(t, foo, right{resource: "persistentvolumes", verbs: "create"}, true)
	for _, r := range slices.Concat(dangerous[1:], needed) { // the first is that one
		checkRight(t, foo, r, false)
	}
}

func checkRight(t *testing.T, user string, r right, want bool) {
	t.Helper()
	resource, subresource, _ := strings.Cut(r.resource, "/")
	resource, group, _ := strings.Cut(resource, ".")
	namespace, _, _ := strings.Cut(strings.TrimPrefix(user, "system:serviceaccount:"), ":")
	reviews := server.Client(apiserver.Admin.Token()).AuthorizationV1().SubjectAccessReviews()
	for verb := range strings.FieldsSeq(r.verbs) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   user,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: r.namespace, Verb: verb, Group: group, Resource: resource, Subresource: subresource, Name: r.name},
		}}
		answer, err := reviews.Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if answer.Status.Allowed != want {
			t.Errorf("%s: %s %s %q in %q is allowed %v, want %v", user, verb, r.resource, r.name, r.namespace, answer.Status.Allowed, want)
		}
	}
}

// granted lists what the roles that are bound to the dispatcher grant, one line a verb.
func granted(t *testing.T) []string {
	t.Helper()
	client := server.Client(apiserver.Admin.Token()).RbacV1()
	var rights []right
	clusterBindings, err := client.ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range clusterBindings.Items {
		if !isDispatcher(b.Subjects) {
			continue
		}
		role, err := client.ClusterRoles().Get(t.Context(), b.RoleRef.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		rights = append(rights, rightsOf("", role.Rules)...)
	}
	bindings, err := client.RoleBindings("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bindings.Items {
		if !isDispatcher(b.Subjects) {
			continue
		}
		role, err := client.Roles(b.Namespace).Get(t.Context(), b.RoleRef.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		rights = append(rights, rightsOf(b.Namespace, role.Rules)...)
	}
	return flatten(rights)
}

func isDispatcher(subjects []rbacv1.Subject) bool {
	return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
		return s.Kind == rbacv1.ServiceAccountKind && s.Namespace == contract.SystemNamespace
	})
}

func rightsOf(namespace string, rules []rbacv1.PolicyRule) []right {
	var rights []right
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				if name, sub, _ := strings.Cut(resource, "/"); group != "" {
					resource = strings.TrimSuffix(name+"."+group+"/"+sub, "/")
				}
				for _, name := range names {
					rights = append(rights, right{namespace: namespace, resource: resource, verbs: strings.Join(rule.Verbs, " "), name: name})
				}
			}
		}
	}
	return rights
}

func flatten(rights []right) []string {
	var lines []string
	for _, r := range rights {
		for verb := range strings.FieldsSeq(r.verbs) {
			lines = append(lines, strings.TrimSpace(verb+" "+r.resource+" "+r.name+" "+r.namespace))
		}
	}
	slices.Sort(lines)
	return lines
}
