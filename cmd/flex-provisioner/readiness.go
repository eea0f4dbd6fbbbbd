package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/flex-provisioner/flex-provisioner/dispatcher"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/admission"
)

// readiness is what this process lacks to be ready. It checks permissions until it has all of them, and then no more.
type readiness struct {
	client kubernetes.Interface
	needs  []authorizationv1.ResourceAttributes

	mu      sync.Mutex
	allowed bool
	checked time.Time
	lacks   []string
	note    string
	// dispatcher is nil while this process is not the leader.
	dispatcher *dispatcher.Dispatcher
}

func newReadiness(client kubernetes.Interface, needs []authorizationv1.ResourceAttributes) *readiness {
	return &readiness{client: client, needs: needs, note: "starting"}
}

// startedLeading adds the policies that the dispatcher misses to what is lacking.
func (r *readiness) startedLeading(d *dispatcher.Dispatcher) {
	r.setNote("leading")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dispatcher = d
}

func (r *readiness) standby(leader string) { r.setNote("standing by, the leader is " + leader) }

func (r *readiness) setNote(note string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.note != "leading" {
		r.note = note
	}
}

// checkInterval is the time between two checks while permissions are missing.
const checkInterval = 5 * time.Second

// check returns a note on what this process does, and what it lacks, one line each.
func (r *readiness) check(ctx context.Context) (note string, lacks []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.allowed && time.Since(r.checked) > checkInterval {
		r.lacks, r.checked = r.missingPermissions(ctx), time.Now()
		r.allowed = len(r.lacks) == 0
	}
	lacks = slices.Clone(r.lacks)
	if r.dispatcher != nil {
		if missing := r.dispatcher.MissingPolicies(); missing != "" {
			lacks = append(lacks, missing)
		}
	}
	return r.note, lacks
}

func (r *readiness) missingPermissions(ctx context.Context) (lacks []string) {
	for _, need := range r.needs {
		review, err := r.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
			&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &need}}, metav1.CreateOptions{})
		if err != nil {
			return append(lacks, fmt.Sprintf("the API server does not answer: %v", err))
		}
		if !review.Status.Allowed {
			lacks = append(lacks, "permission to "+describe(need)+": kubectl apply -k deploy/base")
		}
	}
	return lacks
}

func describe(a authorizationv1.ResourceAttributes) string {
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	if a.Group != "" {
		resource += "." + a.Group
	}
	if a.Name != "" {
		resource += " " + a.Name
	}
	where := "in all namespaces"
	if a.Namespace != "" {
		where = "in namespace " + a.Namespace
	}
	return fmt.Sprintf("%s %s %s", a.Verb, resource, where)
}

// permissions lists the permissions that the dispatcher needs. deploy/base grants exactly these.
func permissions(namespace, leaseNamespace, lease string) []authorizationv1.ResourceAttributes {
	var list []authorizationv1.ResourceAttributes
	for _, line := range []struct{ namespace, group, resource, name, verbs string }{
		{"", "", "persistentvolumes", "", "get list watch delete patch"},
		{"", "", "persistentvolumeclaims", "", "get list watch patch"},
		{"", "", "persistentvolumeclaims/status", "", "patch"},
		{"", "storage.k8s.io", "storageclasses", "", "get list watch"},
		{"", "", "nodes", "", "get list"},
		{"", "admissionregistration.k8s.io", "validatingadmissionpolicies", "", "get list watch"},
		{"", "admissionregistration.k8s.io", "validatingadmissionpolicybindings", "", "get list watch"},
		{"", "", "events", "", "create patch"},
		{"", "snapshot.storage.k8s.io", "volumesnapshots", "", "get list watch"},
		{"", "snapshot.storage.k8s.io", "volumesnapshotclasses", "", "get list watch"},
		{"", "snapshot.storage.k8s.io", "volumesnapshotcontents", "", "create get list watch patch"},
		{"", "snapshot.storage.k8s.io", "volumesnapshotcontents/status", "", "patch"},
		{namespace, "", "pods", "", "create get list watch delete patch"},
		{namespace, "", "pods/log", "", "get"},
		{namespace, "", "configmaps", "", "get list watch"},
		{namespace, "apps", "controllerrevisions", "", "create get list watch delete patch"},
		{namespace, "", "events", "", "get list watch"},
		{namespace, "", "namespaces", namespace, "get"},
		{namespace, "", "serviceaccounts", admission.ProbeAccount, "impersonate"},
		{"", "authentication.k8s.io", "userextras/" + admission.PodNameKey, admission.ProbePod, "impersonate"},
		{leaseNamespace, "", "secrets", recordKeySecret, "get update"},
		{leaseNamespace, "coordination.k8s.io", "leases", "", "create"},
		{leaseNamespace, "coordination.k8s.io", "leases", lease, "get update"},
	} {
		resource, subresource, _ := strings.Cut(line.resource, "/")
		for _, verb := range strings.Fields(line.verbs) {
			list = append(list, authorizationv1.ResourceAttributes{Namespace: line.namespace, Group: line.group,
				Resource: resource, Subresource: subresource, Name: line.name, Verb: verb})
		}
	}
	return list
}
