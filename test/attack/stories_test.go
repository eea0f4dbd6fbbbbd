//go:build e2e

package attack

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// stories are the cases of several steps, by the name that the tables give.
var stories = map[string]func(*story){
	"stolen token":      stolenToken,
	"refused claim":     refusedClaim,
	"hostile words":     hostileWords,
	"strange volume":    strangeVolume,
	"changed volume":    changedVolume,
	"costly claim":      costlyClaim,
	"lasting text":      lastingText,
	"poisoned cache":    poisonedCache,
	"turns":             turns,
	"narrowed policy":   narrowedPolicy,
	"stopped deletions": stoppedDeletions,
	"strange content":   strangeContent,
}

// story is one case while it is told.
type story struct {
	*testing.T
	*world
	a   attempt
	ctx context.Context
	// name is good for objects of the case.
	name     string
	restarts int32
}

var unworthy = strings.NewReplacer(" ", "-", "'", "", ",", "", "/", "-", "$", "", "_", "-")

// begin prepares a case, which fails if the dispatcher restarts by itself meanwhile.
func begin(t *testing.T, a attempt) *story {
	t.Helper()
	name := strings.ToLower(unworthy.Replace(a.Name))
	s := &story{T: t, world: everything, a: a, ctx: t.Context(), name: strings.Trim(name[:min(len(name), 50)], "-")}
	s.await(patient, "a dispatcher that works", func() string { return s.notReady() })
	s.restarts = s.restartCount()
	t.Cleanup(func() {
		s.ctx = context.Background()
		if now := s.restartCount(); now != s.restarts {
			s.Errorf("went through: the dispatcher restarted %d times", now-s.restarts)
		}
	})
	return s
}

func (s *story) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// await fails the case where something is lacking for too long.
func (s *story) await(limit time.Duration, what string, lacking func() string) {
	s.Helper()
	if err := s.wait(s.ctx, limit, lacking); err != nil {
		s.Fatalf("went through: %s: not within %s: %v", what, limit, err)
	}
}

// told waits for the event that the case names: "dispatcher REASON: piece" is on one of the objects. A case that names none
// needs none.
func (s *story) told(about ...types.UID) {
	s.Helper()
	who, says := s.a.refuser()
	_, reason, named := strings.Cut(who, " ")
	if !named {
		return
	}
	s.await(soon, "event "+reason, func() string {
		var have []string
		for _, uid := range about {
			for _, e := range s.eventList(s.ctx, uid) {
				if e.Reason == reason && strings.Contains(e.Message, says) {
					return ""
				}
				have = append(have, e.Reason+": "+e.Message)
			}
		}
		return "events: " + strings.Join(have, "; ")
	})
}

// make makes a claim of the class attack, which is deleted with the case.
func (s *story) make(namespace string, change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	s.Helper()
	claim, err := s.claim(s.ctx, namespace, s.name, change)
	s.ok(err)
	s.Cleanup(func() { s.remove(claim) })
	return claim
}

func (s *story) remove(claim *corev1.PersistentVolumeClaim) {
	_ = s.admin.CoreV1().PersistentVolumeClaims(claim.Namespace).Delete(context.Background(), claim.Name, metav1.DeleteOptions{})
}

// served makes an ordinary claim and waits until it is bound: the dispatcher works.
func (s *story) served(limit time.Duration) {
	s.Helper()
	began := time.Now()
	claim, err := s.claim(s.ctx, s.victim, s.name+"-served", nil)
	s.ok(err)
	s.Cleanup(func() { s.remove(claim) })
	s.ok(s.open(claim))
	s.await(limit, "another claim bound", func() string { return s.notBound(s.ctx, claim) })
	s.Logf("another claim was bound within %.1f s", time.Since(began).Seconds())
}

// dispatcherPod is the leader; there is one replica.
func (s *story) dispatcherPod() *corev1.Pod {
	list, err := s.admin.CoreV1().Pods(contract.SystemNamespace).List(s.ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=flex-provisioner"})
	if err != nil {
		return nil
	}
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			return &pod
		}
	}
	return nil
}

func (s *story) restartCount() int32 {
	if pod := s.dispatcherPod(); pod != nil && len(pod.Status.ContainerStatuses) == 1 {
		return pod.Status.ContainerStatuses[0].RestartCount
	}
	return 0
}

// ask is what the dispatcher answers at a path of its HTTP address.
func (s *story) ask(path string) (string, error) {
	pod := s.dispatcherPod()
	if pod == nil {
		return "", fmt.Errorf("there is no dispatcher")
	}
	raw, err := s.admin.CoreV1().RESTClient().Get().Namespace(pod.Namespace).Resource("pods").Name(pod.Name + ":8080").SubResource("proxy").Suffix(path).DoRaw(s.ctx)
	return string(raw), err
}

// notReady is what /readyz says where that is not well.
func (s *story) notReady() string {
	text, err := s.ask("readyz")
	if err != nil {
		return err.Error() + " " + text
	}
	return ""
}

// metric is the value of a metric of the dispatcher.
func (s *story) metric(name string) float64 {
	s.Helper()
	text, err := s.ask("metrics")
	s.ok(err)
	for line := range strings.Lines(text) {
		var value float64
		if rest, found := strings.CutPrefix(line, name+" "); found {
			_, err := fmt.Sscan(rest, &value)
			s.ok(err)
			return value
		}
	}
	s.Fatalf("no metric %s", name)
	return 0
}

// text is an argument of the story.
func (s *story) text(name string) string {
	text, _ := s.a.With[name].(string)
	return filled(text, s.names)
}

// object is an argument of the story, filled.
func (s *story) object(name string) map[string]any {
	s.Helper()
	given, _ := s.a.With[name].(map[string]any)
	object, err := filledObject(given, s.names)
	s.ok(err)
	return object
}

// number is an argument of the story.
func (s *story) number(name string) int {
	number, _ := s.a.With[name].(float64)
	return int(number)
}
