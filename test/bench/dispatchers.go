package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// secondClass is served by a dispatcher of its own, with a namespace and a Lease of its own.
var secondClass = class{name: "flex-bench-second", provisioner: "bench.flex-provisioner.io/second", namespace: "flex-bench-second"}

const (
	beside     = 500 // claims of a run
	besideRuns = 3
)

// runDispatchers runs one dispatcher with all the claims, and two with half of them each, in turn.
func runDispatchers(ctx context.Context, _ settings, r *report) error {
	c := fmt.Sprintf("2 several dispatchers, %d claims", beside)
	for range besideRuns {
		one, err := burstOf(ctx, oursClass)
		if err != nil {
			return fmt.Errorf("one dispatcher: %w", err)
		}
		two, err := burstOf(ctx, oursClass, secondClass)
		if err != nil {
			return fmt.Errorf("two dispatchers: %w", err)
		}
		r.add(figure{Case: c, What: "one: bound", Unit: "1/s"}, one.rate)
		r.add(figure{Case: c, What: "two, with half each: bound", Unit: "1/s"}, two.rate)
		r.add(figure{Case: c, What: "two : one", Unit: "ratio", AtLeast: 0.9}, two.rate/one.rate)
		addSeries(r, figure{Case: c, What: "one: annotated to pod created", Unit: "ms"}, one.shares[0])
		for i, share := range two.shares {
			addSeries(r, figure{Case: c, What: fmt.Sprintf("two, number %d: annotated to pod created", i+1), Unit: "ms"}, share)
		}
	}
	return nil
}

type sharedBurst struct {
	rate   float64
	shares []series // of each class
}

// burstOf makes the claims of a run at once, as many of each class, and waits until all are bound.
func burstOf(ctx context.Context, classes ...class) (result sharedBurst, err error) {
	ctx, cancel := within(ctx, 4*time.Minute, "burst of several dispatchers")
	defer cancel()
	s, err := openStage(ctx, raised, nil, oursClass)
	if err != nil {
		return result, err
	}
	defer s.close()
	for _, c := range classes[1:] {
		d, err := s.plane.secondDispatcher(ctx, c)
		if err != nil {
			return result, err
		}
		defer d.stop()
	}
	each, start := beside/len(classes), time.Now()
	made := make(chan error)
	for _, c := range classes {
		go func() { made <- makeClaims(ctx, s.plane.admin, s.observer, c.name, each) }()
	}
	for range classes {
		if err := <-made; err != nil {
			return result, err
		}
	}
	var last time.Time
	for _, c := range classes {
		if err := s.observer.until(ctx, "Bound", all(each, c.name, bound)); err != nil {
			return result, err
		}
		if latest := s.observer.latest(c.name, bound); latest.After(last) {
			last = latest
		}
		result.shares = append(result.shares, s.observer.spans(c.name, annotated, podMade))
	}
	result.rate = beside / last.Sub(start).Seconds()
	return result, nil
}

// secondDispatcher starts a dispatcher for the class's provisioner name in the class's namespace, where the first one's
// user may do what it may in its own.
func (p *plane) secondDispatcher(ctx context.Context, c class) (*process, error) {
	if _, err := p.admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("create namespace %s: %w", c.namespace, err)
	}
	for _, from := range []string{contract.ProvisionersNamespace, contract.SystemNamespace} {
		if err := p.copyRights(ctx, from, c.namespace); err != nil {
			return nil, err
		}
	}
	if err := addClass(ctx, p.admin, c); err != nil {
		return nil, err
	}
	return startDispatcher(ctx, p, "--provisioner-name", c.provisioner, "--namespace", c.namespace, "--lease-namespace", c.namespace)
}

// copyRights copies what has rights in a namespace to another, under names that tell where it is from.
func (p *plane) copyRights(ctx context.Context, from, to string) error {
	rbac := p.admin.RbacV1()
	roles, err := rbac.Roles(from).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list roles of %s: %w", from, err)
	}
	for _, role := range roles.Items {
		role.ObjectMeta = metav1.ObjectMeta{Name: from + "-" + role.Name}
		if _, err := rbac.Roles(to).Create(ctx, &role, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("copy role %s: %w", role.Name, err)
		}
	}
	bindings, err := rbac.RoleBindings(from).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list role bindings of %s: %w", from, err)
	}
	for _, binding := range bindings.Items {
		binding.ObjectMeta = metav1.ObjectMeta{Name: from + "-" + binding.Name}
		if binding.RoleRef.Kind == "Role" {
			binding.RoleRef.Name = from + "-" + binding.RoleRef.Name
		}
		if _, err := rbac.RoleBindings(to).Create(ctx, &binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("copy role binding %s: %w", binding.Name, err)
		}
	}
	return nil
}
