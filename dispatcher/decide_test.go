package dispatcher

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

const uid = "11111111-2222-3333-4444-555555555555"

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// a scene is a cluster in a few words. Pods are "prov-0 failed", "del-1 done" and so on, oldest first.
type scene struct {
	name string
	// claim: waiting, bound (to ours), elsewhere, deleting or none. Default waiting.
	claim string
	// volume: "" for none, else words: fits, small, stray, unclaimed; bound, released, available; retain; restored (from a
	// backup), old (more than a day), allowed (its deletion), plain (without an identity); forged (a pod wrote another identity
	// than the dispatcher signed), garbled (one that is no JSON), unsigned (the class's own), trusted (by an administrator).
	volume string
	pods   []string
	// also: unwanted, no-config, new-config, new-properties, node-local, selected, asked (the library asked to delete),
	// stopped (all deletions), limited (three old volumes are to go, and two may), heir (another claim asks for the volume).
	also string
	want string
}

func (s scene) has(word string) bool { return slices.Contains(strings.Fields(s.also), word) }

func (s scene) facts() *facts {
	f := &facts{now: noon, uid: uid, class: "silver", wanted: !s.has("unwanted"), provisioner: "p", terms: &storagev1.StorageClass{Provisioner: "p"},
		config: &configmaps.Config{Name: "cm", Digest: "d1", StorageClass: "silver", StartTimeout: 5 * time.Minute, NodeLocal: s.has("node-local"),
			Properties:  map[string]string{"zone": "west"},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeModes: []corev1.PersistentVolumeMode{corev1.PersistentVolumeFilesystem}}}
	if s.has("no-config") {
		f.config, f.configProblem = nil, "no ConfigMap"
	}
	if s.has("new-parameters") {
		f.terms.Parameters = map[string]string{"pool": "b"}
	}
	if s.has("uncontained") {
		f.uncontained = "a policy is missing"
	}
	if s.has("new-config") || s.has("new-properties") {
		f.config.Digest = "d2"
	}
	if s.has("new-properties") {
		f.config.Properties = map[string]string{"zone": "east"}
	}
	if s.has("stopped") {
		f.stopped = "ConfigMap ns/stop-deletes stops all deletions"
	}
	if s.has("limited") {
		f.deleteLimit, f.doomed = 2, 3
	}
	f.claim = s.makeClaim()
	if s.has("selected") {
		wait := storagev1.VolumeBindingWaitForFirstConsumer
		f.terms.VolumeBindingMode = &wait
	}
	f.volume = s.makeVolume()
	if s.has("heir") {
		f.heir = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "data", UID: "later"},
			Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pvc-" + uid}}
	}
	f.released = s.has("asked") && f.volume != nil && awaitsDeletion(f.volume)
	for i, words := range s.pods {
		created, ended := noon.Add(time.Duration(i-len(s.pods))*time.Minute), noon.Add(-500*time.Millisecond)
		if i < len(s.pods)-1 {
			ended = created.Add(10 * time.Second)
		}
		pod := makePod(words, created, ended)
		if slices.Contains(strings.Fields(words), "kept") {
			f.kept = append(f.kept, newAttempt(pod, ""))
		} else {
			f.attempts = append(f.attempts, newAttempt(pod, ""))
		}
	}
	sortAttempts(f.attempts)
	return f
}

func (s scene) makeClaim() *corev1.PersistentVolumeClaim {
	class := "silver"
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "data", UID: uid, Annotations: map[string]string{}},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
	}
	if s.has("selected") || s.has("selected-early") {
		claim.Annotations[annSelectedNode] = "node1"
	}
	if s.has("selector") {
		claim.Spec.Selector = &metav1.LabelSelector{}
	}
	switch s.claim {
	case "none":
		return nil
	case "bound":
		claim.Spec.VolumeName = "pvc-" + uid
	case "elsewhere":
		claim.Spec.VolumeName = "another"
	case "deleting":
		claim.DeletionTimestamp = &metav1.Time{Time: noon}
	}
	return claim
}

func (s scene) makeVolume() *corev1.PersistentVolume {
	if s.volume == "" {
		return nil
	}
	has := func(word string) bool { return slices.Contains(strings.Fields(s.volume), word) }
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + uid, UID: "volume-uid", Finalizers: []string{contract.VolumeFinalizer}, Annotations: map[string]string{contract.ProvisionedBy: "p", podspec.Verified: "true"}},
		Spec: corev1.PersistentVolumeSpec{StorageClassName: "silver", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			ClaimRef:                      &corev1.ObjectReference{Namespace: "team-a", Name: "data", UID: uid}},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumePending},
	}
	if has("small") {
		v.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("1Mi")
	}
	if has("deleting") {
		v.DeletionTimestamp = &metav1.Time{Time: noon}
	}
	if has("stray") {
		v.Spec.ClaimRef.UID = "another"
	}
	v.CreationTimestamp.Time = noon.Add(-time.Hour)
	v.Annotations[contract.AnnMadeBefore] = "2026-11-21T11:30:00Z"
	if has("restored") {
		v.Annotations[contract.AnnMadeBefore] = "2026-11-21T10:30:00Z"
	}
	if has("old") {
		v.CreationTimestamp.Time = noon.Add(-25 * time.Hour)
	}
	if has("allowed") {
		v.Annotations[contract.AnnAllowDelete] = "true"
	}
	for word, identity := range map[string]string{"forged": `{"properties":{"zone":"mine"}}`, "garbled": "{", "unsigned": `{"properties":{"zone":"west"}}`} {
		if has(word) {
			v.Annotations[contract.AnnIdentity] = identity
			delete(v.Annotations, podspec.Verified)
		}
	}
	if has("trusted") {
		v.Annotations[contract.AnnRecord] = contract.RecordTrusted
	}
	if has("bare") {
		v.Finalizers, v.Annotations = nil, nil
	}
	if has("unclaimed") {
		v.Spec.ClaimRef = nil
	}
	if has("retain") {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	}
	for word, phase := range map[string]corev1.PersistentVolumePhase{"bound": corev1.VolumeBound, "released": corev1.VolumeReleased, "available": corev1.VolumeAvailable} {
		if has(word) {
			v.Status.Phase = phase
		}
	}
	return v
}

// makePod: "prov-0 STATE" with STATE pending, unschedulable, pulling, running, done, failed, refused, nothere, busy,
// evicted, unstarted; then words: old (created an hour ago), suspect, for-node2 (bound to it), undo, other (a delete of an
// earlier volume), deleting.
func makePod(words string, created, ended time.Time) *corev1.Pod {
	fields := strings.Fields(words)
	has := func(word string) bool { return slices.Contains(fields[1:], word) }
	prefix, number, _ := strings.Cut(fields[0], "-")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: prefix + "-" + uid + "-" + number, UID: types.UID(fields[0]),
		CreationTimestamp: metav1.Time{Time: created}, Finalizers: []string{contract.PodFinalizer},
		Annotations: map[string]string{contract.AnnConfig: "cm/1@d1", contract.AnnRequest: `{"properties":{"zone":"west"}}`, contract.AnnVolumeUID: "volume-uid"}}}
	pod.Spec.NodeName = "node1"
	if has("old") {
		pod.CreationTimestamp.Time = noon.Add(-time.Hour)
	}
	if has("late") { // it ended after the pods that were created after it
		ended = noon
	}
	if has("suspect") {
		pod.Annotations[contract.AnnSuspect] = "true"
	}
	if has("for-node2") {
		pod.Annotations[contract.AnnNode] = "node2"
	}
	if has("undo") {
		pod.Annotations[contract.AnnVolumeUID] = ""
	}
	if has("misfit") {
		pod.Annotations[contract.AnnUndo] = "true"
	}
	if has("other") {
		pod.Annotations[contract.AnnVolumeUID] = "earlier-volume"
	}
	if has("deleting") {
		pod.DeletionTimestamp = &metav1.Time{Time: noon}
	}
	state := corev1.ContainerState{}
	end := func(phase corev1.PodPhase, code int32) {
		pod.Status.Phase = phase
		state.Terminated = &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.Time{Time: ended}}
	}
	switch fields[1] {
	case "pending":
		pod.Status.Phase = corev1.PodPending
	case "unschedulable":
		pod.Spec.NodeName = ""
		pod.Status.Phase = corev1.PodPending
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes"}}
	case "pulling":
		pod.Status.Phase = corev1.PodPending
		state.Waiting = &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}
	case "hanging": // past its deadline
		pod.Spec.ActiveDeadlineSeconds, pod.Status.StartTime = new(int64), &metav1.Time{Time: noon.Add(-time.Second)}
		pod.Status.Phase = corev1.PodRunning
		state.Running = &corev1.ContainerStateRunning{}
	case "running":
		pod.Status.Phase = corev1.PodRunning
		state.Running = &corev1.ContainerStateRunning{}
	case "done":
		end(corev1.PodSucceeded, 0)
	case "failed":
		end(corev1.PodFailed, 1)
	case "refused":
		end(corev1.PodFailed, contract.ExitRefused)
	case "nothere":
		end(corev1.PodFailed, contract.ExitNotHere)
	case "busy":
		end(corev1.PodFailed, contract.ExitTryAgain)
	case "evicted":
		end(corev1.PodFailed, 137)
		pod.Status.Reason = "Evicted"
	case "killed":
		end(corev1.PodFailed, 137)
	case "unstarted":
		pod.Spec.NodeName = ""
		pod.Status.Phase = corev1.PodPending
		pod.DeletionTimestamp = &metav1.Time{Time: noon}
	default:
		panic("no such state: " + words)
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: podspec.ContainerName, Image: "i", State: state}}
	return pod
}

// describe writes a plan in words.
func describe(p plan) string {
	var words []string
	for _, r := range p.reports {
		if r.key != "" {
			words = append(words, fmt.Sprintf("tell %s %s", r.on, r.reason))
		}
	}
	if p.mend != nil {
		words = append(words, fmt.Sprintf("mend %d", len(p.mend.Faults)))
	}
	if p.grow != nil {
		words = append(words, "grow to "+p.grow.String())
	}
	if p.mark != nil {
		words = append(words, describeMarking(*p.mark))
	}
	names := func(verb string, pods []*corev1.Pod) {
		for _, pod := range pods {
			words = append(words, verb+" "+string(pod.UID))
		}
	}
	if o := p.create; o != nil {
		w := fmt.Sprintf("create %s %d", o.op, o.number)
		if o.size != 0 {
			w += " of " + resource.NewQuantity(o.size, resource.BinarySI).String()
		}
		if o.suspect {
			w += " suspect"
		}
		if o.record != nil {
			w += " for " + string(o.record.UID)
		}
		if o.node != "" {
			w += " on " + o.node
		}
		words = append(words, w)
		names("replace", o.replaces)
	}
	names("stop", p.stop)
	for _, flag := range []struct {
		set  bool
		word string
	}{{p.dropVolume, "drop volume"}, {p.reschedule, "reschedule"}} {
		if flag.set {
			words = append(words, flag.word)
		}
	}
	names("settle", p.settle)
	names("retire", p.retire)
	if p.handOver {
		words = append(words, "hand over")
	}
	if p.forget {
		words = append(words, "forget")
	}
	if !p.again.IsZero() {
		words = append(words, "look in "+p.again.Sub(noon).Round(100*time.Millisecond).String())
	}
	if p.check {
		words = append(words, "(check)")
	}
	if p.confirm {
		words = append(words, "(confirm)")
	}
	return strings.Join(words, ", ")
}

// The rows are the crash points of docs/crash-points.md and the plain course of things: in each a dispatcher may have
// just started, knowing nothing else.
func TestDecide(t *testing.T) {
	for _, s := range []scene{
		{name: "new claim", want: "create provision 0, (confirm)"},
		{name: "claim not handed over yet", also: "unwanted", want: "hand over, forget"},
		{name: "no ConfigMap", also: "no-config", want: "tell claim ProvisionerConfigMissing"},
		{name: "no admission policies", also: "uncontained", want: "tell claim AdmissionPoliciesMissing"},
		{name: "released, no admission policies", claim: "none", volume: "fits released", also: "asked uncontained", want: "tell volume AdmissionPoliciesMissing"},
		{name: "claim asks for what the class lacks", also: "selector", want: "tell claim ClaimRefused"},
		{name: "selected node", also: "selected", want: "create provision 0 on node1, (confirm)"},
		{name: "a node that the scheduler did not choose", also: "selected-early", want: "create provision 0, (confirm)"},
		{name: "pod starting", pods: []string{"prov-0 pending"}, want: "look in 4m0s"},
		{name: "pod running", pods: []string{"prov-0 running"}, want: ""},
		{name: "pod hangs", pods: []string{"prov-0 hanging"}, want: "tell claim ProvisionerDeadlineExceeded"},
		{name: "image cannot be pulled", pods: []string{"prov-0 pulling"}, want: "tell claim ProvisionerImagePullFailed, look in 4m0s"},
		{name: "image mended in the ConfigMap", pods: []string{"prov-0 pulling"}, also: "new-config", want: "tell claim ProvisionerImagePullFailed, stop prov-0"},
		{name: "a healthy start is not stopped by an edit", pods: []string{"prov-0 pending"}, also: "new-config", want: "look in 4m0s"},
		{name: "start timeout", pods: []string{"prov-0 pulling old"}, want: "tell claim ProvisionerImagePullFailed, tell claim ProvisionerStartTimeout, stop prov-0"},
		{name: "no node fits", pods: []string{"prov-0 unschedulable"}, want: "tell claim ProvisionerUnschedulable, look in 4m0s"},
		{name: "selected node does not fit", pods: []string{"prov-0 unschedulable"}, also: "selected", want: "tell claim ProvisionerUnschedulable, stop prov-0"},
		{name: "selected node did not fit", pods: []string{"prov-0 unstarted"}, also: "selected", want: "reschedule, retire prov-0"},
		{name: "not here", pods: []string{"prov-0 nothere"}, also: "selected", want: "tell claim ProvisionerNotHere, reschedule, retire prov-0"},
		{name: "volume that did not fit deleted by hand, of which the library has not heard yet", pods: []string{"prov-0 done"}, also: "unwanted",
			want: "tell claim ProvisionerMadeNoVolume, hand over, (confirm)"},
		{name: "rescheduling failed after the claim was given back", pods: []string{"prov-0 nothere"}, also: "selected unwanted", want: "tell claim ProvisionerNotHere, reschedule, retire prov-0"},
		{name: "not here, but storage may be here from before", pods: []string{"prov-1 nothere suspect"}, also: "selected", want: "tell claim ProvisionerNotHere, look in 1.5s"},
		{name: "first failure", pods: []string{"prov-0 failed"}, want: "tell claim ProvisionerFailed, look in 500ms"},
		{name: "fifth failure", pods: []string{"prov-4 failed"}, want: "tell claim ProvisionerFailed, look in 15.5s"},
		{name: "the hundredth failure waits no longer than five minutes", pods: []string{"prov-99 failed"}, want: "tell claim ProvisionerFailed, look in 4m59.5s"},
		{name: "busy waits 15 seconds at most", pods: []string{"prov-99 busy"}, want: "tell claim ProvisionerBusy, look in 14.5s"},
		{name: "refused waits long", pods: []string{"prov-0 refused"}, want: "tell claim ProvisionerRefused, look in 4m59.5s"},
		{name: "evicted waits a second", pods: []string{"prov-7 evicted"}, want: "tell claim ProvisionerEvicted, look in 500ms"},
		{name: "ConfigMap edited after a failure", pods: []string{"prov-3 refused"}, also: "new-config", want: "tell claim ProvisionerRefused, create provision 4, replace prov-3, (confirm)"},
		{name: "properties edited after a failure that may have made storage", pods: []string{"prov-3 failed"}, also: "new-properties",
			want: "tell claim ProvisionerFailed, tell claim ProvisionerUndo, create delete 0 for prov-3, (confirm)"},
		{name: "StorageClass made anew with other parameters", pods: []string{"prov-3 failed"}, also: "new-parameters",
			want: "tell claim ProvisionerFailed, tell claim ProvisionerUndo, create delete 0 for prov-3, (confirm)"},
		{name: "properties edited after a refusal", pods: []string{"prov-3 refused"}, also: "new-properties", want: "tell claim ProvisionerRefused, create provision 4, replace prov-3, (confirm)"},
		{name: "node-local retry goes there after a pod that never did", pods: []string{"prov-1 unstarted suspect for-node2"}, also: "node-local new-config", want: "create provision 2 for prov-1 on node2, replace prov-1, (confirm)"},
		{name: "node-local retry goes where storage may be", pods: []string{"prov-0 failed"}, also: "node-local new-config", want: "tell claim ProvisionerFailed, create provision 1 for prov-0 on node1, replace prov-0, (confirm)"},
		{name: "exit 0 and no volume", pods: []string{"prov-0 done"}, want: "tell claim ProvisionerMadeNoVolume, look in 500ms, (confirm)"},
		{name: "attempt numbers start over", pods: []string{"prov-9999 refused"}, also: "new-config", want: "tell claim ProvisionerRefused, create provision 0, replace prov-9999, (confirm)"},

		{name: "volume made, pod still starting as far as is known", volume: "fits", pods: []string{"prov-0 pending"}, want: "look in 4m0s"},
		{name: "volume made, pod running", volume: "fits bound", claim: "bound", pods: []string{"prov-0 running"}, want: ""},
		{name: "volume made, to be bound", volume: "fits", pods: []string{"prov-0 done"}, want: "tell claim ProvisioningSucceeded"},
		{name: "volume made, to be bound, and pods of before", volume: "fits", pods: []string{"prov-0 failed", "prov-1 done"}, want: "tell claim ProvisioningSucceeded"},
		{name: "volume made, pod done", volume: "fits bound", claim: "bound", pods: []string{"prov-0 done"}, want: "tell claim ProvisioningSucceeded, settle prov-0"},
		{name: "volume made, then the pod failed", volume: "fits bound", claim: "bound", pods: []string{"prov-0 failed"}, want: "tell claim ProvisioningSucceeded, settle prov-0"},
		{name: "volume made without finalizer and provisioned-by", volume: "fits bare", pods: []string{"prov-0 running"}, want: "tell claim VolumeMended, mend 3"},
		{name: "the library takes the finalizer off what is retained", volume: "fits bare retain", pods: []string{"prov-0 running"}, want: "tell claim VolumeMended, mend 2"},
		{name: "its pod forged the identity", volume: "fits forged", pods: []string{"prov-0 running"}, want: "tell claim VolumeMended, mend 1"},
		{name: "its pod forged the identity and is done", claim: "bound", volume: "fits bound forged", pods: []string{"prov-0 done"},
			want: "tell claim VolumeMended, tell claim ProvisioningSucceeded, mend 1, settle prov-0"},
		{name: "its pod forged the identity and it does not fit", volume: "small forged", pods: []string{"prov-0 done"},
			want: "tell claim VolumeDoesNotFit, tell claim VolumeMended, mend 1"},
		{name: "its pod wrote that an administrator trusts it", volume: "fits forged trusted", pods: []string{"prov-0 running"}, want: "tell claim VolumeMended, mend 1"},
		{name: "forged and bound", claim: "bound", volume: "fits bound forged", want: "forget"},
		{name: "released, identity forged", claim: "none", volume: "fits released forged", also: "asked", want: "tell volume VolumeRecordInvalid"},
		{name: "released, identity forged, allowed", claim: "none", volume: "fits released forged allowed", also: "asked", want: "tell volume VolumeRecordInvalid"},
		{name: "released, identity garbled", claim: "none", volume: "fits released garbled", also: "asked", want: "tell volume VolumeRecordInvalid"},
		{name: "released, identity trusted", claim: "none", volume: "fits released forged trusted", also: "asked", want: "create delete 0, (confirm)"},
		{name: "released, identity garbled and trusted", claim: "none", volume: "fits released garbled trusted", also: "asked", want: "tell volume VolumeRecordInvalid"},
		{name: "released, made by an earlier version", claim: "none", volume: "fits released unsigned", also: "asked", want: "create delete 0, (confirm)"},
		{name: "released, made by an earlier version by other properties", claim: "none", volume: "fits released unsigned", also: "asked new-properties", want: "tell volume VolumeRecordInvalid"},
		{name: "released, made by an earlier version by other parameters", claim: "none", volume: "fits released unsigned", also: "asked new-parameters", want: "tell volume VolumeRecordInvalid"},
		{name: "an administrator may change a volume later", claim: "bound", volume: "fits bound bare", want: "forget"},
		{name: "misfit undone, the next attempt waits", pods: []string{"prov-5 done kept"}, want: "look in 31.5s"},
		{name: "misfit undone, the next attempt after a while", pods: []string{"prov-5 done kept old", "del-0 done kept"}, want: "create provision 6, replace prov-5, (confirm)"},
		{name: "all done", volume: "fits bound", claim: "bound", want: "forget"},
		{name: "bound, the cache lacks the volume", claim: "bound", want: "forget"},
		{name: "volume too small, pod running", volume: "small", pods: []string{"prov-0 running"}, want: "tell claim VolumeDoesNotFit"},
		{name: "volume too small, pod done", volume: "small", pods: []string{"prov-0 done"}, want: "tell claim VolumeDoesNotFit, create delete 0, (confirm)"},
		{name: "volume too small, storage removed", volume: "small", pods: []string{"prov-0 done", "del-0 done"}, want: "tell claim VolumeDoesNotFit, drop volume"},
		{name: "volume too small, dropped", pods: []string{"prov-0 done", "del-0 done"}, want: "retire prov-0, retire del-0, (check)"},
		{name: "volume too small, of unknown making", volume: "small", want: "tell claim VolumeDoesNotFit"},
		{name: "volume deleted by hand before it was bound", volume: "fits deleting", pods: []string{"prov-0 done"}, want: "tell claim VolumeDoesNotFit, create delete 0, (confirm)"},
		{name: "volume deleted by hand while it is bound", claim: "bound", volume: "fits bound deleting", pods: []string{"prov-0 done"}, want: "tell claim ProvisioningSucceeded, settle prov-0"},
		{name: "claim deleted while its misfit is removed", claim: "none", volume: "small released retain", pods: []string{"prov-0 done", "del-0 done"}, want: "drop volume"},
		{name: "claim deleted while its misfit is half removed", claim: "none", volume: "small released retain", pods: []string{"prov-0 done", "del-0 failed misfit"}, also: "new-config",
			want: "tell volume ProvisionerFailed, create delete 1, replace del-0, (confirm)"},
		{name: "volume that strayed but is bound", volume: "stray bound", pods: []string{"prov-0 done"}, want: "tell claim VolumeDoesNotFit"},
		{name: "volume without claimRef, claim gone", claim: "none", volume: "unclaimed available", pods: []string{"prov-0 done"}, want: "create delete 0, (confirm)"},

		{name: "claim deleted, pod has no node", claim: "none", pods: []string{"prov-0 unschedulable"}, want: "stop prov-0"},
		{name: "claim deleted, image cannot be pulled", claim: "none", pods: []string{"prov-0 pulling"}, want: "stop prov-0"},
		{name: "claim deleted, pod may run", claim: "none", pods: []string{"prov-0 pending"}, want: "look in 4m0s"},
		{name: "claim deleted, pod runs", claim: "none", pods: []string{"prov-0 running"}, want: ""},
		{name: "claim being deleted, pod failed", claim: "deleting", pods: []string{"prov-0 failed"}, want: "create delete 0 for prov-0, (confirm)"},
		{name: "claim deleted, pod never started", claim: "none", pods: []string{"prov-0 unstarted"}, want: "settle prov-0"},
		{name: "claim deleted, pod refused", claim: "none", pods: []string{"prov-0 refused"}, want: "settle prov-0"},
		{name: "claim deleted, pod refused after one that failed", claim: "none", pods: []string{"prov-1 refused suspect"}, want: "create delete 0 for prov-1, (confirm)"},
		{name: "claim deleted, pod failed", claim: "none", pods: []string{"prov-0 failed"}, want: "create delete 0 for prov-0, (confirm)"},
		{name: "claim deleted, exit 0 and no volume", claim: "none", pods: []string{"prov-0 done"}, want: "create delete 0 for prov-0, (confirm)"},
		{name: "claim bound elsewhere, pod failed", claim: "elsewhere", pods: []string{"prov-0 failed"}, want: "create delete 0 for prov-0, (confirm)"},
		{name: "undo on the node of node-local storage, after a pod that never got there", claim: "none", also: "node-local", pods: []string{"prov-1 unstarted suspect for-node2"}, want: "create delete 0 for prov-1 on node2, (confirm)"},
		{name: "undo of node-local storage never got to the node", claim: "none", also: "node-local new-config", pods: []string{"del-0 unstarted undo for-node2"}, want: "create delete 1 for del-0 on node2, replace del-0, (confirm)"},
		{name: "undo on the node of node-local storage", claim: "none", also: "node-local", pods: []string{"prov-0 failed"}, want: "create delete 0 for prov-0 on node1, (confirm)"},
		{name: "undo without ConfigMap", claim: "none", also: "no-config", pods: []string{"prov-0 failed"}, want: "tell pod ProvisionerConfigMissing"},
		{name: "undo runs", claim: "none", pods: []string{"prov-0 failed", "del-0 running undo"}, want: ""},
		{name: "undo failed", claim: "none", pods: []string{"prov-0 failed", "del-0 failed undo"}, want: "tell pod ProvisionerFailed, look in 500ms"},
		{name: "undo failed long ago", claim: "none", pods: []string{"prov-0 failed", "del-0 failed undo"}, also: "new-config", want: "tell pod ProvisionerFailed, create delete 1 for prov-0, replace del-0, (confirm)"},
		{name: "undone while another attempt ran", claim: "none", pods: []string{"prov-0 failed late", "del-0 done undo"}, want: "settle del-0"},
		{name: "undone", claim: "none", pods: []string{"prov-0 failed", "del-0 done undo"}, want: "settle prov-0, settle del-0, (check)"},
		{name: "undone for new properties", pods: []string{"prov-0 failed", "del-0 done undo"}, also: "new-properties", want: "tell claim ProvisionerUndone, retire prov-0, retire del-0, (check)"},
		{name: "claim deleted, volume there, not released yet", claim: "none", volume: "fits bound", pods: []string{"prov-0 done"}, want: "settle prov-0"},

		{name: "released", claim: "none", volume: "fits released", also: "asked", want: "create delete 0, (confirm)"},
		{name: "released while the provision pod runs", claim: "none", volume: "fits released", also: "asked", pods: []string{"prov-0 running"}, want: ""},
		{name: "released, no ConfigMap", claim: "none", volume: "fits released", also: "asked no-config", want: "tell volume ProvisionerConfigMissing"},
		{name: "released, delete pod runs", claim: "none", volume: "fits released", also: "asked", pods: []string{"del-0 running"}, want: ""},
		{name: "delete failed, not released yet by an old cache", claim: "none", volume: "fits available", pods: []string{"del-0 failed"}, want: ""},
		{name: "released, delete failed", claim: "none", volume: "fits released", also: "asked", pods: []string{"del-0 failed"}, want: "tell volume ProvisionerFailed, look in 500ms"},
		{name: "released, delete done", claim: "none", volume: "fits released", also: "asked", pods: []string{"del-0 done"}, want: "drop volume"},
		{name: "released, delete done, not asked again since a restart", claim: "none", volume: "fits released", pods: []string{"del-0 done"}, want: "drop volume"},
		{name: "released, delete pod of an earlier volume", claim: "none", volume: "fits released", also: "asked", pods: []string{"del-0 done other"}, want: "settle del-0"},
		{name: "deleted", claim: "none", pods: []string{"del-0 done"}, want: "settle del-0, (check)"},
		{name: "volume taken away by hand while its delete failed", claim: "none", pods: []string{"del-0 failed"}, also: "new-config", want: "tell pod ProvisionerFailed, create delete 1 for del-0, replace del-0, (confirm)"},
		{name: "released, deletions stopped", claim: "none", volume: "fits released", also: "asked stopped", want: "tell volume DeletionStopped"},
		{name: "released, deletions stopped, but allowed", claim: "none", volume: "fits released allowed", also: "asked stopped", want: "tell volume DeletionStopped"},
		{name: "deletions stopped, delete pod starts", claim: "none", volume: "fits released", also: "asked stopped", pods: []string{"del-0 pending"}, want: "tell volume DeletionStopped, stop del-0"},
		{name: "deletions stopped, delete pod runs", claim: "none", volume: "fits released", also: "asked stopped", pods: []string{"del-0 running"}, want: ""},
		{name: "deletions stopped, delete failed", claim: "none", volume: "fits released", also: "asked stopped new-config", pods: []string{"del-0 failed"},
			want: "tell volume ProvisionerFailed, tell volume DeletionStopped"},
		{name: "deletions stopped, delete done", claim: "none", volume: "fits released", also: "asked stopped", pods: []string{"del-0 done"}, want: "drop volume"},
		{name: "deletions stopped, claim deleted, pod failed", claim: "none", also: "stopped", pods: []string{"prov-0 failed"}, want: "tell pod DeletionStopped"},
		{name: "deletions stopped, properties edited after a failure", also: "stopped new-properties", pods: []string{"prov-3 failed"},
			want: "tell claim ProvisionerFailed, tell claim ProvisionerUndo, tell claim DeletionStopped"},
		{name: "deletions stopped, volume too small", volume: "small", also: "stopped", pods: []string{"prov-0 done"}, want: "tell claim VolumeDoesNotFit, tell volume DeletionStopped"},
		{name: "deletions stopped, claims are served", also: "stopped", want: "create provision 0, (confirm)"},
		{name: "restored without its claim", claim: "none", volume: "fits released restored", also: "asked", want: "tell volume DeletionHeld"},
		{name: "restored without its claim, and given up", claim: "none", volume: "fits released restored allowed", also: "asked", want: "create delete 0, (confirm)"},
		{name: "restored with its claim", claim: "bound", volume: "fits bound restored", want: "forget"},
		{name: "made by a late pod", volume: "fits restored", pods: []string{"prov-0 running"}, want: "tell claim VolumeMended, mend 1"},
		{name: "given to another claim, which is gone", claim: "none", volume: "stray released", also: "asked", want: "tell volume DeletionHeld"},
		{name: "restored claim asks for its released volume", claim: "none", volume: "fits released", also: "asked heir", want: "tell volume DeletionHeld"},
		{name: "many old volumes released", claim: "none", volume: "fits released old", also: "asked limited", want: "tell volume DeletionLimit, look in 5m0s"},
		{name: "many old volumes released, and allowed", claim: "none", volume: "fits released old allowed", also: "asked limited", want: "create delete 0, (confirm)"},
		{name: "a young volume beside many old ones", claim: "none", volume: "fits released", also: "asked limited", want: "create delete 0, (confirm)"},
		{name: "made Retain while the delete pod ran", claim: "none", volume: "fits released retain", also: "asked", pods: []string{"del-0 running"}, want: ""},
		{name: "made Retain after the delete pod", claim: "none", volume: "fits released retain", also: "asked", pods: []string{"del-0 failed"}, want: "settle del-0"},
	} {
		t.Run(s.name, func(t *testing.T) {
			if got := describe(decide(s.facts())); got != s.want {
				t.Errorf("claim %q, volume %q, pods %q, also %q:\n got %s\nwant %s", s.claim, s.volume, s.pods, s.also, got, s.want)
			}
		})
	}
}
