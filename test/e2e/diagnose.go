//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// diagnose prints what there is to know about a test that failed.
func (s *scope) diagnose(ctx context.Context) {
	var b strings.Builder
	for _, c := range all(shared.claims, func(c *corev1.PersistentVolumeClaim) bool { return c.Namespace == s.name }) {
		fmt.Fprintf(&b, "claim %s %s: %s%s\n", c.Name, c.UID, c.Status.Phase, showEvents(eventsOn(c.UID)))
	}
	for _, v := range s.volumes() {
		fmt.Fprintf(&b, "volume %s: %s%s\n", v.Name, v.Status.Phase, showEvents(eventsOn(v.UID)))
	}
	for _, c := range s.classes {
		events := all(shared.events, func(e *corev1.Event) bool {
			return e.InvolvedObject.Kind == "ConfigMap" && strings.HasPrefix(e.InvolvedObject.Name, c.id)
		})
		fmt.Fprintf(&b, "ConfigMap %s: %s\n", c.id, showEvents(events))
	}
	for _, p := range all(shared.pods, func(p *corev1.Pod) bool { return s.ours(p.Annotations[contract.AnnClass]) || p.Namespace == s.name }) {
		fmt.Fprintf(&b, "pod %s: %s %s%s\n  its log: %s\n", p.Name, p.Status.Phase, states(p), showEvents(eventsOn(p.UID)), logOf(ctx, p, 10))
	}
	for _, p := range all(shared.pods, isDispatcher) {
		fmt.Fprintf(&b, "dispatcher %s: %s, its log:\n%s\n", p.Name, states(p), logOf(ctx, p, 60))
	}
	s.Logf("what is known:\n%s", b.String())
}

func states(p *corev1.Pod) string {
	var words []string
	for _, c := range p.Status.ContainerStatuses {
		switch {
		case c.State.Waiting != nil:
			words = append(words, "waiting: "+c.State.Waiting.Reason+" "+c.State.Waiting.Message)
		case c.State.Terminated != nil:
			words = append(words, fmt.Sprintf("exit code %d: %s", c.State.Terminated.ExitCode, c.State.Terminated.Message))
		}
		if c.RestartCount > 0 {
			words = append(words, fmt.Sprintf("restarted %d times", c.RestartCount))
		}
	}
	return strings.Join(words, ", ")
}

// logOf is the end of a pod's log, or why there is none.
func logOf(ctx context.Context, p *corev1.Pod, lines int64) string {
	text, err := shared.admin.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{TailLines: &lines}).DoRaw(ctx)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}

func isDispatcher(p *corev1.Pod) bool {
	return p.Namespace == contract.SystemNamespace && p.Labels["app.kubernetes.io/name"] == "flex-provisioner"
}
