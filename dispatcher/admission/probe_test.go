package admission

import (
	"errors"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flex-provisioner/flex-provisioner/podspec"
)

func TestResult(t *testing.T) {
	volumes := schema.GroupResource{Resource: "persistentvolumes"}
	refusal := func(text string) error { return apierrors.NewForbidden(volumes, "x", errors.New(text)) }
	invalid := apierrors.NewForbidden(volumes, "x", errors.New("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"))
	invalid.ErrStatus.Reason, invalid.ErrStatus.Code = metav1.StatusReasonInvalid, http.StatusUnprocessableEntity
	const accepted = "ValidatingAdmissionPolicy p is not in force: a dry run that creates w was accepted"
	for _, c := range []struct {
		name     string
		err      error
		want     string
		by       string
		answered bool
	}{
		{"accepted", nil, accepted, "", true},
		{"there already", apierrors.NewAlreadyExists(volumes, "x"), accepted, "", true},
		{"refused", refusal("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"), "", "p", true},
		{"refused as invalid", invalid, "", "p", true},
		{"refused by another policy", refusal("ValidatingAdmissionPolicy 'images' with binding 'all' denied request: no"), "", "images", true},
		{"refused by who talks of a policy", refusal("Pod Security: see ValidatingAdmissionPolicy 'p'"),
			`ValidatingAdmissionPolicy p could not be tried: persistentvolumes "x" is forbidden: Pod Security: see ValidatingAdmissionPolicy 'p'`, "", true},
		{"refused by RBAC", refusal(`User "x" cannot create resource`),
			`ValidatingAdmissionPolicy p could not be tried: persistentvolumes "x" is forbidden: User "x" cannot create resource`, "", true},
		{"refused in two lines", refusal("one\n\x1b[2Jtwo"), `ValidatingAdmissionPolicy p could not be tried: persistentvolumes "x" is forbidden: one [2Jtwo`, "", true},
		{"no answer", errors.New("connection refused"), "ValidatingAdmissionPolicy p could not be tried: connection refused", "", false},
		{"busy", apierrors.NewTooManyRequests("later", 1), "ValidatingAdmissionPolicy p could not be tried: later", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := Result{Policy: "p", RefusedBy: c.by, Missing: c.want, answered: c.answered}
			if got := (probe{policy: "p", what: "w"}).result(c.err); got != want {
				t.Errorf("result %+v, want %+v", got, want)
			}
		})
	}
}

// Every policy without which no pod is made is probed, and every probe is for one of them. test/integration shows that each
// is accepted as soon as that policy's binding is gone.
func TestEveryPolicyIsProbed(t *testing.T) {
	required, guard := takeOut(readAll(t), creatorGuard)
	if guard.policy.Name == "" {
		t.Errorf("policy %s is not shipped", creatorGuard)
	}

	probed := map[string]bool{}
	for _, p := range probes {
		if _, of := takeOut(required, p.policy); of.policy.Name == "" {
			t.Errorf("a probe is for policy %s, which is not shipped", p.policy)
		}

		probed[p.policy] = true
	}

	for _, s := range required {
		if !probed[s.policy.Name] && s.policy.Name != "flex-attachments-by-provisioner-pod" {
			t.Errorf("policy %s is not probed", s.policy.Name)
		}
	}
}

// What a probe's pod has wrong is its name alone.
func TestProbePod(t *testing.T) {
	pod, err := probePod(podspec.Cluster{Namespace: "ns"})
	if err != nil {
		t.Fatal(err)
	}

	if _, uid, _, ok := podspec.ParseName(pod.Name); !ok || uid != probeUID || pod.Namespace != "ns" {
		t.Errorf("the pod is %s/%s", pod.Namespace, pod.Name)
	}
}
