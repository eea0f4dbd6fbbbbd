package reconcile

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/observedtest"
)

// a growth is a row of a test: observedtest.Growth, a name and what is wanted.
type growth struct {
	name                     string
	asked, has, made, status string
	volume                   string
	pods                     []string
	also                     string
	want                     string
}

func (g growth) observed() *observed.Claim {
	return observedtest.Growth{Asked: g.asked, Has: g.has, Made: g.made, Status: g.status, Volume: g.volume, Pods: g.pods, Also: g.also}.Observed()
}

// Each row is a moment at which a dispatcher may have just started, knowing nothing else. The plain course is told in the
// order in which it happens.
func TestGrowing(t *testing.T) {
	const progress = "status allocated 2Gi ControllerResizeInProgress Resizing"
	const failed = "status allocated 2Gi ControllerResizeInProgress Resizing ControllerResizeError"
	for _, g := range []growth{
		{name: "nothing asked", asked: "1Gi", want: "forget"},
		{name: "less asked than was made", asked: "512Mi", want: "forget"},
		{name: "asked", asked: "2Gi", want: progress + ", create expand 0 of 2Gi, (confirm)"},
		{name: "asked, identity forged", asked: "2Gi", volume: "forged", want: "tell claim VolumeRecordInvalid"},
		{name: "marked, no pod yet", asked: "2Gi", status: "progress 2Gi", want: "create expand 0 of 2Gi, (confirm)"},
		{name: "pod starting", asked: "2Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi pending"}, want: "requeue in 4m0s"},
		{name: "pod running", asked: "2Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi running"}, want: ""},
		{name: "pod done", asked: "2Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi done"}, want: "capacity 2Gi"},
		{name: "volume grown", asked: "2Gi", made: "2Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi done"},
			want: "tell claim ExpansionSucceeded, status capacity 2Gi allocated 2Gi settled"},
		{name: "claim follows", asked: "2Gi", has: "2Gi", pods: []string{"exp-0:2Gi done"}, want: "tell claim ExpansionSucceeded, acknowledge exp-0"},
		{name: "over", asked: "2Gi", has: "2Gi", want: "forget"},
		{name: "grown, the pod's record was lost", asked: "2Gi", made: "2Gi", status: "progress 2Gi", want: "status capacity 2Gi allocated 2Gi settled"},

		{name: "local, volume grown", volume: "local", asked: "2Gi", made: "2Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi done"},
			want: "tell claim ExpansionSucceeded, status allocated 2Gi NodeResizePending FileSystemResizePending"},
		{name: "local, the node has it", volume: "local", asked: "2Gi", made: "2Gi", status: "pending 2Gi", pods: []string{"exp-0:2Gi done"},
			want: "tell claim ExpansionSucceeded, acknowledge exp-0"},
		{name: "local, waits for a pod that uses it", volume: "local", asked: "2Gi", made: "2Gi", status: "pending 2Gi", want: "forget"},
		{name: "local, the node could not", volume: "local", asked: "2Gi", made: "2Gi", status: "broken 2Gi", want: "forget"},
		{name: "local, more asked while the node is at it", volume: "local", asked: "3Gi", made: "2Gi", status: "node 2Gi", want: "forget"},
		{name: "local, the node is done, more was asked", volume: "local", asked: "3Gi", has: "2Gi",
			want: "status allocated 3Gi ControllerResizeInProgress Resizing, create expand 0 of 3Gi, (confirm)"},
		{name: "local block", volume: "local block", asked: "2Gi", made: "2Gi", status: "progress 2Gi", want: "status capacity 2Gi allocated 2Gi settled"},
		{name: "csi block is the node's too", volume: "csi block", asked: "2Gi", made: "2Gi", status: "progress 2Gi", want: "status allocated 2Gi NodeResizePending FileSystemResizePending"},

		{name: "iscsi with a file system", volume: "iscsi", asked: "2Gi", want: "tell claim ExpansionRefused, status ControllerResizeInfeasible ControllerResizeError"},
		{name: "iscsi with a file system, an administrator grew it and the volume", volume: "iscsi", asked: "2Gi", made: "2Gi", status: "infeasible", want: "status capacity 2Gi allocated 2Gi settled"},
		{name: "iscsi block", volume: "iscsi block", asked: "2Gi", want: progress + ", create expand 0 of 2Gi, (confirm)"},
		{name: "class cannot expand", asked: "2Gi", also: "unable", want: "tell claim ExpansionRefused, status ControllerResizeInfeasible ControllerResizeError"},
		{name: "class was mended", asked: "2Gi", status: "infeasible", want: progress + ", create expand 0 of 2Gi, (confirm)"},
		{name: "at the limit", asked: "3Gi", also: "limited", want: "status allocated 3Gi ControllerResizeInProgress Resizing, create expand 0 of 3Gi, (confirm)"},
		{name: "beyond the limit", asked: "4Gi", also: "limited", want: "tell claim ExpansionRefused, status ControllerResizeInfeasible ControllerResizeError"},
		{name: "no ConfigMap", asked: "2Gi", also: "no-config", want: "tell claim ProvisionerConfigMissing"},
		{name: "no admission policies", asked: "2Gi", also: "uncontained", want: "tell claim AdmissionPoliciesMissing"},
		{name: "volume of another provisioner", volume: "foreign", asked: "2Gi", want: "forget"},
		{name: "claim not bound yet", asked: "2Gi", also: "unbound", want: "tell claim VolumeDoesNotFit"},
		{name: "provision pod still runs", asked: "2Gi", pods: []string{"prov-0 running"}, want: "note the volume on prov-0"},

		{name: "withdrawn while the pod starts", asked: "1Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi pending"}, want: "requeue in 4m0s"},
		{name: "failed", asked: "2Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi failed"}, want: "tell claim ProvisionerFailed, " + failed + ", requeue in 500ms"},
		{name: "failed, tried again", asked: "2Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi failed"}, also: "new-config",
			want: "tell claim ProvisionerFailed, " + failed + ", create expand 1 of 2Gi, acknowledge exp-0, (confirm)"},
		{name: "refused", asked: "2Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi refused"},
			want: "tell claim ProvisionerRefused, status allocated 2Gi ControllerResizeInfeasible Resizing ControllerResizeError, requeue in 4m59.5s"},
		{name: "failed, less asked", asked: "1536Mi", status: "progress 2Gi", pods: []string{"exp-0:2Gi failed"},
			want: "tell claim ProvisionerFailed, status allocated 1536Mi ControllerResizeInProgress Resizing, create expand 1 of 1536Mi, acknowledge exp-0, (confirm)"},
		{name: "failed, no more asked than there is", asked: "1Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi failed"}, want: "status capacity 1Gi allocated 1Gi settled"},
		{name: "withdrawn and settled", asked: "1Gi", pods: []string{"exp-0:2Gi failed"}, want: "acknowledge exp-0"},
		{name: "refused before a pod, withdrawn", asked: "1Gi", status: "infeasible", want: "status capacity 1Gi allocated 1Gi settled"},
		{name: "failed, more asked", asked: "3Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi refused"},
			want: "tell claim ProvisionerRefused, status allocated 3Gi ControllerResizeInProgress Resizing, create expand 1 of 3Gi, acknowledge exp-0, (confirm)"},

		{name: "killed, less asked: it may have been reached", asked: "1536Mi", status: "progress 2Gi", pods: []string{"exp-0:2Gi killed"},
			want: "tell claim ProvisionerFailed, " + failed + ", requeue in 500ms"},
		{name: "evicted, withdrawn: it may have been reached", asked: "1Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi evicted"}, also: "new-config",
			want: "tell claim ProvisionerEvicted, " + failed + ", create expand 1 of 2Gi suspect, acknowledge exp-0, (confirm)"},
		{name: "never started after one that was killed", asked: "1Gi", status: "progress 2Gi", pods: []string{"exp-1:2Gi unstarted suspect"}, also: "new-config",
			want: "create expand 2 of 2Gi suspect, acknowledge exp-1, (confirm)"},
		{name: "refused after one that was killed", asked: "1Gi", status: "progress 2Gi", pods: []string{"exp-1:2Gi refused suspect"}, also: "new-config",
			want: "tell claim ProvisionerRefused, status allocated 2Gi ControllerResizeInfeasible Resizing ControllerResizeError, create expand 2 of 2Gi suspect, acknowledge exp-1, (confirm)"},
		{name: "failed after one that was killed, withdrawn", asked: "1Gi", status: "progress 2Gi", pods: []string{"exp-1:2Gi failed suspect"}, want: "status capacity 1Gi allocated 1Gi settled"},
		{name: "never started, withdrawn", asked: "1Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi unstarted"}, want: "status capacity 1Gi allocated 1Gi settled"},
		{name: "done, less asked meanwhile", asked: "1536Mi", made: "2Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi done"},
			want: "tell claim ExpansionSucceeded, status capacity 2Gi allocated 2Gi settled"},
		{name: "done, more asked meanwhile", asked: "3Gi", has: "2Gi", pods: []string{"exp-0:2Gi done"},
			want: "tell claim ExpansionSucceeded, status allocated 3Gi ControllerResizeInProgress Resizing, create expand 1 of 3Gi, acknowledge exp-0, (confirm)"},
		{name: "image cannot be pulled", asked: "2Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi pulling"}, want: "tell claim ProvisionerImagePullFailed, requeue in 4m0s"},
		{name: "image cannot be pulled, withdrawn", asked: "1Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi pulling"}, want: "stop exp-0"},
		{name: "image cannot be pulled after one that was killed, withdrawn", asked: "1Gi", status: "progress 2Gi", pods: []string{"exp-1:2Gi pulling suspect"},
			want: "tell claim ProvisionerImagePullFailed, requeue in 4m0s"},
		{name: "pod runs, withdrawn", asked: "1Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi running"}, want: ""},
		{name: "pod hangs", asked: "2Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi hanging"}, want: "tell claim ProvisionerDeadlineExceeded"},

		{name: "claim being deleted, pod runs", asked: "2Gi", also: "deleting", pods: []string{"exp-0:2Gi running"}, want: ""},
		{name: "claim being deleted, pod cannot start", asked: "2Gi", also: "deleting", pods: []string{"exp-0:2Gi unschedulable"}, want: "stop exp-0"},
		{name: "claim being deleted, pod failed", asked: "2Gi", also: "deleting", pods: []string{"exp-0:2Gi failed"}, want: "acknowledge exp-0"},
		{name: "claim being deleted, nothing started", asked: "2Gi", also: "deleting", want: "forget"},
		{name: "released, pod runs: no delete beside it", asked: "2Gi", also: "released", pods: []string{"exp-0:2Gi running"}, want: ""},
		{name: "released, pod ended", asked: "2Gi", also: "released", pods: []string{"exp-0:2Gi failed"}, want: "create delete 0, acknowledge exp-0, (confirm)"},
		{name: "volume gone, pod ended", asked: "2Gi", also: "no-volume", pods: []string{"exp-0:2Gi done"}, want: "acknowledge exp-0"},
		{name: "pod of an earlier volume", asked: "2Gi", pods: []string{"exp-0:4Gi done other"}, want: progress + ", create expand 1 of 2Gi, acknowledge exp-0, acknowledge exp-0, (confirm)"},
	} {
		t.Run(g.name, func(t *testing.T) {
			if got := describe(Decide(g.observed())); got != g.want {
				t.Errorf("%+v:\n got %s\nwant %s", g, got, g.want)
			}
		})
	}
}

// The user is told where a node has to finish an expansion.
func TestExpansionSaysNode(t *testing.T) {
	for volume, want := range map[string]bool{"": false, "local": true} {
		g := growth{volume: volume, asked: "2Gi", made: "2Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi done"}}
		if e := Decide(g.observed()).Events[0]; strings.HasSuffix(e.Message, "; its node finishes it once a pod uses the claim") != want {
			t.Errorf("%q: %s", volume, e.Message)
		}
	}
}

// The status of a claim is written once: what a second look sees is enough.
func TestResizeStatusOnce(t *testing.T) {
	for _, g := range []growth{
		{asked: "2Gi"},
		{asked: "2Gi", also: "unable"},
		{asked: "2Gi", made: "2Gi", volume: "local"},
		{asked: "2Gi", made: "2Gi"},
		{asked: "2Gi", pods: []string{"exp-0:2Gi failed"}},
		{asked: "2Gi", pods: []string{"exp-0:2Gi refused"}},
	} {
		s := g.observed()
		status, ok := Find[SetResizeStatus](Decide(s))
		if !ok {
			t.Errorf("%+v: no status is written", g)
			continue
		}

		patch, err := json.Marshal(status.Patch(s.Claim, metav1.NewTime(noon)))
		if err == nil {
			err = json.Unmarshal(patch, s.Claim)
		}

		if err != nil {
			t.Fatal(err)
		}

		for name, value := range s.Claim.Status.AllocatedResourceStatuses {
			if value == "" { // a null of the patch
				delete(s.Claim.Status.AllocatedResourceStatuses, name)
			}
		}

		if again, ok := Find[SetResizeStatus](Decide(s)); ok {
			t.Errorf("%+v: %s is written again", g, again.Status)
		}
	}
}

func TestExpandRequest(t *testing.T) {
	s := growth{asked: "2Gi"}.observed()
	s.Volume.Annotations[contract.AnnIdentity] = `{"properties":{"zone":"east"},"parameters":{"pool":"a"}}`
	s.Config.Properties = map[string]string{"zone": "west", "new": "key"}
	s.Config.Timeout, s.Config.ServiceAccountName = time.Minute, "silver"
	create, _ := Find[CreatePod](Decide(s))
	pod, err := s.Pod(create.AttemptSpec, podspec.Cluster{})
	if err != nil {
		t.Fatal(err)
	}

	const want = `{"operation":"expand","attempt":0,"volumeName":"pvc-` + uid + `","claim":{"namespace":"team-a","name":"data","uid":"` + uid + `"},` +
		`"storageClass":"silver","sizeBytes":2147483648,"currentSizeBytes":1073741824,"accessModes":["ReadWriteOnce"],"volumeMode":"Filesystem",` +
		`"timeoutSeconds":60,"serviceAccount":"silver","mounts":[],"properties":{"new":"key","zone":"east"},"parameters":{"pool":"a"}}`
	if got := pod.Annotations[contract.AnnRequest]; got != want {
		t.Errorf("request\n%s\nwant\n%s", got, want)
	}

	if pod.Annotations[contract.AnnVolumeUID] != string(s.Volume.UID) {
		t.Error("the pod does not get the volume")
	}
}
