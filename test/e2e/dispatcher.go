//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/cluster"
)

// holder is the identity in the dispatchers' Lease, "pod_UUID", empty if there is none. Each process has its own.
func holder() string {
	lease := get[coordinationv1.Lease](shared.leases, contract.SystemNamespace+"/flex-provisioner")
	if lease == nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// leader waits for a dispatcher that holds the Lease, and returns its pod.
func (s *scope) leader() *corev1.Pod {
	s.Helper()
	var pod *corev1.Pod
	s.wait(patient, "leader", func() string {
		name, _, _ := strings.Cut(holder(), "_")
		switch pod = get[corev1.Pod](shared.pods, contract.SystemNamespace+"/"+name); {
		case pod == nil:
			return "the Lease is held by " + holder()
		case pod.DeletionTimestamp != nil:
			return "the leader is being deleted"
		}
		return ""
	})
	return pod
}

// newLeader waits until another process than the holder of before leads.
func (s *scope) newLeader(was string) time.Duration {
	s.Helper()
	return s.wait(patient, "a new leader", func() string {
		if holder() == was || holder() == "" {
			return "the Lease is held by " + was
		}
		return ""
	})
}

// dispatcherUnchanged fails the test, when it is called, if the dispatcher crashed meanwhile. If somebody else replaced
// it, the test merely says so.
func (s *scope) dispatcherUnchanged() (check func()) {
	s.Helper()
	before, was := s.leader(), holder()
	return func() {
		s.Helper()
		now := s.leader()
		switch {
		case holder() == was:
		case now.UID == before.UID:
			s.Errorf("the dispatcher restarted: %s", states(now))
		default:
			s.Logf("somebody replaced the dispatcher: this run does not show that no restart was needed")
		}
	}
}

// killed ends the processes of a pod's containers by SIGKILL. The kubelet starts them again.
func killed(ctx context.Context, pod *corev1.Pod) error {
	for _, status := range pod.Status.ContainerStatuses {
		id := strings.TrimPrefix(status.ContainerID, "containerd://")
		if _, err := command(ctx, "test/cluster/enter.sh", "--node", pod.Spec.NodeName, ".cluster/bin/ctr",
			"-a", "/run/flex-cluster/"+pod.Spec.NodeName+"/containerd.sock", "-n", "k8s.io", "tasks", "kill", "-s", "SIGKILL", id); err != nil {
			return fmt.Errorf("kill %s: %w", pod.Name, err)
		}
	}
	return nil
}

// oneDispatcher goes back from the overlay with two.
func oneDispatcher(ctx context.Context) error {
	err := shared.admin.PolicyV1().PodDisruptionBudgets(contract.SystemNamespace).Delete(ctx, "flex-provisioner", metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	for _, args := range [][]string{
		{"apply", "--server-side", "--force-conflicts", "-k", cluster.Installation},
		{"-n", contract.SystemNamespace, "rollout", "status", "deployment/flex-provisioner", "--timeout=120s"},
	} {
		if _, err := kubectl(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// installedAfter goes back to the installation when a test and its subtests have ended, which apply the base with an example.
func installedAfter(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if err := oneDispatcher(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// dispatchers are those that are ready.
func dispatchers() []*corev1.Pod {
	return all(shared.pods, func(p *corev1.Pod) bool {
		return isDispatcher(p) && p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
	})
}

// metricsOf are what a dispatcher counts, as Prometheus reads it.
func metricsOf(ctx context.Context, dispatcher *corev1.Pod) ([]byte, error) {
	return shared.admin.CoreV1().Pods(dispatcher.Namespace).ProxyGet("http", dispatcher.Name, "8080", "metrics", nil).DoRaw(ctx)
}

// crashed tells of dispatchers that ended by themselves. 137 is the code of those that the tests killed.
func crashed() string {
	var ends []string
	for _, p := range all(shared.pods, isDispatcher) {
		for _, c := range p.Status.ContainerStatuses {
			if last := c.LastTerminationState.Terminated; last != nil && last.ExitCode != 0 && last.ExitCode != 137 {
				ends = append(ends, fmt.Sprintf("%s with code %d at %s: %s", p.Name, last.ExitCode, last.FinishedAt, last.Message))
			}
		}
	}
	return strings.Join(ends, ", ")
}
