package reconcile

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

var (
	update = flag.Bool("update", false, "write the golden files anew")
)

// hostile is an identity that a provisioner pod may try to leave for the pod that deletes.
const hostile = `{"properties":{"FLEX_PV_NAME":"pvc-of-another","flex-pv-name":"pvc-of-another","LD_PRELOAD":"/export/evil.so","BASH_ENV":"/export/evil.sh",` +
	`"KUBERNETES_SERVICE_HOST":"192.0.2.1","zone":"another","no name":"x"},"parameters":{"pool":"another"}}`

func hostileFacts(identity string) *observed.Claim {
	f := scene{claim: "none", volume: "fits released"}.observed()
	f.RecordKey = dispatchertest.Key
	f.Config.Name, f.Config.ResourceVersion, f.Config.Image, f.Config.ServiceAccountName = "cm", "1", "example.com/i", "silver"
	f.Config.Timeout = time.Minute
	f.Config.Properties = map[string]string{"zone": "west", "server": "$(HOME)"}
	f.Class.Parameters = map[string]string{"pool": "a"}
	f.Volume.Annotations = map[string]string{contract.ProvisionedBy: "p", contract.AnnIdentity: identity, contract.AnnRecord: "00", contract.AnnAllowDelete: "true"}
	f.RecordKey.Mark(f.Volume)

	return f
}

// held says that a plan leaves a volume whose record cannot be believed.
func held(p Plan) bool {
	_, creates := Find[CreatePod](p)
	return !creates && p.ProtectedBy == events.ReasonRecord
}

// A volume of which its pod forged everything is repaired from the request in the pod. What is asked of later pods then has
// the fixed names and the administrator's properties, and nothing else.
func TestHostileVolume(t *testing.T) {
	f := hostileFacts(hostile)
	if p := Decide(f); !held(p) {
		t.Fatalf("a forged volume leads to %s", describe(p))
	}

	made := scene{pods: []string{"prov-0 done"}}.observed().Attempts[0]
	request, err := json.Marshal(contract.Request{VolumeName: f.Volume.Name, StorageClass: "silver", Claim: contract.Claim{Namespace: "team-a", Name: "data", UID: uid},
		SizeBytes: 1 << 30, AccessModes: []string{"ReadWriteOnce"}, VolumeMode: "Filesystem", Identity: contract.Identity{Properties: map[string]string{"zone": "west"}, Parameters: map[string]string{"pool": "a"}}})
	if err != nil {
		t.Fatal(err)
	}

	made.Pod.Annotations[contract.AnnRequest] = string(request)
	for name, value := range f.ExpectedRecord([]observed.Attempt{made}) {
		f.Volume.Annotations[name] = value
	}

	f.RecordKey.Mark(f.Volume)
	if f.ExpectedRecord([]observed.Attempt{made}) != nil {
		t.Error("the repaired volume is to be repaired once more")
	}

	cluster := podspec.Cluster{Namespace: "flex-provisioners", KubeAPI: "https://192.0.2.9"}
	f.Attempts = nil
	for name, o := range map[string]observed.AttemptSpec{"delete": {Op: contract.Delete}, "expand": {Op: contract.Expand, Size: 2 << 30}, "undo": {Op: contract.Delete, MadeBy: made.Pod}} {
		t.Run(name, func(t *testing.T) {
			f := *f
			if name == "undo" {
				f.Volume = nil
			}

			pod, err := f.Pod(o, cluster)
			if err != nil {
				t.Fatal(err)
			}

			golden(t, "testdata/environment/"+name+".yaml", pod.Spec.Containers[0].Env)
		})
	}
}

// What comes after an attempt that may have made storage is told where that one worked, in its own words or in those that it was told.
func TestLocation(t *testing.T) {
	for _, c := range []struct{ said, told, want string }{
		{"", "", ""},
		{"@location project=a\nno space", "", "project=a"},
		{"no space", "project=a", "project=a"},
		{"@location project=b\n", "project=a", "project=a"},
		{"@location project=$(HOME) b\n", "", ""},
	} {
		f := scene{pods: []string{"prov-0 failed"}}.observed()
		f.Config.Timeout, f.RecordKey = time.Minute, dispatchertest.Key
		record := f.Attempts[0].Pod
		request, err := json.Marshal(contract.Request{Location: c.told})
		if err != nil {
			t.Fatal(err)
		}

		record.Annotations[contract.AnnRequest] = string(request)
		record.Status.ContainerStatuses[0].State.Terminated.Message = c.said
		for _, op := range []contract.Operation{contract.Provision, contract.Delete} {
			pod, err := f.Pod(observed.AttemptSpec{Op: op, Number: 1, MadeBy: record}, podspec.Cluster{})
			if err != nil {
				t.Fatal(err)
			}

			if next, err := podspec.RequestOf(pod); err != nil || next.Location != c.want {
				t.Errorf("after %+v the next %s is told %q, %v", c, op, next.Location, err)
			}
		}
	}
}

// An administrator may trust what is on the volume, and refused names stay refused.
func TestTrustedIdentity(t *testing.T) {
	f := hostileFacts(hostile)
	f.Volume.Annotations[contract.AnnRecord] = contract.RecordTrusted
	_, err := f.Pod(observed.AttemptSpec{Op: contract.Delete}, podspec.Cluster{})
	if err == nil {
		t.Fatal("refused names reach a pod")
	}

	golden(t, "testdata/environment/trusted-error.yaml", err.Error())
}

// The API server takes any text as the claim that a volume names.
func TestClaimRefOfNobody(t *testing.T) {
	for _, ref := range []corev1.ObjectReference{{Namespace: "team-a", Name: "data\nFLEX_PV_NAME=x"}, {Namespace: "../team-a", Name: "data"}, {Name: "data"}} {
		f := hostileFacts("")
		f.Volume.Spec.ClaimRef.Namespace, f.Volume.Spec.ClaimRef.Name = ref.Namespace, ref.Name
		want := fmt.Sprintf("spec.claimRef of volume pvc-%s is %q/%q, which names no claim; correct it", uid, ref.Namespace, ref.Name)
		if _, doubt := f.VolumeIdentity(); doubt != want {
			t.Errorf("doubt is %q, want %q", doubt, want)
		}

		if p := Decide(f); !held(p) {
			t.Errorf("plan is %s", describe(p))
		}
	}
}

// A pod is not built with names that are refused, wherever they come from.
func TestBuildRefusesNames(t *testing.T) {
	_, err := podspec.Build(podspec.Attempt{Config: &configmaps.Config{}, Request: contract.Request{Operation: contract.Delete,
		Identity: contract.Identity{Properties: map[string]string{"LD_PRELOAD": "x"}}}}, podspec.Cluster{})
	const want = `build pod for claim /: data[LD_PRELOAD]: Forbidden: would set the environment variable LD_PRELOAD, which is refused: loads code into every program; choose another name, for example "backend-LD_PRELOAD"`
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func golden(t *testing.T, file string, object any) {
	t.Helper()
	got, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}

	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}

		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}

		return
	}

	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	if string(got) != string(want) {
		t.Errorf("%s differs (go test ./dispatcher/reconcile -update writes it anew):\n%s", file, diff.Diff(string(want), string(got)))
	}
}

// TestReportedLocation: while the pod of a volume is there, its own word on the place counts. A volume that says nothing gets it, and one that
// says something else was changed.
func TestReportedLocation(t *testing.T) {
	for name, c := range map[string]struct{ reported, written, want string }{
		"the same":         {"west", "west", "tell claim ProvisioningSucceeded, acknowledge prov-0"},
		"none":             {"", "", "tell claim ProvisioningSucceeded, acknowledge prov-0"},
		"only the volume":  {"", "west", "tell claim ProvisioningSucceeded, acknowledge prov-0"},
		"only the pod":     {"west", "", "tell claim ProvisioningSucceeded, repair 0, acknowledge prov-0"},
		"something else":   {"west", "east", "tell claim VolumeMended, tell claim ProvisioningSucceeded, repair 1, acknowledge prov-0"},
		"what is no place": {"a b", "", "tell claim ProvisioningSucceeded, acknowledge prov-0"},
	} {
		s := scene{claim: "bound", volume: "fits bound", pods: []string{"prov-0 done"}}.observed()
		if c.written != "" {
			s.Volume.Annotations[contract.AnnLocation] = c.written
		}

		pod := s.Attempts[0].Pod
		pod.Status.ContainerStatuses[0].State.Terminated.Message = "@location " + c.reported + "\n"
		s.Attempts[0] = observed.NewAttempt(pod, "")
		if got := describe(Decide(s)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// What a provisioner gets of the claim's metadata is what its class names, as it was at provision. The volume keeps it,
// signed. Of a claim of the caches, which has no labels, nothing is decided by it.
func TestClaimTexts(t *testing.T) {
	cluster := podspec.Cluster{Namespace: "flex-provisioners", KubeAPI: "https://192.0.2.9"}
	texts := func(f *observed.Claim, spec observed.AttemptSpec) string {
		t.Helper()
		pod, err := f.Pod(spec, cluster)
		if err != nil {
			t.Fatal(err)
		}

		var got []string
		for _, v := range pod.Spec.Containers[0].Env {
			if name, found := strings.CutPrefix(v.Name, "FLEX_PVC_LABEL_"); found {
				got = append(got, name+"="+v.Value)
			}

			if name, found := strings.CutPrefix(v.Name, "FLEX_PVC_ANNOTATION_"); found {
				got = append(got, name+"="+v.Value)
			}
		}

		return strings.Join(got, " ")
	}

	f := scene{}.observed()
	f.RecordKey = dispatchertest.Key
	f.Claim.Labels = map[string]string{"team": "a", "example.com/tier": "gold", "other": "x"}
	f.Claim.Annotations = map[string]string{"example.com/path": "$(HOME)"}
	if got := texts(f, observed.AttemptSpec{Op: contract.Provision}); got != "" {
		t.Errorf("a class that names none gets %s", got)
	}

	f.Config.ClaimLabels, f.Config.ClaimAnnotations = []string{"team", "none", "example.com/tier"}, []string{"example.com/path"}
	const want = "EXAMPLE_COM_TIER=gold NONE= TEAM=a EXAMPLE_COM_PATH=$$(HOME)"
	if got := texts(f, observed.AttemptSpec{Op: contract.Provision}); got != want {
		t.Errorf("provision gets %s, want %s", got, want)
	}

	// The volume that this makes, and the pod of the attempt.
	pod, err := f.Pod(observed.AttemptSpec{Op: contract.Provision}, cluster)
	if err != nil {
		t.Fatal(err)
	}

	v := scene{volume: "fits released"}.observed().Volume
	if err := yaml.Unmarshal([]byte(pod.Annotations[contract.AnnVolume]), &v); err != nil {
		t.Fatal(err)
	}

	f.RecordKey.Mark(v)
	later := scene{claim: "none"}.observed()
	later.Volume, later.Config.ClaimLabels = v, []string{"another"}
	for _, spec := range []observed.AttemptSpec{{Op: contract.Delete}, {Op: contract.Expand, Size: 2 << 30}} {
		if got := texts(later, spec); got != want {
			t.Errorf("%s gets %s, want %s", spec.Op, got, want)
		}
	}

	later.Volume = nil
	if got := texts(later, observed.AttemptSpec{Op: contract.Delete, MadeBy: pod}); got != want {
		t.Errorf("an undo gets %s, want %s", got, want)
	}

	// Without the signature a provisioner may have written them.
	delete(v.Annotations, podspec.Verified)
	later.Volume, later.Config.Properties = v, f.Config.Properties
	if _, doubt := later.VolumeIdentity(); !strings.Contains(doubt, "is not signed by this dispatcher") {
		t.Errorf("unsigned labels are used: %q", doubt)
	}

	// Another label may mean other storage: what the attempt made is undone first.
	attempt := observed.NewAttempt(pod, "")
	for _, c := range []struct {
		label     string
		confirmed bool
		want      bool
	}{{"a", true, false}, {"b", true, true}, {"b", false, false}} {
		f.Claim.Labels["team"], f.Confirmed = c.label, time.Time{}
		if c.confirmed {
			f.Confirmed = dispatchertest.Noon
		}

		if got := f.IdentityChanged(attempt); got != c.want {
			t.Errorf("label %s, confirmed %t: changed is %t", c.label, c.confirmed, got)
		}
	}
}
