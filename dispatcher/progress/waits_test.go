package progress

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reconcile"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// TestWaits: what is written into the claim's status, by what is there.
func TestWaits(t *testing.T) {
	refused := "spec.selector is set: a new volume cannot be selected by its labels; create the claim again without the selector, which a backup tool may have put there"
	for _, c := range []struct {
		scene
		had string // reason and message of the condition, empty for none
	}{
		{scene{name: "served at once", want: "nothing"}, ""},
		{scene{name: "an attempt runs", pods: []string{"prov-0 running"}, want: "nothing"}, ""},
		{scene{name: "made", volume: "fits", pods: []string{"prov-0 done"}, want: "nothing"}, ""},
		{scene{name: "bound", claim: "bound", volume: "fits bound", pods: []string{"prov-0 done"}, want: "nothing"}, ""},
		{scene{name: "refused", also: "selector", want: "ClaimRefused " + refused}, ""},
		{scene{name: "refused, as it says", also: "selector", want: "nothing"}, "ClaimRefused " + refused},
		{scene{name: "refused, as it says for another reason", also: "selector", want: "ClaimRefused " + refused}, "ProvisionerFailed " + refused},
		{scene{name: "refused, and it says something else", also: "selector", want: "ClaimRefused " + refused}, "ClaimRefused else"},
		{scene{name: "failed", pods: []string{"prov-0 failed"}, want: "ProvisionerFailed the container exited with code 1 and left no message (pod ns/prov-" + uid + "-0)"}, ""},
		{scene{name: "failed, and kept by something else", pods: []string{"prov-0 failed"}, also: "no-config", want: "ProvisionerConfigMissing no ConfigMap"}, "ProvisionerFailed x"},
		{scene{name: "the next attempt runs", pods: []string{"prov-0 failed", "prov-1 running"}, want: "nothing"}, "ProvisionerFailed x"},
		{scene{name: "what kept it is over", want: "taken away"}, "ProvisionerConfigMissing none"},
		{scene{name: "served after trouble", claim: "bound", volume: "fits bound", pods: []string{"prov-0 done"}, want: "taken away"}, "ProvisionerFailed x"},
		{scene{name: "somebody else's volume", claim: "elsewhere", want: "taken away"}, "ProvisionerFailed x"},
		{scene{name: "being deleted", claim: "deleting", pods: []string{"prov-0 failed"}, want: "nothing"}, "ProvisionerFailed x"},
		{scene{name: "its volume does not fit", volume: "small", pods: []string{"prov-0 running"}, want: "VolumeDoesNotFit volume pvc-" + uid +
			" does not fit the claim: spec.capacity.storage is 1Mi, less than the 1Gi that the claim asks for (pod ns/prov-" + uid + "-0)"}, ""},
		{scene{name: "its volume did not fit, the next attempt runs", pods: []string{"prov-0 done kept", "del-0 done misfit kept"}, want: "nothing"},
			"VolumeDoesNotFit x"},
		{scene{name: "mended", claim: "bound", volume: "bare fits bound", pods: []string{"prov-0 done"}, want: "nothing"}, ""},
	} {
		s := c.observed()
		if reason, message, had := strings.Cut(c.had, " "); had {
			s.Claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: "Resizing", Status: corev1.ConditionTrue}, {Type: contract.ConditionWaiting, Status: corev1.ConditionTrue,
				LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour)), Reason: reason, Message: message}}
		}

		p := reconcile.Decide(s)
		SetCondition(s, &p, Of(s, p).Operation)
		got := "nothing"
		if a, ok := reconcile.Find[reconcile.SetWaitingCondition](p); ok {
			got = strings.TrimSpace(string(a.Reason) + " " + a.Message)
			if a.Reason == podspec.ReasonNone {
				got = "taken away"
			}

			if _, last := p.Actions[len(p.Actions)-1].(reconcile.SetWaitingCondition); !last {
				t.Errorf("%s: it does not come last: %v", c.name, p.Actions)
			}
		}

		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// A text that is another one at each look is written once a minute. A time of a clock that was ahead counts for none.
func TestWaitsRests(t *testing.T) {
	for _, c := range []struct {
		name    string
		written time.Duration // before now
		want    time.Duration // until it is looked at again, none where it is written
	}{
		{"just now", 0, time.Minute},
		{"a while ago", 59 * time.Second, time.Second},
		{"a minute ago", time.Minute, 0},
		{"by a clock that was ahead", -time.Second, 0},
	} {
		s := scene{also: "selector"}.observed()
		s.Claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: contract.ConditionWaiting, Status: corev1.ConditionTrue,
			LastProbeTime: metav1.NewTime(s.Now.Add(-c.written)), Reason: "ClaimRefused", Message: "used 1"}}
		p := reconcile.Plan{Events: []events.Event{events.ClaimWaits("ClaimRefused", "used 2")}}
		SetCondition(s, &p, "provision")
		_, written := reconcile.Find[reconcile.SetWaitingCondition](p)
		if written != (c.want == 0) || c.want > 0 && !p.RequeueAt.Equal(s.Now.Add(c.want)) {
			t.Errorf("%s: written %t, looked at again at %s; want %s after %s", c.name, written, p.RequeueAt, c.want, s.Now)
		}
	}
}

// What a condition says is one bounded line, whatever an image said.
func TestWaitsIsBounded(t *testing.T) {
	s := scene{}.observed()
	p := reconcile.Plan{Events: []events.Event{events.ClaimWaits(events.ReasonConfigMissing, strings.Repeat("a\x1b[2J\n", 1000))}}
	SetCondition(s, &p, "provision")
	if a, _ := reconcile.Find[reconcile.SetWaitingCondition](p); a.Message == "" || len(a.Message) > podspec.MaxEvent || strings.ContainsAny(a.Message, "\x1b\n") {
		t.Errorf("%d bytes: %.100q", len(a.Message), a.Message)
	}
}
