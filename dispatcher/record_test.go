package dispatcher

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

var (
	testKey = podspec.RecordKey(bytes.Repeat([]byte{1}, podspec.MinRecordKey))
	update  = flag.Bool("update", false, "write the golden files anew")
)

// hostile is an identity that a provisioner pod may try to leave for the pod that deletes.
const hostile = `{"properties":{"FLEX_PV_NAME":"pvc-of-another","flex-pv-name":"pvc-of-another","LD_PRELOAD":"/export/evil.so","BASH_ENV":"/export/evil.sh",` +
	`"KUBERNETES_SERVICE_HOST":"192.0.2.1","zone":"another","no name":"x"},"parameters":{"pool":"another"}}`

func hostileFacts(identity string) *facts {
	f := scene{claim: "none", volume: "fits released", also: "asked"}.facts()
	f.key = testKey
	f.config.Name, f.config.ResourceVersion, f.config.Image, f.config.ServiceAccountName = "cm", "1", "example.com/i", "silver"
	f.config.Timeout = time.Minute
	f.config.Properties = map[string]string{"zone": "west", "server": "$(HOME)"}
	f.terms.Parameters = map[string]string{"pool": "a"}
	f.volume.Annotations = map[string]string{contract.ProvisionedBy: "p", contract.AnnIdentity: identity, contract.AnnRecord: "00", contract.AnnAllowDelete: "true"}
	f.key.Mark(f.volume)
	return f
}

// A volume of which its pod forged everything is repaired from the request in the pod. What is asked of later pods then has
// the fixed names and the administrator's properties, and nothing else.
func TestHostileVolume(t *testing.T) {
	f := hostileFacts(hostile)
	if p := decide(f); p.create != nil || p.held != ReasonRecord {
		t.Fatalf("a forged volume leads to %s", describe(p))
	}
	made := scene{pods: []string{"prov-0 done"}}.facts().attempts[0]
	request, err := json.Marshal(contract.Request{VolumeName: f.volume.Name, StorageClass: "silver", Claim: contract.Claim{Namespace: "team-a", Name: "data", UID: uid},
		SizeBytes: 1 << 30, AccessModes: []string{"ReadWriteOnce"}, VolumeMode: "Filesystem", Identity: contract.Identity{Properties: map[string]string{"zone": "west"}, Parameters: map[string]string{"pool": "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	made.pod.Annotations[contract.AnnRequest] = string(request)
	for name, value := range f.rightRecord([]attempt{made}) {
		f.volume.Annotations[name] = value
	}
	f.key.Mark(f.volume)
	if f.rightRecord([]attempt{made}) != nil {
		t.Error("the repaired volume is to be repaired once more")
	}
	d := &Dispatcher{options: Options{RecordKey: testKey}, cluster: podspec.Cluster{Namespace: "flex-provisioners", KubeAPI: "https://192.0.2.9"}}
	f.attempts = nil
	for name, o := range map[string]*order{"delete": {op: contract.Delete}, "expand": {op: contract.Expand, size: 2 << 30}, "undo": {op: contract.Delete, record: made.pod}} {
		t.Run(name, func(t *testing.T) {
			f := *f
			if name == "undo" {
				f.volume = nil
			}
			attempt, err := d.attemptOf(&f, o)
			if err != nil {
				t.Fatal(err)
			}
			pod, err := podspec.Build(attempt, d.cluster)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "testdata/environment/"+name+".yaml", pod.Spec.Containers[0].Env)
		})
	}
}

// An administrator may trust what is on the volume, and refused names stay refused.
func TestTrustedIdentity(t *testing.T) {
	f := hostileFacts(hostile)
	f.volume.Annotations[contract.AnnRecord] = contract.RecordTrusted
	_, err := (&Dispatcher{}).attemptOf(f, &order{op: contract.Delete})
	if err == nil {
		t.Fatal("refused names reach a pod")
	}
	golden(t, "testdata/environment/trusted-error.yaml", err.Error())
}

// The API server takes any text as the claim that a volume names.
func TestClaimRefOfNobody(t *testing.T) {
	for _, ref := range []corev1.ObjectReference{{Namespace: "team-a", Name: "data\nFLEX_PV_NAME=x"}, {Namespace: "../team-a", Name: "data"}, {Name: "data"}} {
		f := hostileFacts("")
		f.volume.Spec.ClaimRef.Namespace, f.volume.Spec.ClaimRef.Name = ref.Namespace, ref.Name
		want := fmt.Sprintf("spec.claimRef of volume pvc-%s is %q/%q, which names no claim; correct it", uid, ref.Namespace, ref.Name)
		if _, doubt := f.volumeIdentity(); doubt != want {
			t.Errorf("doubt is %q, want %q", doubt, want)
		}
		if p := decide(f); p.held != ReasonRecord {
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

// Properties that the class has gained come on top, but for those whose environment name the volume uses already.
func TestWithGained(t *testing.T) {
	got := withGained(contract.Identity{Properties: map[string]string{"a.b": "frozen"}, Parameters: map[string]string{"pool": "a"}},
		map[string]string{"a-b": "now", "a.b": "now", "pool": "now", "new": "now"})
	if len(got) != 2 || got["a.b"] != "frozen" || got["new"] != "now" {
		t.Errorf("properties are %v", got)
	}
}

// The record outlives the second transform of a list that is streamed, and the skeleton's is verified.
func TestSkeletonIsRecorded(t *testing.T) {
	f := hostileFacts("")
	f.claim = scene{}.makeClaim()
	d := &Dispatcher{options: Options{RecordKey: testKey}, creators: &creators{}}
	f.now = time.Now()
	attempt, err := d.attemptOf(f, &order{op: contract.Provision})
	if err != nil {
		t.Fatal(err)
	}
	l := &lean{key: testKey}
	for range 2 {
		if _, err := l.transform(attempt.Volume); err != nil {
			t.Fatal(err)
		}
		if !podspec.Recorded(attempt.Volume) || attempt.Volume.Annotations[contract.AnnIdentity] == "" {
			t.Fatalf("the cache holds %v", attempt.Volume.Annotations)
		}
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
		t.Errorf("%s differs (go test ./dispatcher -update writes it anew):\n%s", file, diff.Diff(string(want), string(got)))
	}
}
