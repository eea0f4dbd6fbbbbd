package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
	"github.com/flex-provisioner/flex-provisioner/test/observedtest"
)

const uid = dispatchertest.UID

var noon = dispatchertest.Noon

// a scene is a row of a test: observedtest.Scene, a name and what is wanted.
type scene struct {
	name          string
	claim, volume string
	pods          []string
	also          string
	want          string
}

func (s scene) observed() *observed.Claim {
	return observedtest.Scene{Claim: s.claim, Volume: s.volume, Pods: s.pods, Also: s.also}.Observed()
}

// TestVolumeBeingDeleted: the claim that has a volume is told that somebody deleted it, and is not forgotten.
func TestVolumeBeingDeleted(t *testing.T) {
	for want, pods := range map[string][]string{
		"tell claim VolumeBeingDeleted": nil,
		"tell claim ProvisioningSucceeded, tell claim VolumeBeingDeleted, acknowledge prov-0": {"prov-0 done"},
	} {
		s := scene{claim: "bound", volume: "fits bound deleting", pods: pods}.observed()
		s.Claim.Status.Phase, s.Claim.Status.Capacity = corev1.ClaimBound, s.Volume.Spec.Capacity
		if got := describe(Decide(s)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestNoteLost: beside a pod that runs, somebody deletes the volume by force. The pod says that there was one before the claim may go.
func TestNoteLost(t *testing.T) {
	for claim, phase := range map[string]corev1.PersistentVolumeClaimPhase{"bound": corev1.ClaimLost, "bound deleting": corev1.ClaimLost, "": corev1.ClaimPending} {
		for _, pod := range []string{"prov-0 running", "prov-0 running seen"} {
			s := scene{claim: claim, pods: []string{pod}}.observed()
			s.Claim.Status.Phase = phase
			want := phase == corev1.ClaimLost && pod == "prov-0 running"
			if _, notes := Find[NoteVolume](Decide(s)); notes != want {
				t.Errorf("claim %q, pod %q: %s, want a note: %t", claim, pod, describe(Decide(s)), want)
			}
		}
	}
}

// TestNoteTouched: a volume whose finalizer somebody took off, or that somebody deletes, may be gone in the next moment. Its pod says at once
// that there was one.
func TestNoteTouched(t *testing.T) {
	for volume, want := range map[string]bool{"fits bound young": false, "fits bound young unprotected": true, "fits bound young deleting": true} {
		s := scene{claim: "bound", volume: volume, pods: []string{"prov-0 running"}}.observed()
		if _, notes := Find[NoteVolume](Decide(s)); notes != want {
			t.Errorf("volume %q: %s, want a note: %t", volume, describe(Decide(s)), want)
		}
	}
}

// TestMisfitThatIsBound: Kubernetes binds a volume of another class by its claimRef. The event says that it stays.
func TestMisfitThatIsBound(t *testing.T) {
	const message = "volume pvc-" + uid + ` does not fit the claim: spec.storageClassName is "gold", not "silver"`
	for volume, want := range map[string]string{
		"misclassed": message + " (pod ns/prov-" + uid + "-0)",
		"misclassed bound": message + "; Kubernetes has bound it all the same, and it stays: correct the provisioner, then " +
			"delete the claim, and create it again (pod ns/prov-" + uid + "-0)",
	} {
		s := scene{volume: volume, pods: []string{"prov-0 running"}}.observed()
		if got := Decide(s).Events; len(got) != 1 || got[0].Message != want {
			t.Errorf("%s: %v, want %s", volume, got, want)
		}
	}
}

// TestRepairsAreSpaced: a volume whose repair somebody undoes each time is not written to without end, and its pods stay as long.
func TestRepairsAreSpaced(t *testing.T) {
	const repairs = "tell claim VolumeMended, tell claim ProvisioningSucceeded, repair 3, acknowledge prov-0, (confirm)"
	for name, c := range map[string]struct {
		repaired time.Time
		want     string
	}{
		"never repaired":               {time.Time{}, repairs},
		"repaired just now":            {noon, "tell claim VolumeMended, tell claim ProvisioningSucceeded, requeue in 10s"},
		"repaired a second ago":        {noon.Add(-time.Second), "tell claim VolumeMended, tell claim ProvisioningSucceeded, requeue in 9s"},
		"repaired ten seconds ago":     {noon.Add(-repairPeriod), repairs},
		"repaired by a clock in haste": {noon.Add(time.Hour), repairs},
	} {
		s := scene{claim: "bound", volume: "bare fits bound", pods: []string{"prov-0 done"}}.observed()
		s.Repaired = c.repaired
		if got := describe(Decide(s)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}

	s := scene{claim: "bound", volume: "fits bound", pods: []string{"prov-0 done"}}.observed()
	s.Repaired = noon
	if got := describe(Decide(s)); got != "tell claim ProvisioningSucceeded, acknowledge prov-0" {
		t.Errorf("a volume that lacks nothing: %s", got)
	}

	s = scene{claim: "bound", volume: "bare fits bound", pods: []string{"prov-0 running"}}.observed()
	s.Repaired = noon
	if got := describe(Decide(s)); got != "tell claim VolumeMended, note the volume on prov-0, requeue in 10s" {
		t.Errorf("a volume beside a pod that runs: %s", got)
	}
}

// TestRetainedIsTold: of a new volume that is to be retained although its class says otherwise it is told, and nothing
// is changed.
func TestRetainedIsTold(t *testing.T) {
	remove := corev1.PersistentVolumeReclaimDelete
	for _, c := range []struct{ claim, volume, want string }{
		{"", "fits retain", "tell claim VolumeMended"},
		{"", "fits", ""},
		{"none", "fits retain", ""},
	} {
		s := scene{claim: c.claim, volume: c.volume, pods: []string{"prov-0 running"}}.observed()
		s.Class.ReclaimPolicy = &remove
		plan := Decide(s)
		if got := describe(plan); got != c.want {
			t.Errorf("claim %q, volume %q: %s, want %s", c.claim, c.volume, got, c.want)
		}

		const told = "volume pvc-1 was not mended, its storage stays when its claim is deleted: " +
			"spec.persistentVolumeReclaimPolicy is Retain, the class says Delete; unless an administrator wants that: " +
			"kubectl patch pv pvc-1 -p '{\"spec\":{\"persistentVolumeReclaimPolicy\":\"Delete\"}}'"
		if c.want != "" && strings.ReplaceAll(plan.Events[0].Message, podspec.VolumeName(s.UID), "pvc-1") != told {
			t.Errorf("told is %s", plan.Events[0].Message)
		}
	}
}

// TestRefusalSaysNode: what the scheduler says of a pod names no node, and it does not know what a node refused. So the claim is told which
// node it is, and what can be done, as long as that lasts.
func TestRefusalSaysNode(t *testing.T) {
	const tight = "no node takes the pod: 0/1 nodes; it has to run on node node1, which was selected for the pod that uses the claim: " +
		"leave room for it there (the ConfigMap's resources), or keep that pod off the node"
	const again = "; the scheduler selected node node1 again: keep the pod that uses the claim off it, or let the node serve the claim"
	const refused = "the container exited with code 69 (it cannot work on this node) and left no message"
	for _, c := range []struct {
		name, pod, also string
		unselected      bool
		volume, gone    bool // a volume that is released, or no claim
		taints          []corev1.Taint
		want            string
	}{
		{name: "no room on the node", pod: "prov-0 unschedulable", also: "selected node-local", want: tight},
		{name: "nobody takes the delete", pod: "del-0 unschedulable", also: "node-local", volume: true,
			want: "the pod has to run on node node7, which does not take it: 0/1 nodes; its storage is on the node with kubernetes.io/hostname In (node7): if that never comes back, give the storage up: " +
				"kubectl patch pv pvc-" + uid + ` --type=merge -p '{"metadata":{"finalizers":null}}' && kubectl delete pv pvc-` + uid},
		{name: "its node is full", pod: "del-0 unschedulable", also: "node-local", volume: true, taints: []corev1.Taint{{Key: corev1.TaintNodeDiskPressure, Effect: corev1.TaintEffectNoSchedule}},
			want: "the pod has to run on node node7, which does not take it: 0/1 nodes; the pod does not tolerate what node node7 has: node.kubernetes.io/disk-pressure:NoSchedule; " +
				"its storage is on the node with kubernetes.io/hostname In (node7): if that never comes back, give the storage up: " +
				"kubectl patch pv pvc-" + uid + ` --type=merge -p '{"metadata":{"finalizers":null}}' && kubectl delete pv pvc-` + uid},
		{name: "failed, and the node is tainted", pod: "prov-0 nothere kept", also: "selected", unselected: true, taints: []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}, want: refused},
		{name: "nobody takes the undo", pod: "del-0 unschedulable undo for-node2", also: "node-local", gone: true,
			want: "no node takes the pod: 0/1 nodes; what an attempt may have made is on node node2: bring the node back"},
		{name: "no room on any node", pod: "prov-0 unschedulable", also: "selected", want: "no node takes the pod: 0/1 nodes"},
		{name: "had no room", pod: "prov-0 unstarted full kept for-node1", also: "selected node-local", unselected: true, want: "no node takes the pod: 0/1 nodes"},
		{name: "had no room, selected again", pod: "prov-0 unstarted full kept for-node1", also: "selected node-local", want: "no node takes the pod: 0/1 nodes" + again},
		{name: "refused", pod: "prov-0 nothere kept", also: "selected", unselected: true, want: refused},
		{name: "refused, selected again", pod: "prov-0 nothere kept", also: "selected", want: refused + again},
	} {
		of := scene{pods: []string{c.pod}, also: c.also}
		if c.volume || c.gone {
			of.claim = "none"
		}

		if c.volume {
			of.volume = "fits released"
		}

		s := of.observed()
		if c.unselected {
			s.Claim.Annotations = nil
		}

		if c.volume { // the cache keeps no node affinity of volumes
			pod := s.Attempts[0].Pod
			pod.Spec.Affinity = onNode("node7")
			s.Attempts[0] = observed.NewAttempt(pod, "")
		}

		if c.taints != nil {
			s.AttemptNode = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node7"}, Spec: corev1.NodeSpec{Taints: c.taints}}
		}

		events := Decide(s).Events
		want := fmt.Sprintf("%s (pod ns/%s)", c.want, s.All()[0].Pod.Name)
		if len(events) != 1 || events[0].Message != want || !events[0].Warning {
			t.Errorf("%s: told %+v, want %q", c.name, events, want)
		}
	}
}

// TestDeadlineSaysLog: what a pod printed last is what it waits for. It is told once, while the pod may still run.
func TestDeadlineSaysLog(t *testing.T) {
	if events := Decide(scene{pods: []string{"prov-0 hanging"}}.observed()).Events; len(events) != 1 || !events[0].WithPodLog {
		t.Errorf("%+v", events)
	}
}

// describe writes a plan in words.
func describe(p Plan) string {
	var words []string
	say := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	for _, e := range p.Events {
		say("tell %s %s", e.On, e.Reason)
	}

	for _, action := range p.Actions {
		switch a := action.(type) {
		case CreateContent:
			say("create content")
		case RecordContent:
			say("record content")
		case SetContentReady:
			say("ready since %s, %d bytes", noon.Sub(a.At), a.Size)
		case SetContentError:
			say("error %.40q", a.Message)
		case FinishContent:
			say("finish content")
		case ReleaseContent:
			say("release content")
		case RepairVolume:
			say("repair %d", len(a.Faults))
		case SetFinalizer:
			if a.Present {
				say("put the finalizer on")
			} else {
				say("take the finalizer off")
			}
		case SetCloneOf:
			say("clone of %s", a.Source)
		case SetNodeGone:
			if a.Since.IsZero() {
				say("node is back")
			} else {
				say("node gone since %s", noon.Sub(a.Since))
			}
		case SetCapacity:
			say("capacity %s", a.Size.String())
		case SetResizeStatus:
			say("status %s", a.Status)
		case RetractVolume:
			say("retract volume")
		case CreatePod:
			say("%s", describeAttempt(a.AttemptSpec))
		case StopPod:
			if a.Kill {
				say("kill %s", a.Pod.UID)
			} else {
				say("stop %s", a.Pod.UID)
			}
		case DeleteVolume:
			if a.GivenUp {
				say("give the volume up")
			} else {
				say("delete volume")
			}
		case Reschedule:
			say("reschedule")
		case AcknowledgePod:
			if a.KeepName {
				say("keep the name of %s", a.Pod.UID)
			} else {
				say("acknowledge %s", a.Pod.UID)
			}
		case NoteVolume:
			say("note the volume on %s", a.Pod.UID)
		case SavePod:
			say("save %s", a.Pod.UID)
		case ReleasePod:
			say("release %s", a.Pod.UID)
		case ResyncClaim:
			say("resync")
		case SetWaitingCondition:
			say("waits %s", a.Reason)
		default:
			panic(fmt.Sprintf("no word for %T", action))
		}
	}

	if p.Forget {
		say("forget")
	}

	if !p.RequeueAt.IsZero() {
		say("requeue in %s", p.RequeueAt.Sub(noon).Round(100*time.Millisecond))
	}

	if p.Confirm == Volume {
		say("(confirm volume)")
	}

	if p.Confirm == Everything {
		say("(confirm)")
	}

	return strings.Join(words, ", ")
}

func describeAttempt(o observed.AttemptSpec) string {
	w := fmt.Sprintf("create %s %d", o.Op, o.Number)
	if o.Size != 0 {
		w += " of " + resource.NewQuantity(o.Size, resource.BinarySI).String()
	}

	if o.Suspect {
		w += " suspect"
	}

	if o.MadeBy != nil {
		w += " for " + string(o.MadeBy.UID)
	}

	if o.Node != "" {
		w += " on " + o.Node
	}

	return w
}

// The rows are the crash points of docs/crash-points.md and the plain course of things: in each a dispatcher may have
// just started, knowing nothing else.
func TestDecide(t *testing.T) {
	for _, s := range []scene{
		{name: "new claim", want: "create provision 0, (confirm)"},
		{name: "claim not handed over yet", also: "unwanted", want: "resync, forget"},
		{name: "no ConfigMap", also: "no-config", want: "tell claim ProvisionerConfigMissing"},
		{name: "a ConfigMap that may be on its way to the cache", also: "no-config just-wanted", want: "requeue in 1s"},
		{name: "no admission policies", also: "uncontained", want: "tell claim AdmissionPoliciesMissing"},
		{name: "released, no admission policies", claim: "none", volume: "fits released", also: "uncontained", want: "tell volume AdmissionPoliciesMissing"},
		{name: "claim asks for what the class lacks", also: "selector", want: "tell claim ClaimRefused"},
		{name: "claim names a VolumeAttributesClass", also: "attributes", want: "tell claim ClaimRefused"},
		{name: "the class has another provisioner by now, and may come back", also: "other-provisioner", want: ""},
		{name: "the class has another provisioner by now, pod runs", also: "other-provisioner", pods: []string{"prov-0 running"}, want: ""},
		{name: "the class has another provisioner by now, pod failed", also: "other-provisioner", pods: []string{"prov-0 failed"}, want: "create delete 0 for prov-0, (confirm)"},
		{name: "the class has another provisioner by now, undone", also: "other-provisioner", pods: []string{"prov-0 failed", "del-0 done undo"},
			want: "tell claim ProvisionerUndone, acknowledge prov-0, acknowledge del-0, (confirm volume)"},
		{name: "another provisioner's volume", volume: "fits foreign", also: "other-provisioner", want: ""},
		{name: "another provisioner's volume, pod failed", volume: "fits foreign", also: "other-provisioner", pods: []string{"prov-0 failed"}, want: "tell claim DeletionHeld, (confirm)"},
		{name: "another provisioner's volume, pod failed, and its storage is given up", volume: "fits foreign allowed", also: "other-provisioner", pods: []string{"prov-0 failed"},
			want: "create delete 0 for prov-0, (confirm)"},
		{name: "another provisioner's volume, bound, pod failed", claim: "bound", volume: "fits foreign bound", also: "other-provisioner", pods: []string{"prov-0 failed"}, want: "tell claim DeletionHeld, (confirm)"},
		{name: "another provisioner's volume, and the class is ours again", volume: "fits foreign", want: ""},
		{name: "selected node", also: "selected", want: "create provision 0 on node1, (confirm)"},
		{name: "a node that the scheduler did not choose", also: "selected-early", want: "create provision 0, (confirm)"},
		{name: "pod starting", pods: []string{"prov-0 pending"}, want: "requeue in 4m0s"},
		{name: "pod running", pods: []string{"prov-0 running"}, want: ""},
		{name: "pod hangs", pods: []string{"prov-0 hanging"}, want: "tell claim ProvisionerDeadlineExceeded"},
		{name: "pod is being deleted", pods: []string{"prov-0 running deleting"}, want: "requeue in 1m0s"},
		{name: "pod was deleted on a node that is gone", pods: []string{"prov-0 running lost"}, want: "tell claim ProvisionerNodeLost"},
		{name: "delete pod was deleted on a node that is gone", claim: "none", volume: "fits released", pods: []string{"del-0 running lost"}, want: "tell volume ProvisionerNodeLost"},
		{name: "image cannot be pulled", pods: []string{"prov-0 pulling"}, want: "tell claim ProvisionerImagePullFailed, requeue in 4m0s"},
		{name: "image mended in the ConfigMap", pods: []string{"prov-0 pulling"}, also: "new-config", want: "tell claim ProvisionerImagePullFailed, stop prov-0"},
		{name: "a healthy start is not stopped by an edit", pods: []string{"prov-0 pending"}, also: "new-config", want: "requeue in 4m0s"},
		{name: "start timeout", pods: []string{"prov-0 pulling old"}, want: "tell claim ProvisionerImagePullFailed, tell claim ProvisionerStartTimeout, stop prov-0"},
		{name: "no node fits", pods: []string{"prov-0 unschedulable"}, want: "tell claim ProvisionerUnschedulable, requeue in 4m0s"},
		{name: "selected node does not fit", pods: []string{"prov-0 unschedulable"}, also: "selected", want: "tell claim ProvisionerUnschedulable, stop prov-0"},
		{name: "selected node did not fit", pods: []string{"prov-0 unstarted"}, also: "selected", want: "reschedule, keep the name of prov-0"},
		{name: "not here", pods: []string{"prov-0 nothere"}, also: "selected", want: "tell claim ProvisionerNotHere, reschedule, keep the name of prov-0"},
		{name: "volume that did not fit deleted by hand, of which the library has not heard yet", pods: []string{"prov-0 done"}, also: "unwanted",
			want: "tell claim ProvisionerMadeNoVolume, resync, (confirm)"},
		{name: "not here, acted on, and the same node selected again", pods: []string{"prov-0 nothere kept"}, also: "selected", want: "tell claim ProvisionerNotHere, requeue in 500ms"},
		{name: "the selected node had no room, acted on, and it is selected again", pods: []string{"prov-3 unstarted full kept for-node1"}, also: "selected node-local",
			want: "tell claim ProvisionerUnschedulable, requeue in 8s"},
		{name: "rescheduling failed after the claim was given back", pods: []string{"prov-0 nothere"}, also: "selected unwanted", want: "tell claim ProvisionerNotHere, reschedule, keep the name of prov-0"},
		{name: "selected node is lost, and storage may exist", pods: []string{"prov-1 unstarted suspect"}, also: "selected", want: "reschedule"},
		{name: "selected node is lost, another one is selected, and storage may exist", pods: []string{"prov-1 unstarted suspect"}, also: "selected rescheduled new-config",
			want: "create provision 2 for prov-1 on node1, acknowledge prov-1, (confirm)"},
		{name: "selected node is lost, and its storage may exist", pods: []string{"prov-1 unstarted suspect for-node2"}, also: "selected node-local new-config", want: "create provision 2 for prov-1 on node2, acknowledge prov-1, (confirm)"},
		{name: "not here, but storage may be here from before", pods: []string{"prov-1 nothere suspect"}, also: "selected node-local", want: "tell claim ProvisionerNotHere, requeue in 1.5s"},
		{name: "not here, but storage may be elsewhere from before", pods: []string{"prov-1 nothere suspect"}, also: "selected", want: "tell claim ProvisionerNotHere, reschedule"},
		{name: "not here, the same node selected again", pods: []string{"prov-1 nothere suspect"}, also: "selected rescheduled", want: "tell claim ProvisionerNotHere, requeue in 1.5s"},
		{name: "first failure", pods: []string{"prov-0 failed"}, want: "tell claim ProvisionerFailed, requeue in 500ms"},
		{name: "first failure, by a node whose clock is ahead", pods: []string{"prov-0 failed ahead"}, want: "tell claim ProvisionerFailed, create provision 1 for prov-0, keep the name of prov-0, (confirm)"},
		{name: "hundredth failure, by a node whose clock is ahead", pods: []string{"prov-99 failed ahead"}, want: "tell claim ProvisionerFailed, requeue in 4m0s"},
		{name: "hundredth failure, by a node whose clock is behind", pods: []string{"prov-99 failed behind"}, want: "tell claim ProvisionerFailed, requeue in 4m0s"},
		{name: "fifth failure", pods: []string{"prov-4 failed"}, want: "tell claim ProvisionerFailed, requeue in 15.5s"},
		{name: "the hundredth failure waits no longer than five minutes", pods: []string{"prov-99 failed"}, want: "tell claim ProvisionerFailed, requeue in 4m59.5s"},
		{name: "busy waits 15 seconds at most", pods: []string{"prov-99 busy"}, want: "tell claim ProvisionerBusy, requeue in 14.5s"},
		{name: "refused waits long", pods: []string{"prov-0 refused"}, want: "tell claim ProvisionerRefused, requeue in 4m59.5s"},
		{name: "first eviction", pods: []string{"prov-0 evicted"}, want: "tell claim ProvisionerEvicted, requeue in 500ms"},
		{name: "evictions wait as long as other failures", pods: []string{"prov-7 evicted"}, want: "tell claim ProvisionerEvicted, requeue in 2m7.5s"},
		{name: "an administrator asks for the next attempt", pods: []string{"prov-9 failed retry"}, want: "tell claim ProvisionerFailed, create provision 10 for prov-9, acknowledge prov-9, (confirm)"},
		{name: "an administrator asks for the next attempt after a refusal", pods: []string{"prov-3 refused retry"}, want: "tell claim ProvisionerRefused, create provision 4, acknowledge prov-3, (confirm)"},
		{name: "an administrator asked for the attempt that failed last", pods: []string{"prov-0 failed retry kept", "prov-1 failed"}, want: "tell claim ProvisionerFailed, requeue in 1.5s"},
		{name: "an administrator asks while the pod runs", pods: []string{"prov-3 running retry"}, want: ""},
		{name: "an administrator asks for an undo before its time", claim: "none", pods: []string{"prov-3 killed retry"}, want: "requeue in 59.5s"},
		{name: "an administrator asks for the next delete", claim: "none", volume: "fits released", pods: []string{"del-7 failed retry"},
			want: "tell volume ProvisionerFailed, create delete 8, acknowledge del-7, (confirm)"},
		{name: "an administrator asks for the next delete while deletions are stopped", claim: "none", volume: "fits released", also: "stopped", pods: []string{"del-7 failed retry"},
			want: "tell volume ProvisionerFailed, tell volume DeletionStopped"},
		{name: "ConfigMap edited after a failure", pods: []string{"prov-3 refused"}, also: "new-config", want: "tell claim ProvisionerRefused, create provision 4, acknowledge prov-3, (confirm)"},
		{name: "properties edited after a failure that may have made storage", pods: []string{"prov-3 failed"}, also: "new-properties",
			want: "tell claim ProvisionerFailed, tell claim ProvisionerUndo, create delete 0 for prov-3, (confirm)"},
		{name: "StorageClass made anew with other parameters", pods: []string{"prov-3 failed"}, also: "new-parameters",
			want: "tell claim ProvisionerFailed, tell claim ProvisionerUndo, create delete 0 for prov-3, (confirm)"},
		{name: "properties edited after a refusal", pods: []string{"prov-3 refused"}, also: "new-properties", want: "tell claim ProvisionerRefused, create provision 4, acknowledge prov-3, (confirm)"},
		{name: "node-local retry goes there after a pod that never did", pods: []string{"prov-1 unstarted suspect for-node2"}, also: "node-local new-config", want: "create provision 2 for prov-1 on node2, acknowledge prov-1, (confirm)"},
		{name: "node-local retry goes where storage may be", pods: []string{"prov-0 failed"}, also: "node-local new-config", want: "tell claim ProvisionerFailed, create provision 1 for prov-0 on node1, keep the name of prov-0, (confirm)"},
		{name: "exit 0 and no volume", pods: []string{"prov-0 done"}, want: "tell claim ProvisionerMadeNoVolume, requeue in 500ms, (confirm)"},
		{name: "attempt numbers start over", pods: []string{"prov-9999 refused"}, also: "new-config", want: "tell claim ProvisionerRefused, create provision 0, acknowledge prov-9999, (confirm)"},
		{name: "attempt numbers start over, and the first pod keeps its name", pods: []string{"prov-0 refused kept", "prov-9999 refused"}, also: "new-config",
			want: "tell claim ProvisionerRefused, create provision 1, acknowledge prov-9999, keep the name of prov-0, (confirm)"},

		{name: "volume made, pod still starting as far as is known", volume: "fits", pods: []string{"prov-0 pending"}, want: "requeue in 4m0s"},
		{name: "volume made, pod running", volume: "fits bound", claim: "bound", pods: []string{"prov-0 running"}, want: "note the volume on prov-0"},
		{name: "volume made, pod running, and it says so", volume: "fits bound", claim: "bound", pods: []string{"prov-0 running seen"}, want: ""},
		{name: "volume made a moment ago, pod running", volume: "fits bound young", claim: "bound", pods: []string{"prov-0 running"}, want: "requeue in 3s"},
		{name: "volume made, to be bound", volume: "fits", pods: []string{"prov-0 done"}, want: "tell claim ProvisioningSucceeded"},
		{name: "volume made, to be bound, and pods of before", volume: "fits", pods: []string{"prov-0 failed", "prov-1 done"}, want: "tell claim ProvisioningSucceeded"},
		{name: "volume made, to be bound, and the class has another provisioner by now", volume: "fits", also: "other-provisioner", pods: []string{"prov-0 done"},
			want: "tell claim ProvisioningSucceeded"},
		{name: "volume too small, made for a claim that the cache does not show", claim: "none", volume: "small", pods: []string{"prov-0 done"}, want: ""},
		{name: "volume made, pod done", volume: "fits bound", claim: "bound", pods: []string{"prov-0 done"}, want: "tell claim ProvisioningSucceeded, acknowledge prov-0"},
		{name: "volume made, then the pod failed", volume: "fits bound", claim: "bound", pods: []string{"prov-0 failed"}, want: "tell claim ProvisioningSucceeded, acknowledge prov-0"},
		{name: "volume made without finalizer and provisioned-by", volume: "fits bare", pods: []string{"prov-0 running"}, want: "tell claim VolumeMended, repair 3, (confirm)"},
		{name: "a retained volume has the finalizer beside pods of its attempts", volume: "fits bare retain", pods: []string{"prov-0 running"}, want: "tell claim VolumeMended, repair 3, (confirm)"},
		{name: "its pod forged the identity", volume: "fits forged", pods: []string{"prov-0 running"}, want: "tell claim VolumeMended, repair 1, (confirm)"},
		{name: "its pod forged the identity and is done", claim: "bound", volume: "fits bound forged", pods: []string{"prov-0 done"},
			want: "tell claim VolumeMended, tell claim ProvisioningSucceeded, repair 1, acknowledge prov-0, (confirm)"},
		{name: "its pod forged the identity and it does not fit", volume: "small forged", pods: []string{"prov-0 done"},
			want: "tell claim VolumeDoesNotFit, tell claim VolumeMended, repair 1, (confirm)"},
		{name: "its pod wrote that an administrator trusts it", volume: "fits forged trusted", pods: []string{"prov-0 running"}, want: "tell claim VolumeMended, repair 1, (confirm)"},
		{name: "forged and bound", claim: "bound", volume: "fits bound forged", want: "forget"},
		{name: "released, identity forged", claim: "none", volume: "fits released forged", want: "tell volume VolumeRecordInvalid"},
		{name: "released, identity forged, allowed", claim: "none", volume: "fits released forged allowed", want: "tell volume VolumeRecordInvalid"},
		{name: "released, identity garbled", claim: "none", volume: "fits released garbled", want: "tell volume VolumeRecordInvalid"},
		{name: "released, identity trusted", claim: "none", volume: "fits released forged trusted", want: "create delete 0, (confirm)"},
		{name: "released, identity garbled and trusted", claim: "none", volume: "fits released garbled trusted", want: "tell volume VolumeRecordInvalid"},
		{name: "released, made by an earlier version", claim: "none", volume: "fits released unsigned", want: "create delete 0, (confirm)"},
		{name: "released, made by an earlier version by other properties", claim: "none", volume: "fits released unsigned", also: "new-properties", want: "tell volume VolumeRecordInvalid"},
		{name: "released, made by an earlier version by other parameters", claim: "none", volume: "fits released unsigned", also: "new-parameters", want: "tell volume VolumeRecordInvalid"},
		{name: "an administrator may change a volume later", claim: "bound", volume: "fits bound bare", want: "tell volume VolumeRecordInvalid"},
		{name: "misfit undone, the next attempt waits", pods: []string{"prov-5 done kept"}, want: "requeue in 31.5s"},
		{name: "misfit undone, the next attempt after a while", pods: []string{"prov-5 done kept old", "del-0 done kept"}, want: "create provision 6, acknowledge prov-5, (confirm)"},
		{name: "all done", volume: "fits bound", claim: "bound", want: "forget"},
		{name: "all done, and the volume does not say yet that it is bound", volume: "fits", claim: "bound", want: "forget"},
		{name: "bound, the cache lacks the volume", claim: "bound", want: "forget"},
		{name: "volume too small, pod running", volume: "small", pods: []string{"prov-0 running"}, want: "tell claim VolumeDoesNotFit"},
		{name: "volume too small, pod done", volume: "small", pods: []string{"prov-0 done"}, want: "tell claim VolumeDoesNotFit, retract volume, create delete 0, (confirm)"},
		{name: "volume too small, retracted", volume: "small deleting", pods: []string{"prov-0 done"}, want: "tell claim VolumeDoesNotFit, create delete 0, (confirm)"},
		{name: "volume of another class, to be retained", volume: "misclassed retain", pods: []string{"prov-0 done"},
			want: "tell claim VolumeDoesNotFit, retract volume, create delete 0, (confirm)"},
		{name: "volume of another class, bound all the same", claim: "bound", volume: "misclassed bound", pods: []string{"prov-0 done"}, want: "tell claim VolumeDoesNotFit, acknowledge prov-0"},
		{name: "volume of another class, bound all the same, made after an attempt that was killed", claim: "bound", volume: "misclassed bound",
			pods: []string{"prov-1 done late"}, want: "tell claim VolumeDoesNotFit, requeue in 30s"},
		{name: "volume too small, storage removed", volume: "small", pods: []string{"prov-0 done", "del-0 done"}, want: "tell claim VolumeDoesNotFit, delete volume"},
		{name: "volume too small, dropped", pods: []string{"prov-0 done", "del-0 done"}, want: "keep the name of prov-0, keep the name of del-0, (confirm volume)"},
		{name: "volume too small, of unknown making", volume: "small", want: "tell claim VolumeDoesNotFit"},
		{name: "volume deleted by hand before it was bound", volume: "fits deleting", pods: []string{"prov-0 done"}, want: "tell claim VolumeDoesNotFit, create delete 0, (confirm)"},
		{name: "volume deleted by hand while it is bound", claim: "bound", volume: "fits bound deleting", pods: []string{"prov-0 done"}, want: "tell claim ProvisioningSucceeded, acknowledge prov-0"},
		{name: "claim deleted while its misfit is removed", claim: "none", volume: "small released retain", pods: []string{"prov-0 done", "del-0 done"}, want: "delete volume"},
		{name: "claim deleted while its misfit is half removed", claim: "none", volume: "small released retain deleting", pods: []string{"prov-0 done", "del-0 failed misfit"}, also: "new-config",
			want: "tell volume ProvisionerFailed, create delete 1, keep the name of del-0, (confirm)"},
		{name: "volume that strayed but is bound", volume: "stray bound", pods: []string{"prov-0 done"}, want: "tell claim VolumeDoesNotFit"},
		{name: "retained volume that an administrator freed, pod left", claim: "none", volume: "unclaimed available retain", pods: []string{"prov-0 done"}, want: "acknowledge prov-0"},
		{name: "retained volume that an administrator freed a moment ago, pod left", claim: "none", volume: "unclaimed released retain", pods: []string{"prov-0 done"}, want: "acknowledge prov-0"},
		{name: "retained volume that an administrator freed, no pod left", claim: "none", volume: "unclaimed available retain", want: "take the finalizer off, (confirm)"},
		{name: "volume that an administrator freed, pod left", claim: "none", volume: "unclaimed available", pods: []string{"prov-0 done"}, want: "acknowledge prov-0"},
		{name: "released volume that an administrator freed a moment ago", claim: "none", volume: "unclaimed released", want: "forget"},
		{name: "freed volume that is too small for the claim that waits", volume: "small unclaimed available", pods: []string{"prov-0 done"}, want: "tell claim VolumeDoesNotFit"},
		{name: "volume too small that may have been used", volume: "small available", pods: []string{"prov-0 done"}, want: "tell claim VolumeDoesNotFit, acknowledge prov-0"},
		{name: "retained", claim: "none", volume: "fits released retain", pods: []string{"prov-0 done"}, want: "acknowledge prov-0"},
		{name: "bound, to be retained, pod left", claim: "bound", volume: "fits bound retain", pods: []string{"prov-0 done"}, want: "tell claim ProvisioningSucceeded, acknowledge prov-0"},
		{name: "bound, to be retained", claim: "bound", volume: "fits bound retain", want: "take the finalizer off, (confirm)"},
		{name: "bound, to be retained no more", claim: "bound", volume: "fits bound unprotected", want: "put the finalizer on"},
		{name: "freed, to be retained no more", claim: "none", volume: "unclaimed available unprotected", want: "put the finalizer on"},

		{name: "undone, the next attempt runs, and a former leader saved a failed delete anew", pods: []string{"del-1 failed undo", "prov-3 running"}, want: ""},
		{name: "undone, the next attempt ran, and a former leader saved a failed delete anew", pods: []string{"del-1 failed undo", "prov-3 failed"},
			want: "tell claim ProvisionerFailed, create delete 2 for prov-3, acknowledge del-1, (confirm)"},
		{name: "claim deleted, an attempt runs, and a former leader saved a failed delete anew", claim: "none", pods: []string{"del-1 failed undo", "prov-3 running"},
			want: "tell pod ProvisionerUndo"},
		{name: "claim deleted, pod has no node", claim: "none", pods: []string{"prov-0 unschedulable"}, want: "stop prov-0, (confirm)"},
		{name: "claim deleted, image cannot be pulled", claim: "none", pods: []string{"prov-0 pulling"}, want: "stop prov-0, (confirm)"},
		{name: "claim deleted, pod may run", claim: "none", pods: []string{"prov-0 pending"}, want: "tell pod ProvisionerUndo, requeue in 4m0s"},
		{name: "claim deleted, pod runs", claim: "none", pods: []string{"prov-0 running"}, want: "tell pod ProvisionerUndo"},
		{name: "claim being deleted, pod failed", claim: "deleting", pods: []string{"prov-0 failed"}, want: "create delete 0 for prov-0, (confirm)"},
		{name: "claim deleted, pod never started", claim: "none", pods: []string{"prov-0 unstarted"}, want: "acknowledge prov-0, (confirm)"},
		{name: "claim deleted, pod refused", claim: "none", pods: []string{"prov-0 refused"}, want: "acknowledge prov-0, (confirm)"},
		{name: "claim deleted, pod refused after one that failed", claim: "none", pods: []string{"prov-1 refused suspect"}, want: "create delete 0 for prov-1, (confirm)"},
		{name: "claim deleted, pod failed", claim: "none", pods: []string{"prov-0 failed"}, want: "create delete 0 for prov-0, (confirm)"},
		{name: "claim deleted, pod killed: what it asked for may be under way", claim: "none", pods: []string{"prov-0 killed"}, want: "requeue in 59.5s"},
		{name: "claim deleted, pod killed a minute ago", claim: "none", pods: []string{"prov-0 killed behind"}, want: "create delete 0 for prov-0, (confirm)"},
		{name: "claim deleted, pod killed before one that failed", claim: "none", pods: []string{"prov-0 killed", "prov-1 failed"}, want: "create delete 0 for prov-0, (confirm)"},
		{name: "claim deleted, pod failed after one that was killed: what that asked for may be under way", claim: "none", pods: []string{"prov-1 failed late"}, want: "requeue in 30s"},
		{name: "released soon after an attempt that was killed", claim: "none", volume: "fits released", pods: []string{"prov-1 done late"}, want: "requeue in 30s"},
		{name: "volume made after an attempt that was killed", claim: "bound", volume: "fits bound", pods: []string{"prov-1 done late"}, want: "tell claim ProvisioningSucceeded, requeue in 30s"},
		{name: "volume made by an attempt that was killed", claim: "bound", volume: "fits bound", pods: []string{"prov-0 killed"}, want: "tell claim ProvisioningSucceeded, acknowledge prov-0"},
		{name: "properties edited, pod killed", pods: []string{"prov-3 killed"}, also: "new-properties", want: "tell claim ProvisionerFailed, tell claim ProvisionerUndo, requeue in 59.5s"},
		{name: "claim deleted, exit 0 and no volume: it may be deleted and its storage kept", claim: "none", pods: []string{"prov-0 done"}, want: "tell pod DeletionHeld, (confirm)"},
		{name: "claim deleted, and the volume that was there is gone", claim: "none", pods: []string{"prov-0 failed seen", "prov-1 failed"}, want: "tell pod DeletionHeld, (confirm)"},
		{name: "claim deleted, exit 0 and no volume, and an administrator keeps the storage", claim: "none", pods: []string{"prov-0 done refused-delete"}, want: "acknowledge prov-0, (confirm)"},
		{name: "volume taken away by hand while its delete failed, and an administrator keeps the storage", claim: "none", pods: []string{"prov-0 done", "del-0 failed refused-delete"},
			want: "acknowledge prov-0, acknowledge del-0, (confirm)"},
		{name: "claim deleted, exit 0 and no volume, and an administrator gives up the storage", claim: "none", pods: []string{"prov-0 done allowed"}, want: "create delete 0 for prov-0, (confirm)"},
		{name: "claim that lost its volume is being deleted, pod left", claim: "bound deleting", pods: []string{"prov-0 failed"}, want: "tell claim DeletionHeld, (confirm)"},
		{name: "claim that lost its volume, pod left", claim: "bound", pods: []string{"prov-0 failed"}, want: "acknowledge prov-0, (confirm)"},
		{name: "claim bound elsewhere, pod failed", claim: "elsewhere", pods: []string{"prov-0 failed"}, want: "create delete 0 for prov-0, (confirm)"},
		{name: "undo on the node of node-local storage, after a pod that never got there", claim: "none", also: "node-local", pods: []string{"prov-1 unstarted suspect for-node2"}, want: "create delete 0 for prov-1 on node2, (confirm)"},
		{name: "undo of node-local storage never got to the node", claim: "none", also: "node-local new-config", pods: []string{"del-0 unstarted undo for-node2"}, want: "create delete 1 for del-0 on node2, keep the name of del-0, (confirm)"},
		{name: "undo on the node of node-local storage", claim: "none", also: "node-local", pods: []string{"prov-0 failed"}, want: "create delete 0 for prov-0 on node1, (confirm)"},
		{name: "undo without ConfigMap", claim: "none", also: "no-config", pods: []string{"prov-0 failed"}, want: "tell pod ProvisionerConfigMissing"},
		{name: "undo runs", claim: "none", pods: []string{"prov-0 failed", "del-0 running undo"}, want: ""},
		{name: "undo failed", claim: "none", pods: []string{"prov-0 failed", "del-0 failed undo"}, want: "tell pod ProvisionerFailed, requeue in 500ms"},
		{name: "undo failed long ago", claim: "none", pods: []string{"prov-0 failed", "del-0 failed undo"}, also: "new-config", want: "tell pod ProvisionerFailed, create delete 1 for prov-0, keep the name of del-0, (confirm)"},
		{name: "undone while another attempt ran", claim: "none", pods: []string{"prov-0 failed", "del-0 done undo early"}, want: "acknowledge del-0"},
		{name: "undone, by a node whose clock is ahead", claim: "none", pods: []string{"prov-0 failed ahead", "del-0 done undo"}, want: "acknowledge prov-0, acknowledge del-0, (confirm volume)"},
		{name: "undone", claim: "none", pods: []string{"prov-0 failed", "del-0 done undo"}, want: "acknowledge prov-0, acknowledge del-0, (confirm volume)"},
		{name: "undone for new properties", pods: []string{"prov-0 failed", "del-0 done undo"}, also: "new-properties", want: "tell claim ProvisionerUndone, keep the name of prov-0, keep the name of del-0, (confirm volume)"},
		{name: "undo of a stalled leader runs beside a volume", claim: "bound", volume: "fits bound", pods: []string{"del-0 running undo"}, want: "tell volume StorageMayBeGone, kill del-0"},
		{name: "undo of a stalled leader is about to run beside a new volume", volume: "fits", pods: []string{"prov-1 running", "del-0 pending undo"}, want: "tell volume StorageMayBeGone, kill del-0"},
		{name: "undo of a stalled leader has no node yet", claim: "bound", volume: "fits bound", pods: []string{"del-0 unschedulable undo"}, want: "kill del-0"},
		{name: "undo of a stalled leader is being stopped", claim: "bound", volume: "fits bound", pods: []string{"del-0 running undo deleting"}, want: "tell volume StorageMayBeGone"},
		{name: "undo of a stalled leader ran beside a volume", claim: "bound", volume: "fits bound", pods: []string{"del-0 done undo"}, want: "tell volume StorageMayBeGone, acknowledge del-0"},
		{name: "released, delete pod of an earlier volume runs", claim: "none", volume: "fits released", pods: []string{"del-0 running other"}, want: "tell volume StorageMayBeGone, kill del-0"},
		{name: "claim deleted, volume there, not released yet", claim: "none", volume: "fits bound", pods: []string{"prov-0 done"}, want: "acknowledge prov-0"},

		{name: "released", claim: "none", volume: "fits released", want: "create delete 0, (confirm)"},
		{name: "released while the provision pod runs", claim: "none", volume: "fits released", pods: []string{"prov-0 running"}, want: "note the volume on prov-0"},
		{name: "released, no ConfigMap", claim: "none", volume: "fits released", also: "no-config", want: "tell volume ProvisionerConfigMissing"},
		{name: "released, delete pod runs", claim: "none", volume: "fits released", pods: []string{"del-0 running"}, want: ""},
		{name: "delete failed, not released yet by an old cache", claim: "none", volume: "fits available", pods: []string{"del-0 failed"}, want: "tell volume StorageMayBeGone, acknowledge del-0, (confirm)"},
		{name: "freed, and deleted by hand", claim: "none", volume: "unclaimed available deleting", want: "tell volume DeletionHeld"},
		{name: "freed, deleted by hand, and given up", claim: "none", volume: "unclaimed available deleting allowed", want: "create delete 0, (confirm)"},
		{name: "freed by Kubernetes, since another volume serves the claim", claim: "elsewhere", volume: "unclaimed available retain", pods: []string{"prov-0 done"},
			want: "tell claim VolumeDoesNotFit, acknowledge prov-0"},
		{name: "given to another claim by an administrator, while its own claim exists", claim: "bound", volume: "stray released", want: "tell volume DeletionHeld, (confirm)"},
		{name: "lost provisioned-by while its delete pod started", claim: "none", volume: "bare unreclaimed", pods: []string{"del-0 unstarted"}, want: "tell volume VolumeRecordInvalid, acknowledge del-0, (confirm)"},
		{name: "released, delete failed", claim: "none", volume: "fits released", pods: []string{"del-0 failed"}, want: "tell volume ProvisionerFailed, requeue in 500ms"},
		{name: "released, delete done", claim: "none", volume: "fits released", pods: []string{"del-0 done"}, want: "delete volume"},
		{name: "released, delete pod of an earlier volume", claim: "none", volume: "fits released", pods: []string{"del-0 done other"}, want: "tell volume StorageMayBeGone, acknowledge del-0"},
		{name: "deleted", claim: "none", pods: []string{"del-0 done"}, want: "acknowledge del-0, (confirm volume)"},
		{name: "volume taken away by hand while its delete failed", claim: "none", pods: []string{"del-0 failed"}, also: "new-config", want: "tell pod ProvisionerFailed, tell pod DeletionHeld, (confirm)"},
		{name: "volume taken away by hand while its delete failed, and an administrator gives up the storage", claim: "none", pods: []string{"del-0 failed allowed"}, also: "new-config",
			want: "tell pod ProvisionerFailed, create delete 1 for del-0, keep the name of del-0, (confirm)"},
		{name: "misfit taken away by hand while its delete failed", claim: "none", pods: []string{"del-0 failed misfit"}, also: "new-config",
			want: "tell pod ProvisionerFailed, create delete 1 for del-0, keep the name of del-0, (confirm)"},
		{name: "released, deletions stopped", claim: "none", volume: "fits released", also: "stopped", want: "tell volume DeletionStopped"},
		{name: "released, deletions stopped, but allowed", claim: "none", volume: "fits released allowed", also: "stopped", want: "tell volume DeletionStopped"},
		{name: "deletions stopped, delete pod starts", claim: "none", volume: "fits released", also: "stopped", pods: []string{"del-0 pending"}, want: "tell volume DeletionStopped, stop del-0"},
		{name: "deletions stopped, delete pod runs", claim: "none", volume: "fits released", also: "stopped", pods: []string{"del-0 running"}, want: ""},
		{name: "deletions stopped, delete failed", claim: "none", volume: "fits released", also: "stopped new-config", pods: []string{"del-0 failed"},
			want: "tell volume ProvisionerFailed, tell volume DeletionStopped"},
		{name: "deletions stopped, delete done", claim: "none", volume: "fits released", also: "stopped", pods: []string{"del-0 done"}, want: "delete volume"},
		{name: "deletions stopped, claim deleted, pod failed", claim: "none", also: "stopped", pods: []string{"prov-0 failed"}, want: "tell pod DeletionStopped"},
		{name: "deletions stopped, properties edited after a failure", also: "stopped new-properties", pods: []string{"prov-3 failed"},
			want: "tell claim ProvisionerFailed, tell claim ProvisionerUndo, tell claim DeletionStopped"},
		{name: "deletions stopped, volume too small", volume: "small", also: "stopped", pods: []string{"prov-0 done"}, want: "tell claim VolumeDoesNotFit, tell volume DeletionStopped"},
		{name: "deletions stopped, claims are served", also: "stopped", want: "create provision 0, (confirm)"},
		{name: "restored without its claim", claim: "none", volume: "fits released restored", want: "tell volume DeletionHeld"},
		{name: "restored without its claim, pod left", claim: "none", volume: "fits released restored", pods: []string{"prov-0 done"}, want: "tell volume DeletionHeld, acknowledge prov-0"},
		{name: "restored without its claim, and given up", claim: "none", volume: "fits released restored allowed", want: "create delete 0, (confirm)"},
		{name: "restored with its claim", claim: "bound", volume: "fits bound restored", want: "forget"},
		{name: "made by a late pod", volume: "fits restored", pods: []string{"prov-0 running"}, want: "tell claim VolumeMended, repair 1, (confirm)"},
		{name: "another claim has it", claim: "none", volume: "bound", also: "another-has",
			want: "status allocated 2Gi ControllerResizeInProgress Resizing, create expand 0 of 2Gi, (confirm)"},
		{name: "another claim has it, and its own lives", claim: "bound", volume: "bound", also: "another-has", pods: []string{"prov-0 done"},
			want: "tell claim ProvisioningSucceeded, status allocated 2Gi ControllerResizeInProgress Resizing, create expand 0 of 2Gi, acknowledge prov-0, (confirm)"},
		{name: "another claim has it, its own is being deleted", claim: "deleting", volume: "bound", also: "another-has", pods: []string{"prov-0 done"},
			want: "status allocated 2Gi ControllerResizeInProgress Resizing, create expand 0 of 2Gi, acknowledge prov-0, (confirm)"},
		{name: "another claim has it, and its own waits", volume: "bound", also: "another-has",
			want: "tell claim VolumeDoesNotFit, status allocated 2Gi ControllerResizeInProgress Resizing, create expand 0 of 2Gi, (confirm)"},
		{name: "another claim has it, and its own is gone", claim: "none", volume: "bound", also: "another-has", pods: []string{"prov-0 done"},
			want: "status allocated 2Gi ControllerResizeInProgress Resizing, create expand 0 of 2Gi, acknowledge prov-0, (confirm)"},
		{name: "given to another claim that does not have it yet", claim: "bound", volume: "stray bound", pods: []string{"prov-0 done"},
			want: "tell claim ProvisioningSucceeded, acknowledge prov-0"},
		{name: "given to another claim, which is gone", claim: "none", volume: "stray released", want: "create delete 0, (confirm)"},
		{name: "given to another claim, which is gone, without a record", claim: "none", volume: "stray released unsigned", want: "tell volume DeletionHeld"},
		{name: "released, and its claim exists", claim: "elsewhere", volume: "fits released", want: "tell volume DeletionHeld, (confirm)"},
		{name: "failed to be reclaimed while it lacked provisioned-by", claim: "none", volume: "fits unreclaimed", want: "create delete 0, (confirm)"},
		{name: "being copied into a clone", claim: "none", volume: "fits released", also: "copied", want: "tell volume CloneRunning"},
		{name: "being copied into a clone, and allowed", claim: "none", volume: "fits released allowed", also: "copied", want: "tell volume CloneRunning"},
		{name: "restored claim asks for its released volume", claim: "none", volume: "fits released", also: "successor", want: "tell volume DeletionHeld"},
		{name: "many old volumes released", claim: "none", volume: "fits released old", also: "limited", want: "tell volume DeletionLimit, requeue in 5m0s"},
		{name: "many old volumes released, and allowed", claim: "none", volume: "fits released old allowed", also: "limited", want: "create delete 0, (confirm)"},
		{name: "a young volume beside many old ones", claim: "none", volume: "fits released", also: "limited", want: "create delete 0, (confirm)"},
		{name: "made Retain while the delete pod ran", claim: "none", volume: "fits released retain", pods: []string{"del-0 running"}, want: "tell volume StorageMayBeGone, (confirm)"},
		{name: "made Retain after the delete pod", claim: "none", volume: "fits released retain", pods: []string{"del-0 failed"}, want: "tell volume StorageMayBeGone, acknowledge del-0, (confirm)"},
		{name: "made Retain before the delete pod started", claim: "none", volume: "fits released retain", pods: []string{"del-0 pending"}, want: "stop del-0, (confirm)"},
		{name: "freed after the delete pod ran", claim: "none", volume: "unclaimed available", pods: []string{"del-0 failed"},
			want: "tell volume StorageMayBeGone, acknowledge del-0, (confirm)"},
		{name: "freed before the delete pod started", claim: "none", volume: "unclaimed available", pods: []string{"del-0 unschedulable"}, want: "stop del-0, (confirm)"},
		{name: "bound to a claim while the delete pod runs", claim: "bound", volume: "fits bound", pods: []string{"del-0 running"}, want: "tell volume StorageMayBeGone, kill del-0, (confirm)"},
		{name: "bound to a claim after the delete pod", claim: "bound", volume: "fits bound", pods: []string{"del-0 done"}, want: "tell volume StorageMayBeGone, acknowledge del-0, (confirm)"},

		{name: "failed, and somebody drains its node", pods: []string{"prov-4 failed deleting"}, want: "tell claim ProvisionerFailed, save prov-4, requeue in 15.5s"},
		{name: "failed, and its record is new", pods: []string{"prov-4 failed saving"}, want: "tell claim ProvisionerFailed, requeue in 7s"},
		{name: "failed, and its record is known by now", pods: []string{"prov-4 failed saved"}, want: "tell claim ProvisionerFailed, release prov-4, requeue in 15.5s"},
		{name: "failed, and an administrator asks on the pod that goes", pods: []string{"prov-4 failed saved retry"}, also: "no-config",
			want: "tell claim ProvisionerFailed, tell claim ProvisionerConfigMissing, save prov-4"},
		{name: "failed, and gone", pods: []string{"prov-4 failed gone"}, want: "tell claim ProvisionerFailed, requeue in 15.5s"},
		{name: "first and latest failed, and both drained", pods: []string{"prov-0 failed kept deleting", "prov-4 failed deleting"},
			want: "tell claim ProvisionerFailed, save prov-0, save prov-4, requeue in 15.5s"},
		{name: "failed, drained, and the next attempt is due", pods: []string{"prov-3 failed deleting retry"}, want: "tell claim ProvisionerFailed, create provision 4 for prov-3, acknowledge prov-3, requeue in 5s, (confirm)"},
		{name: "first failed, drained, and the next attempt is due", pods: []string{"prov-0 failed deleting retry"},
			want: "tell claim ProvisionerFailed, create provision 1 for prov-0, keep the name of prov-0, save prov-0, (confirm)"},
		{name: "first failed, gone, and the next attempt is due", pods: []string{"prov-0 failed gone retry"},
			want: "tell claim ProvisionerFailed, create provision 1 for prov-0, keep the name of prov-0, (confirm)"},
		{name: "gone, and the next attempt runs", pods: []string{"prov-0 failed kept gone", "prov-1 running"}, want: ""},
		{name: "gone, and the claim is bound", claim: "bound", volume: "fits bound", pods: []string{"prov-0 failed kept gone", "prov-1 done"},
			want: "tell claim ProvisioningSucceeded, acknowledge prov-1, acknowledge prov-0"},
		{name: "gone, and the claim is deleted", claim: "none", pods: []string{"prov-0 failed gone"}, want: "create delete 0 for prov-0, (confirm)"},
		{name: "gone, and undone", claim: "none", pods: []string{"prov-0 failed gone", "del-0 done undo"}, want: "acknowledge prov-0, acknowledge del-0, (confirm volume)"},
		{name: "delete failed, and somebody drains its node", claim: "none", volume: "fits released", pods: []string{"del-5 failed deleting"},
			want: "tell volume ProvisionerFailed, save del-5, requeue in 31.5s"},
		{name: "delete failed, gone, and refused by an administrator", claim: "none", pods: []string{"del-0 failed gone refused-delete"}, want: "acknowledge del-0, (confirm)"},
		{name: "deleted before it had a node", pods: []string{"prov-0 unstarted"}, want: "requeue in 1s"},

		{name: "made in a place that is there", claim: "none", volume: "fits released placed", also: "mounted", want: "create delete 0, (confirm)"},
		{name: "made in a place that has other storage", claim: "none", volume: "fits released placed", also: "moved", want: "tell volume StorageMoved"},
		{name: "made in a place that is gone", claim: "none", volume: "fits released placed", also: "unmounted", want: "tell volume StorageMoved"},
		{name: "made in a place that is gone, and allowed to be deleted", claim: "none", volume: "fits released placed allowed", also: "unmounted", want: "tell volume StorageMoved"},
		{name: "made in a place that has other storage, says an administrator", claim: "none", volume: "fits released placed unsigned trusted", also: "moved", want: "tell volume VolumeRecordInvalid"},
		{name: "made where the class is, says an administrator", claim: "none", volume: "fits released placed unsigned trusted", also: "mounted", want: "create delete 0, (confirm)"},
		{name: "made before records had a place", claim: "none", volume: "fits released", also: "moved", want: "create delete 0, (confirm)"},
		{name: "made before records had a place, and nothing is mounted now", claim: "none", volume: "fits released", also: "unmounted", want: "tell volume MountNotBound"},
		{name: "its pod left the place out", volume: "fits unsigned", pods: []string{"prov-0 running placed"}, also: "mounted", want: "tell claim VolumeMended, repair 1, (confirm)"},
		{name: "the class's storage is not there", also: "unmounted", want: "tell claim MountNotBound"},
		{name: "the class's storage is not there yet", also: "unmounted just-wanted", want: "requeue in 1s"},
		{name: "the class's storage waits for the first pod", also: "unbound-mount", want: "create provision 0, (confirm)"},
		{name: "failed where the class is", pods: []string{"prov-0 failed placed"}, also: "mounted new-config", want: "tell claim ProvisionerFailed, create provision 1 for prov-0, keep the name of prov-0, (confirm)"},
		{name: "failed, and the class mounts other storage", pods: []string{"prov-0 failed placed"}, also: "moved", want: "tell claim ProvisionerFailed, tell claim ProvisionerUndo, tell claim StorageMoved"},
		{name: "failed before records had a place", pods: []string{"prov-0 failed"}, also: "moved new-config", want: "tell claim ProvisionerFailed, create provision 1 for prov-0, keep the name of prov-0, (confirm)"},
		{name: "claim deleted, pod failed in a place that is gone", claim: "none", pods: []string{"prov-0 failed placed"}, also: "unmounted", want: "tell pod StorageMoved"},
		{name: "claim deleted, pod failed in a place that is there", claim: "none", pods: []string{"prov-0 failed placed"}, also: "mounted", want: "create delete 0 for prov-0, (confirm)"},
	} {
		t.Run(s.name, func(t *testing.T) {
			if got := describe(Decide(s.observed())); got != s.want {
				t.Errorf("claim %q, volume %q, pods %q, also %q:\n got %s\nwant %s", s.claim, s.volume, s.pods, s.also, got, s.want)
			}
		})
	}
}
