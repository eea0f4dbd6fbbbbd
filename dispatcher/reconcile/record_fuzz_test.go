package reconcile

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// checkEnvironment says what is wrong with a provisioner's environment: each name once, the fixed names with their own values
// and, beside them, only names that a ConfigMap may have.
func checkEnvironment(t *testing.T, pod *corev1.Pod, r contract.Request) {
	t.Helper()
	env := map[string]string{}
	for _, v := range pod.Spec.Containers[0].Env {
		if _, twice := env[v.Name]; twice {
			t.Errorf("%s is there twice", v.Name)
		}

		env[v.Name] = v.Value
	}

	for _, fixed := range r.Env("https://192.0.2.9") {
		if want := strings.ReplaceAll(fixed.Value, "$", "$$"); env[fixed.Name] != want {
			t.Errorf("%s is %q, want %q", fixed.Name, env[fixed.Name], want)
		}

		delete(env, fixed.Name)
	}

	delete(env, "FLEX_NODE")
	for name := range env {
		if !environmentName.MatchString(name) || dangerousName.MatchString(name) {
			t.Errorf("%q is in the environment", name)
		}
	}
}

var (
	environmentName = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
	dangerousName   = regexp.MustCompile(`^(FLEX_|KUBE|LD_|BASH|PYTHON|PERL5)|^(PATH|ENV|IFS|HOME|GODEBUG)$`)
)

// FuzzIdentity lets a pod write any identity, claimRef and record onto its volume, and an administrator trust it or not.
func FuzzIdentity(f *testing.F) {
	f.Add(hostile, "00", "team-a", "data")
	f.Add(hostile, contract.RecordTrusted, "team-a", "data")
	f.Add(`{"properties":{"zone":"west"},"parameters":{"pool":"a"}}`, "", "team-a", "data")
	f.Add(`{"properties":{"ｌd_preload":"x","a.b":"1","a-b":"2"}}`, contract.RecordTrusted, "team-a", "data")
	f.Add(`{"properties":null,"parameters":{"":""}}`, contract.RecordTrusted, "", "\n")
	f.Add(strings.Repeat(`{"properties":`, 2000), contract.RecordTrusted, "team-a", "data")
	f.Fuzz(func(t *testing.T, identity, record, namespace, name string) {
		f := hostileFacts(identity)
		f.Volume.Annotations[contract.AnnRecord] = record
		f.RecordKey.Mark(f.Volume)
		f.Volume.Spec.ClaimRef.Namespace, f.Volume.Spec.ClaimRef.Name = namespace, name
		p := Decide(f)
		if podspec.Recorded(f.Volume) {
			t.Fatal("a record was forged")
		}

		create, ok := Find[CreatePod](p)
		if !ok {
			if p.ProtectedBy == podspec.ReasonNone {
				t.Fatalf("neither held nor deleted: %s", describe(p))
			}

			return
		}

		pod, err := f.Pod(create.AttemptSpec, podspec.Cluster{Namespace: "flex-provisioners", KubeAPI: "https://192.0.2.9"})
		if err != nil {
			return // it says why: too large
		}

		request, err := podspec.RequestOf(pod)
		if err != nil {
			t.Fatal(err)
		}

		checkEnvironment(t, pod, request)
		trusted := record == contract.RecordTrusted
		if current := f.Identity(); !trusted && identity != "" &&
			(!maps.Equal(request.Properties, current.Properties) || !maps.Equal(request.Parameters, current.Parameters)) {
			t.Errorf("properties %v and parameters %v of a volume that nobody vouches for are used", request.Properties, request.Parameters)
		}
	})
}

// FuzzMounts lets a pod write any mounts and location onto its volume, and an administrator trust it or not. A pod that deletes mounts what
// the class does.
func FuzzMounts(f *testing.F) {
	f.Add("[]", "00", "west")
	f.Add(dispatchertest.Mounts, contract.RecordTrusted, "west\n@location east")
	f.Add(`[{"claim":"another","path":"/export"}]`, contract.RecordTrusted, "")
	f.Add(`[{"claim":"exports","path":"/export"},{"path":"/etc"}]`, "", strings.Repeat("x", contract.MaxLocation+1))
	f.Add("null", contract.RecordTrusted, "\x1b[2J")
	f.Fuzz(func(t *testing.T, mounts, record, location string) {
		f := hostileFacts(`{"properties":{"server":"$(HOME)","zone":"west"},"parameters":{"pool":"a"}}`)
		f.Config.MountClaims = []configmaps.ClaimMount{{Claim: "exports", Path: "/export"}}
		f.Places = map[string]observed.Place{"exports": {Source: "nfs://a/e1"}, "another": {Source: "nfs://a/e2"}}
		f.Volume.Annotations[contract.AnnRecord] = record
		f.Volume.Annotations[contract.AnnMounts], f.Volume.Annotations[contract.AnnLocation] = mounts, location
		f.RecordKey.Mark(f.Volume)
		p := Decide(f)
		create, ok := Find[CreatePod](p)
		if !ok {
			if p.ProtectedBy == podspec.ReasonNone {
				t.Fatalf("neither held nor deleted: %s", describe(p))
			}

			return
		}

		pod, err := f.Pod(create.AttemptSpec, podspec.Cluster{Namespace: "flex-provisioners", KubeAPI: "https://192.0.2.9"})
		if err != nil {
			return // it says why: too large
		}

		request, err := podspec.RequestOf(pod)
		if err != nil {
			t.Fatal(err)
		}

		for _, v := range pod.Spec.Volumes {
			if v.HostPath != nil || v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName != "exports" {
				t.Errorf("the pod mounts %+v", v)
			}
		}

		if _, valid := contract.LocationLine(request.Location); request.Location != "" && !valid {
			t.Errorf("the pod gets location %q", request.Location)
		}
	})
}

// FuzzUndoRequest lets the request in a pod's annotation be any text.
func FuzzUndoRequest(f *testing.F) {
	f.Add(`{"properties":{"zone":"west"}}`)
	f.Add(`{"operation":"delete","volumeName":"pvc-x","claim":{"uid":"../.."},"properties":{"LD_PRELOAD":"x"}}`)
	f.Add(`{"groups":["a,b"],"attempt":-1,"allowedTopologies":[{"a":null}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		s := scene{claim: "none", pods: []string{"prov-0 failed"}}.observed()
		s.Attempts[0].Pod.Annotations[contract.AnnRequest] = text
		p := Decide(s)
		create, ok := Find[CreatePod](p)
		if !ok {
			t.Fatalf("no undo is ordered: %s", describe(p))
		}

		pod, err := s.Pod(create.AttemptSpec, podspec.Cluster{KubeAPI: "https://192.0.2.9"})
		if err != nil {
			return
		}

		request, err := podspec.RequestOf(pod)
		if err != nil {
			t.Fatal(err)
		}

		checkEnvironment(t, pod, request)
		if want := podspec.Name(contract.Delete, uid, 0); pod.Name != want || request.VolumeName != podspec.VolumeName(uid) {
			t.Errorf("pod %s is to remove %s, want %s", pod.Name, request.VolumeName, want)
		}

		if !json.Valid([]byte(pod.Annotations[contract.AnnRequest])) {
			t.Error("the request is no JSON")
		}

		if !slices.Contains(pod.Finalizers, contract.PodFinalizer) {
			t.Error("the pod has no finalizer")
		}
	})
}
