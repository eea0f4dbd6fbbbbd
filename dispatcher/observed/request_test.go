package observed

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "",
		"oidc:alice@example.com":              "oidc:alice@example.com",
		"CN=Jörg $(PASSWORD) `id`, O=x":       "CN=Jörg $(PASSWORD) `id`, O=x", // the pod's environment doubles every $
		"alice\nFLEX_OPERATION=delete":        "",
		"alice\x00":                           "",
		"\x1b[2Jalice":                        "",
		"alice\u202eecila":                    "",
		"alice\u2028bob":                      "",
		"\xff":                                "",
		strings.Repeat("a", maxCreator):       strings.Repeat("a", maxCreator),
		strings.Repeat("a", maxCreator) + "a": "",
	} {
		if got := printable(text); got != want {
			t.Errorf("printable(%.40q) = %.40q, want %.40q", text, got, want)
		}
	}
}

// A provisioner wrote the claimRef. Where its UID is the claim's, the claim says its name, and after it the pod of its
// attempt.
func TestClaimNamed(t *testing.T) {
	const uid = "8b6e7a3e-0d9f-4a53-9d0a-6d1f5b7f2c11"
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "data", UID: uid}}
	request, err := json.Marshal(contract.Request{Claim: contract.Claim{Namespace: "team", Name: "data", UID: uid}})
	if err != nil {
		t.Fatal(err)
	}

	attempt := Attempt{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{contract.AnnRequest: string(request)}}}}
	ref := func(uid types.UID) *corev1.ObjectReference {
		return &corev1.ObjectReference{Namespace: "victim", Name: "db", UID: uid}
	}
	for _, c := range []struct {
		name     string
		ref      *corev1.ObjectReference
		claim    *corev1.PersistentVolumeClaim
		attempts []Attempt
		want     string
	}{
		{name: "the claim lives", ref: ref(uid), claim: claim, want: "team/data"},
		{name: "a pod is left", ref: ref(uid), attempts: []Attempt{attempt}, want: "team/data"},
		{name: "nothing is left", ref: ref(uid), want: "victim/db"},
		{name: "an administrator gave the volume away", ref: ref("another"), claim: claim, attempts: []Attempt{attempt},
			want: "victim/db"},
		{name: "an administrator freed the volume", claim: claim, want: "/"},
	} {
		s := &Claim{UID: uid, Claim: c.claim, Attempts: c.attempts,
			Volume: &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{ClaimRef: c.ref}}}
		if namespace, name := s.claimNamed(); namespace+"/"+name != c.want {
			t.Errorf("%s: %s/%s, want %s", c.name, namespace, name, c.want)
		}
	}
}

// Properties that the class has gained come on top, but for those whose environment name the volume uses already.
func TestWithGained(t *testing.T) {
	got := withGained(contract.Identity{Properties: map[string]string{"a.b": "frozen"}, Parameters: map[string]string{"pool": "a"}},
		map[string]string{"a-b": "now", "a.b": "now", "pool": "now", "new": "now"})
	if len(got) != 2 || got["a.b"] != "frozen" || got["new"] != "now" {
		t.Errorf("properties are %v", got)
	}
}
