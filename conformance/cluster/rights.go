package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// right is a permission that a check takes: a verb on a resource of the core group, or on a subresource such as "pods/log".
type right struct {
	verb, resource string
	at             place
}

// place is the namespace in which a right is needed.
type place int

const (
	everywhere   place = iota // for objects without a namespace
	claims                    // in the claims' namespace
	provisioners              // in the provisioners' namespace
	volumes                   // in the namespace of events on objects without a namespace
)

func rights(at place, resource string, verbs ...string) []right {
	var all []right
	for _, verb := range verbs {
		all = append(all, right{verb, resource, at})
	}
	return all
}

var (
	toClaim    = rights(claims, "persistentvolumeclaims", "create", "get", "delete")
	toSee      = rights(everywhere, "persistentvolumes", "get")
	toConsume  = slices.Concat(rights(claims, "pods", "create", "get", "delete"), rights(claims, "pods/log", "get"))
	toWatch    = rights(provisioners, "pods", "list", "watch")
	toKill     = slices.Concat(toWatch, rights(provisioners, "pods", "delete"))
	toExpand   = rights(claims, "persistentvolumeclaims", "patch")
	toConfig   = rights(provisioners, "configmaps", "list")
	toSecrets  = rights(provisioners, "secrets", "get")
	toLogs     = rights(provisioners, "pods/log", "get")
	toEvents   = slices.Concat(rights(claims, "events", "list"), rights(provisioners, "events", "list"))
	toAnything = slices.Concat(toClaim, toSee)
)

// isAllowed reports whether the caller has a right. It asks the API server once for each.
func (s *stage) isAllowed(ctx context.Context, r right) (bool, error) {
	if allowed, known := s.allowed[r]; known {
		return allowed, nil
	}
	resource, part, _ := strings.Cut(r.resource, "/")
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: s.in(r.at), Verb: r.verb, Version: "v1", Resource: resource, Subresource: part}}}
	if err := s.api.access.Post().Resource("selfsubjectaccessreviews").Body(review).Do(ctx).Into(review); err != nil {
		return false, fmt.Errorf("ask whether you may %s %s: %w", r.verb, r.resource, err)
	}
	s.allowed[r] = review.Status.Allowed
	return review.Status.Allowed, nil
}

// in is the namespace of a place, empty for objects without one.
func (s *stage) in(at place) string {
	return map[place]string{claims: s.namespace, provisioners: s.options.ProvisionersNamespace, volumes: metav1.NamespaceDefault}[at]
}

// missingRights says which rights the caller lacks. It is empty if there are none.
func (s *stage) missingRights(ctx context.Context, needs []right) (string, error) {
	var lacking []string
	for _, r := range needs {
		allowed, err := s.isAllowed(ctx, r)
		if err != nil {
			return "", err
		}
		if text := r.verb + " " + r.resource; !allowed {
			if in := s.in(r.at); in != "" {
				text += " in namespace " + in
			}
			lacking = append(lacking, text)
		}
	}
	if len(lacking) == 0 {
		return "", nil
	}
	return "you may not " + strings.Join(lacking, ", nor "), nil
}

// needs lists the rights that a check takes for this class. If the scheduler selects the node first, every claim needs a pod.
func (s *stage) needs(c check) []right {
	if s.waitsForConsumer() && slices.Contains(c.needs, toClaim[0]) {
		return slices.Concat(c.needs, toConsume)
	}
	return c.needs
}
