package dispatcher

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// evict deletes all pods that have ended, as a drain of their node does.
func (p tenants) evict() (names []string) {
	for _, pod := range apiserver.List[*corev1.Pod](p.server, apiserver.Pods) {
		if podspec.OutcomeOf(pod).Final() {
			p.remove(apiserver.Pods, pod.Namespace, pod.Name)
			names = append(names, pod.Name)
		}
	}

	return names
}

// left are those of the pods that exist.
func (p tenants) left(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, exists := apiserver.Get[*corev1.Pod](p.server, apiserver.Pods, "ns", name)
		return !exists
	})
}

// records are the names of all saved pods.
func (p tenants) records() (names []string) {
	for _, record := range apiserver.List[*appsv1.ControllerRevision](p.server, apiserver.Revisions) {
		if record.Labels[contract.LabelClaimUID] != "" {
			names = append(names, record.Name)
		}
	}

	return names
}

func numbers(names []string) string {
	var list []string
	for _, name := range names {
		op, _, number, _ := podspec.ParseName(name)
		list = append(list, fmt.Sprintf("%s %d", op, number))
	}

	return strings.Join(list, ", ")
}

// TestDrainOfFailedAttempts: the pods of failed attempts are gone from their node soon after a drain deletes them. The
// next attempts come in their time, with the next numbers, whatever dispatcher runs. What the attempts may have made is
// undone once the claim is deleted, and nothing stays.
func TestDrainOfFailedAttempts(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarts %t", restarts), func(t *testing.T) {
			inBubble(t, func(p tenants) {
				stop := p.dispatch()
				p.class("a.fails", map[string]string{"failed-pod-ttl": "0s"})
				p.claim("data", "a.fails")
				p.play(40 * time.Second) // the attempts 0 to 5, with 32 s after the last

				evicted := p.evict()
				if got := numbers(evicted); got != "provision 0, provision 5" {
					t.Fatalf("there are the pods of %s", got)
				}

				p.play(14 * time.Second)
				if left := p.left(evicted); len(left) > 0 {
					t.Errorf("14 s after the drain there are %q", left)
				}

				if got := numbers(p.records()); got != "provision 0, provision 5" {
					t.Errorf("records: %s", got)
				}

				if restarts {
					stop()
					stop = p.dispatch()
				}

				p.play(time.Minute)
				pods := apiserver.List[*corev1.Pod](p.server, apiserver.Pods)
				if len(pods) != 1 || !strings.HasSuffix(pods[0].Name, "-6") {
					t.Errorf("pods: %+v", pods)
				}

				if got := numbers(p.records()); got != "provision 0" {
					t.Errorf("records after the next attempt: %s", got)
				}

				p.remove(apiserver.Claims, "team", "data")
				p.play(5 * time.Minute)
				pods = apiserver.List[*corev1.Pod](p.server, apiserver.Pods)
				if records := p.records(); len(pods)+len(records) > 0 || p.pods(contract.Delete) != 1 {
					t.Errorf("%d undos; left are %d pods and %q", p.pods(contract.Delete), len(pods), records)
				}

				stop()
			})
		})
	}
}

// TestRetryOfDrainedAttempt: an administrator asks for the next attempt on the record of one whose pod is gone.
func TestRetryOfDrainedAttempt(t *testing.T) {
	inBubble(t, func(p tenants) {
		defer p.dispatch()()

		p.class("a.fails", map[string]string{"failed-pod-ttl": "0s"})
		p.claim("data", "a.fails")
		p.play(150 * time.Second) // the next attempt is two minutes away
		evicted := p.evict()
		p.play(20 * time.Second)
		latest := evicted[len(evicted)-1]
		p.server.Mutate(apiserver.Revisions, "ns", latest, func(o apiserver.Object) {
			made := o.GetAnnotations()[contract.AnnMadeBefore]
			o.SetAnnotations(map[string]string{contract.AnnRetry: "true", contract.AnnMadeBefore: made})
		})
		before := p.pods(contract.Provision)
		p.play(2 * time.Second)
		if got := p.pods(contract.Provision); got != before+1 {
			t.Errorf("%d attempts before, %d after", before, got)
		}
	})
}

// sightless hides pods and their records from informers. What is asked for by name, or for a claim, is there.
type sightless struct{ http.RoundTripper }

func (s sightless) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	if query.Get("labelSelector") != contract.LabelClaimUID {
		return s.RoundTripper.RoundTrip(r)
	}

	switch {
	case query.Get("sendInitialEvents") == "true":
		code, answer := apiserver.Failure(apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "", nil))
		return apiserver.Respond(r, code, answer), nil
	case query.Get("watch") != "":
		<-r.Context().Done()
		return nil, errors.Join(io.EOF, r.Context().Err())
	}

	kind, version := "PodList", "v1"
	if strings.HasSuffix(r.URL.Path, "/controllerrevisions") {
		kind, version = "ControllerRevisionList", "apps/v1"
	}

	return apiserver.Respond(r, http.StatusOK,
		fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"1"},"items":[]}`, kind, version)), nil
}

// TestLeaderThatSeesNoRecord: the first pod of a claim is gone with its name, and a leader with old caches knows
// neither the pod nor its record. It does not begin again.
func TestLeaderThatSeesNoRecord(t *testing.T) {
	inBubble(t, func(p tenants) {
		stop := p.dispatch()
		p.class("a.fails", map[string]string{"failed-pod-ttl": "0s"})
		p.claim("data", "a.fails")
		p.play(40 * time.Second)
		evicted := p.evict()
		p.play(14 * time.Second)
		stop()
		if left := p.left(evicted); len(left) > 0 {
			t.Fatalf("left are %q", left)
		}

		p.api = sightless{p.server}
		defer p.dispatch()()

		time.Sleep(20 * time.Second)
		var names []string
		for _, pod := range apiserver.List[*corev1.Pod](p.server, apiserver.Pods) {
			names = append(names, pod.Name)
		}

		if got := numbers(names); got != "provision 6" {
			t.Errorf("pods: %s", got)
		}
	})
}

// TestRecordOfAnother: what has the name of a pod's record and was restored from a backup is replaced by the record,
// before the pod goes.
func TestRecordOfAnother(t *testing.T) {
	inBubble(t, func(p tenants) {
		defer p.dispatch()()

		p.class("a.fails", map[string]string{"failed-pod-ttl": "0s"})
		p.claim("data", "a.fails")
		p.play(3 * time.Second)
		pod := apiserver.List[*corev1.Pod](p.server, apiserver.Pods)[0]
		copied, err := podspec.SavePod(pod, time.Now().Add(-time.Hour))
		if err != nil {
			t.Fatal(err)
		}

		p.create(apiserver.Revisions, copied)
		evicted := p.evict()
		p.play(time.Minute)
		if left := p.left(evicted[:1]); len(left) > 0 {
			t.Errorf("left are %q", left)
		}

		record, ok := apiserver.Get[*appsv1.ControllerRevision](p.server, apiserver.Revisions, "ns", pod.Name)
		if !ok || podspec.DecodeSaved(record.DeepCopy()) != nil {
			t.Errorf("the record is %+v", record)
		}
	})
}

// TestPodsHaveAnOwner: a drain, and an autoscaler, take a running pod for one that is made again elsewhere.
func TestPodsHaveAnOwner(t *testing.T) {
	inBubble(t, func(p tenants) {
		p.create(apiserver.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}})
		defer p.dispatch()()

		p.class("a.hangs", nil)
		for _, claim := range []string{"data", "later"} {
			p.claim(claim, "a.hangs")
			p.play(5 * time.Second)
			namespace, _ := apiserver.Get[*corev1.Namespace](p.server, apiserver.Namespaces, "", "ns")
			pods := apiserver.List[*corev1.Pod](p.server, apiserver.Pods)
			pod := pods[len(pods)-1]
			owner := metav1.GetControllerOf(pod)
			ours := owner != nil && owner.Kind == "Namespace" && owner.Name == "ns" && owner.UID == namespace.UID
			if !ours || owner.BlockOwnerDeletion != nil {
				t.Errorf("%s: the owner of pod %s is %+v", claim, pod.Name, owner)
			}

			if got := pod.Annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"]; got != "true" {
				t.Errorf("%s: safe-to-evict is %q", claim, got)
			}

			p.remove(apiserver.Namespaces, "", "ns")
			p.create(apiserver.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}})
			p.play(time.Minute)
		}
	})
}

// TestDrainBesideQuota: the next attempt's pod is refused for long, and the pod of the last one goes all the same.
func TestDrainBesideQuota(t *testing.T) {
	inBubble(t, func(p tenants) {
		defer p.dispatch()()

		p.class("a.fails", map[string]string{"failed-pod-ttl": "0s"})
		p.claim("data", "a.fails")
		p.play(5 * time.Second)
		p.server.Admit = func(o apiserver.Object) error {
			if _, isPod := o.(*corev1.Pod); !isPod {
				return nil
			}

			pods := corev1.Resource("pods")

			return apierrors.NewForbidden(pods, o.GetName(), errors.New("exceeded quota: pods"))
		}

		p.play(20 * time.Second)
		evicted := p.evict()
		p.play(20 * time.Second)
		if left := p.left(evicted); len(left) > 0 || len(evicted) == 0 {
			t.Errorf("of %q there are %q", evicted, left)
		}
	})
}
