package cluster

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

func provisionerPod(claim string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "prov-" + claim + "-0", UID: types.UID("pod-" + claim),
		Labels:      map[string]string{contract.LabelOperation: "provision", contract.LabelClaimUID: claim},
		Annotations: map[string]string{contract.AnnClaim: "team-a/" + claim}}, Status: corev1.PodStatus{Phase: phase}}
}

// A pod that is gone is remembered as it was, and those of others are none of the run's business.
func TestWatcher(t *testing.T) {
	w := newWatcher(nil, "flex-provisioners", "team-a/run-", false)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen := make(chan bool)
	go func() {
		seen <- w.await(ctx, func() bool { pods := w.of("run-1", contract.Provision); return len(pods) == 1 && pods[0].gone })
	}()
	w.note(ctx, provisionerPod("run-1", corev1.PodPending), false)
	w.note(ctx, provisionerPod("other", corev1.PodPending), false)
	if pods := w.all(); len(pods) != 1 || !pods[0].until.IsZero() || pods[0].gone {
		t.Errorf("seen: %+v", pods)
	}
	w.note(ctx, provisionerPod("run-1", corev1.PodSucceeded), false)
	ended := w.all()[0].until
	w.note(ctx, provisionerPod("run-1", corev1.PodSucceeded), true)
	if !<-seen {
		t.Error("nobody was told")
	}
	if pods := w.all(); len(pods) != 1 || pods[0].Status.Phase != corev1.PodSucceeded || ended.IsZero() || pods[0].until != ended {
		t.Errorf("seen: %+v", pods)
	}
	if pods := w.of("run-1", contract.Delete); len(pods) != 0 {
		t.Errorf("seen to delete: %+v", pods)
	}
}

func TestAwaitEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if newWatcher(nil, "", "", false).await(ctx, func() bool { return false }) {
		t.Error("it came about")
	}
	var nobody *watcher // who may not watch
	if pods := nobody.all(); pods != nil {
		t.Errorf("seen: %+v", pods)
	}
}
