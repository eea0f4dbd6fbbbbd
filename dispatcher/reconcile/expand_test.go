package reconcile

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/dispatchertest"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/snapshot"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// a growth is a bound claim in a few words. Sizes are quantities. The volume has 1Gi unless it says otherwise.
type growth struct {
	name string
	// asked is the claim's request, has its status.capacity (default 1Gi), made the volume's capacity (default has).
	asked, has, made string
	// status is "", or progress, infeasible, pending, node or broken, and the allocated size.
	status string
	// volume: nfs unless it names another source; block; foreign.
	volume string
	// pods as in dispatchertest.Pod, with the size after a colon: "exp-0:2Gi failed".
	pods []string
	// also: as in scene, and unable, limited (to 3Gi), deleting, unbound, gone (volume and claim), no-volume.
	also string
	want string
}

func (g growth) snapshot() *snapshot.Snapshot {
	s := scene{claim: "bound", volume: "fits bound", also: g.also}
	if s.has("deleting") {
		s.claim = "deleting"
	}
	f := s.snapshot()
	if f.Config != nil {
		f.Config.Expandable = !s.has("unable")
	}
	if s.has("limited") {
		f.Config.MaxSize = 3 << 30
	}
	g.setClaim(f.Claim)
	if s.has("unbound") {
		f.Claim.Status.Phase = corev1.ClaimPending
	}
	f.Volume.Spec.Capacity = sizes(or(g.made, or(g.has, "1Gi")))
	setVolume(f.Volume, g.volume)
	f.Claim.Spec.VolumeMode = f.Volume.Spec.VolumeMode
	if s.has("released") {
		f.Claim, f.Volume.Status.Phase, f.Released = nil, corev1.VolumeReleased, true
	}
	if s.has("no-volume") {
		f.Claim, f.Volume = nil, nil
	}
	for i, words := range g.pods {
		name, rest, _ := strings.Cut(words, " ")
		name, size, sized := strings.Cut(name, ":")
		pod := dispatchertest.Pod(name+" "+rest, noon.Add(time.Duration(i-len(g.pods))*time.Minute), noon.Add(-500*time.Millisecond))
		if sized {
			quantity := resource.MustParse(size)
			pod.Annotations[contract.AnnRequest] = fmt.Sprintf(`{"sizeBytes":%d}`, quantity.Value())
		}
		f.Attempts = append(f.Attempts, snapshot.NewAttempt(pod, ""))
	}
	return f
}

func (g growth) setClaim(claim *corev1.PersistentVolumeClaim) {
	claim.Spec.Resources.Requests, claim.Spec.VolumeName = sizes(g.asked), "pvc-"+uid
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: sizes(or(g.has, "1Gi"))}
	word, allocated, _ := strings.Cut(g.status, " ")
	if allocated != "" {
		claim.Status.AllocatedResources = sizes(allocated)
	}
	status, ok := map[string]corev1.ClaimResourceStatus{
		"progress": corev1.PersistentVolumeClaimControllerResizeInProgress, "infeasible": corev1.PersistentVolumeClaimControllerResizeInfeasible,
		"pending": corev1.PersistentVolumeClaimNodeResizePending, "node": corev1.PersistentVolumeClaimNodeResizeInProgress,
		"broken": corev1.PersistentVolumeClaimNodeResizeInfeasible}[word]
	if ok {
		claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: status}
	}
	if word == "progress" {
		claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimResizing, Status: corev1.ConditionTrue}}
	}
}

func setVolume(v *corev1.PersistentVolume, words string) {
	v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{}}
	for word := range strings.FieldsSeq(words) {
		switch word {
		case "block":
			mode := corev1.PersistentVolumeBlock
			v.Spec.VolumeMode = &mode
		case "forged":
			v.Annotations[contract.AnnIdentity] = `{"properties":{"zone":"mine"}}`
			delete(v.Annotations, podspec.Verified)
		case "foreign":
			v.Annotations[contract.ProvisionedBy] = "another"
		case "local":
			v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{}}
		case "iscsi":
			v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{}}
		case "csi":
			v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{}}
		default:
			panic("no such volume: " + word)
		}
	}
}

func sizes(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
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
		{name: "pod starting", asked: "2Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi pending"}, want: "look in 4m0s"},
		{name: "pod running", asked: "2Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi running"}, want: ""},
		{name: "pod done", asked: "2Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi done"}, want: "capacity 2Gi"},
		{name: "volume grown", asked: "2Gi", made: "2Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi done"},
			want: "tell claim ExpansionSucceeded, status capacity 2Gi allocated 2Gi settled"},
		{name: "claim follows", asked: "2Gi", has: "2Gi", pods: []string{"exp-0:2Gi done"}, want: "tell claim ExpansionSucceeded, clean up exp-0"},
		{name: "over", asked: "2Gi", has: "2Gi", want: "forget"},
		{name: "grown, the pod's record was lost", asked: "2Gi", made: "2Gi", status: "progress 2Gi", want: "status capacity 2Gi allocated 2Gi settled"},

		{name: "local, volume grown", volume: "local", asked: "2Gi", made: "2Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi done"},
			want: "tell claim ExpansionSucceeded, status allocated 2Gi NodeResizePending FileSystemResizePending"},
		{name: "local, the node has it", volume: "local", asked: "2Gi", made: "2Gi", status: "pending 2Gi", pods: []string{"exp-0:2Gi done"},
			want: "tell claim ExpansionSucceeded, clean up exp-0"},
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
		{name: "provision pod still runs", asked: "2Gi", pods: []string{"prov-0 running"}, want: ""},

		{name: "withdrawn while the pod starts", asked: "1Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi pending"}, want: "look in 4m0s"},
		{name: "failed", asked: "2Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi failed"}, want: "tell claim ProvisionerFailed, " + failed + ", look in 500ms"},
		{name: "failed, tried again", asked: "2Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi failed"}, also: "new-config",
			want: "tell claim ProvisionerFailed, " + failed + ", create expand 1 of 2Gi, clean up exp-0, (confirm)"},
		{name: "refused", asked: "2Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi refused"},
			want: "tell claim ProvisionerRefused, status allocated 2Gi ControllerResizeInfeasible Resizing ControllerResizeError, look in 4m59.5s"},
		{name: "failed, less asked", asked: "1536Mi", status: "progress 2Gi", pods: []string{"exp-0:2Gi failed"},
			want: "tell claim ProvisionerFailed, status allocated 1536Mi ControllerResizeInProgress Resizing, create expand 1 of 1536Mi, clean up exp-0, (confirm)"},
		{name: "failed, no more asked than there is", asked: "1Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi failed"}, want: "status capacity 1Gi allocated 1Gi settled"},
		{name: "withdrawn and settled", asked: "1Gi", pods: []string{"exp-0:2Gi failed"}, want: "clean up exp-0"},
		{name: "refused before a pod, withdrawn", asked: "1Gi", status: "infeasible", want: "status capacity 1Gi allocated 1Gi settled"},
		{name: "failed, more asked", asked: "3Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi refused"},
			want: "tell claim ProvisionerRefused, status allocated 3Gi ControllerResizeInProgress Resizing, create expand 1 of 3Gi, clean up exp-0, (confirm)"},

		{name: "killed, less asked: it may have been reached", asked: "1536Mi", status: "progress 2Gi", pods: []string{"exp-0:2Gi killed"},
			want: "tell claim ProvisionerFailed, " + failed + ", look in 500ms"},
		{name: "evicted, withdrawn: it may have been reached", asked: "1Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi evicted"}, also: "new-config",
			want: "tell claim ProvisionerEvicted, " + failed + ", create expand 1 of 2Gi suspect, clean up exp-0, (confirm)"},
		{name: "never started after one that was killed", asked: "1Gi", status: "progress 2Gi", pods: []string{"exp-1:2Gi unstarted suspect"}, also: "new-config",
			want: "create expand 2 of 2Gi suspect, clean up exp-1, (confirm)"},
		{name: "refused after one that was killed", asked: "1Gi", status: "progress 2Gi", pods: []string{"exp-1:2Gi refused suspect"}, also: "new-config",
			want: "tell claim ProvisionerRefused, status allocated 2Gi ControllerResizeInfeasible Resizing ControllerResizeError, create expand 2 of 2Gi suspect, clean up exp-1, (confirm)"},
		{name: "failed after one that was killed, withdrawn", asked: "1Gi", status: "progress 2Gi", pods: []string{"exp-1:2Gi failed suspect"}, want: "status capacity 1Gi allocated 1Gi settled"},
		{name: "never started, withdrawn", asked: "1Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi unstarted"}, want: "status capacity 1Gi allocated 1Gi settled"},
		{name: "done, less asked meanwhile", asked: "1536Mi", made: "2Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi done"},
			want: "tell claim ExpansionSucceeded, status capacity 2Gi allocated 2Gi settled"},
		{name: "done, more asked meanwhile", asked: "3Gi", has: "2Gi", pods: []string{"exp-0:2Gi done"},
			want: "tell claim ExpansionSucceeded, status allocated 3Gi ControllerResizeInProgress Resizing, create expand 1 of 3Gi, clean up exp-0, (confirm)"},
		{name: "image cannot be pulled", asked: "2Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi pulling"}, want: "tell claim ProvisionerImagePullFailed, look in 4m0s"},
		{name: "image cannot be pulled, withdrawn", asked: "1Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi pulling"}, want: "stop exp-0"},
		{name: "pod runs, withdrawn", asked: "1Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi running"}, want: ""},
		{name: "pod hangs", asked: "2Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi hanging"}, want: "tell claim ProvisionerDeadlineExceeded"},

		{name: "claim being deleted, pod runs", asked: "2Gi", also: "deleting", pods: []string{"exp-0:2Gi running"}, want: ""},
		{name: "claim being deleted, pod cannot start", asked: "2Gi", also: "deleting", pods: []string{"exp-0:2Gi unschedulable"}, want: "stop exp-0"},
		{name: "claim being deleted, pod failed", asked: "2Gi", also: "deleting", pods: []string{"exp-0:2Gi failed"}, want: "clean up exp-0"},
		{name: "claim being deleted, nothing started", asked: "2Gi", also: "deleting", want: "forget"},
		{name: "released, pod runs: no delete beside it", asked: "2Gi", also: "released", pods: []string{"exp-0:2Gi running"}, want: ""},
		{name: "released, pod ended", asked: "2Gi", also: "released", pods: []string{"exp-0:2Gi failed"}, want: "create delete 0, clean up exp-0, (confirm)"},
		{name: "volume gone, pod ended", asked: "2Gi", also: "no-volume", pods: []string{"exp-0:2Gi done"}, want: "clean up exp-0"},
		{name: "pod of an earlier volume", asked: "2Gi", pods: []string{"exp-0:4Gi done other"}, want: progress + ", create expand 1 of 2Gi, clean up exp-0, clean up exp-0, (confirm)"},
	} {
		t.Run(g.name, func(t *testing.T) {
			if got := describe(Decide(g.snapshot())); got != g.want {
				t.Errorf("%+v:\n got %s\nwant %s", g, got, g.want)
			}
		})
	}
}

// The user is told where a node has to finish an expansion.
func TestExpansionSaysNode(t *testing.T) {
	for volume, want := range map[string]bool{"": false, "local": true} {
		g := growth{volume: volume, asked: "2Gi", made: "2Gi", status: "progress 2Gi", pods: []string{"exp-0:2Gi done"}}
		if e := Decide(g.snapshot()).Events[0]; strings.HasSuffix(e.Message, "; its node finishes it once a pod uses the claim") != want {
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
		s := g.snapshot()
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
	s := growth{asked: "2Gi"}.snapshot()
	s.Volume.Annotations[contract.AnnIdentity] = `{"properties":{"zone":"east"},"parameters":{"pool":"a"}}`
	s.Config.Properties = map[string]string{"zone": "west", "new": "key"}
	s.Config.Timeout, s.Config.ServiceAccountName = time.Minute, "silver"
	create, _ := Find[CreatePod](Decide(s))
	pod, err := s.Pod(create.Order, podspec.Cluster{})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"operation":"expand","attempt":0,"volumeName":"pvc-` + uid + `","claim":{"namespace":"team-a","name":"data","uid":"` + uid + `"},` +
		`"storageClass":"silver","sizeBytes":2147483648,"currentSizeBytes":1073741824,"accessModes":["ReadWriteOnce"],"volumeMode":"Filesystem",` +
		`"timeoutSeconds":60,"serviceAccount":"silver","properties":{"new":"key","zone":"east"},"parameters":{"pool":"a"}}`
	if got := pod.Annotations[contract.AnnRequest]; got != want {
		t.Errorf("request\n%s\nwant\n%s", got, want)
	}
	if pod.Annotations[contract.AnnVolumeUID] != string(s.Volume.UID) {
		t.Error("the pod does not get the volume")
	}
}
