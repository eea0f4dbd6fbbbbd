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

// readiness knows what this process lacks. Permissions are asked for until all are there, and then never again.
type readiness struct {
	client kubernetes.Interface
	needs  []authorizationv1.ResourceAttributes

	mu      sync.Mutex
	allowed bool
	asked   time.Time
	lacks   []string
	note    string
	// dispatcher is nil while this process stands by.
	dispatcher *dispatcher.Dispatcher
}

func newReadiness(client kubernetes.Interface, needs []authorizationv1.ResourceAttributes) *readiness {
	return &readiness{client: client, needs: needs, note: "starting"}
}

// leading lets the dispatcher say what it lacks beside permissions.
func (r *readiness) leading(d *dispatcher.Dispatcher) {
	r.say("leading")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dispatcher = d
}

func (r *readiness) standby(leader string) { r.say("standing by, the leader is " + leader) }

func (r *readiness) say(note string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.note != "leading" {
		r.note = note
	}
}

// askAgain is how often missing permissions are asked for anew.
const askAgain = 5 * time.Second

// check returns what is lacking, one line each, or else a note on what this process does.
func (r *readiness) check(ctx context.Context) (note string, lacks []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.allowed && time.Since(r.asked) > askAgain {
		r.lacks, r.asked = r.ask(ctx), time.Now()
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

func (r *readiness) ask(ctx context.Context) (lacks []string) {
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

// permissions is all that the dispatcher asks of the API server. deploy/base grants exactly these; a test compares.
func permissions(namespace, leaseNamespace, lease string) []authorizationv1.ResourceAttributes {
	var list []authorizationv1.ResourceAttributes
	for _, line := range []struct{ namespace, group, resource, name, verbs string }{
		{"", "", "persistentvolumes", "", "get list watch delete patch"},
		{"", "", "persistentvolumeclaims", "", "get list watch patch"},
		{"", "", "persistentvolumeclaims/status", "", "patch"},
		{"", "storage.k8s.io", "storageclasses", "", "get list watch"},
		{"", "admissionregistration.k8s.io", "validatingadmissionpolicies", "", "get list watch"},
		{"", "admissionregistration.k8s.io", "validatingadmissionpolicybindings", "", "get list watch"},
		{"", "", "events", "", "create patch"},
		{namespace, "", "pods", "", "create get list watch delete patch"},
		{namespace, "", "pods/log", "", "get"},
		{namespace, "", "configmaps", "", "get list watch"},
		{namespace, "apps", "controllerrevisions", "", "create list watch delete"},
		{namespace, "", "events", "", "get list watch"},
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
