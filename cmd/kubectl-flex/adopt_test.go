package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/golden"
)

// foreign is a bound volume of rancher.io/local-path and the class local-path, which the class silver may take.
func foreign(w *world) *corev1.PersistentVolume {
	v := w.bound()
	other := "local-path"
	w.claim.Spec.StorageClassName = &other
	w.config.Data["expandable"] = "true"
	v.Annotations = map[string]string{contract.ProvisionedBy: "rancher.io/local-path", "example.com/note": "x"}
	v.Finalizers = []string{"kubernetes.io/pv-protection"}
	v.ResourceVersion = "7"
	v.Spec.StorageClassName = other
	v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "10.0.0.1", Path: "/srv/team-a-data-" + v.Name}}
	return v
}

// serve makes the client, whose pods of adoption end at once with the code, and whose dry runs change nothing.
func (w *world) serve(code int32) {
	w.client = fake.NewClientset(w.objects()...)
	w.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		pod := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
		ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error", Message: "no such directory"}}
		phase := corev1.PodFailed
		if code == 0 {
			phase, ended.Terminated.Message = corev1.PodSucceeded, ""
		}
		pod.UID, pod.Spec.NodeName = "pod", "node-1"
		pod.Status = corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{Name: "provisioner", State: ended}}}
		return false, nil, nil
	})
	w.client.PrependReactor("patch", "persistentvolumes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if len(action.(clienttesting.PatchActionImpl).PatchOptions.DryRun) > 0 {
			return true, &corev1.PersistentVolume{}, nil
		}
		return false, nil, nil
	})
}

func (w *world) volumeNow() *corev1.PersistentVolume {
	w.t.Helper()
	v, err := w.client.CoreV1().PersistentVolumes().Get(w.t.Context(), "pvc-"+uid, metav1.GetOptions{})
	w.must(err)
	return v
}

func (w *world) podsNow() []string {
	w.t.Helper()
	list, err := w.client.CoreV1().Pods("").List(w.t.Context(), metav1.ListOptions{})
	w.must(err)
	var names []string
	for _, pod := range list.Items {
		names = append(names, pod.Name)
	}
	return names
}

// TestAdopt: what it says of volumes, and what becomes of them.
func TestAdopt(t *testing.T) {
	name := "pvc-" + uid
	for test, c := range map[string]struct {
		scene func(*world, *corev1.PersistentVolume)
		args  []string
		image int32
		code  int
	}{
		"dry":         {args: []string{name, "--class", "silver"}},
		"yes":         {args: []string{name, "--class", "silver", "--yes"}},
		"all":         {args: []string{"--all", "--from", "local-path", "--class", "silver", "--yes"}},
		"all-of-none": {args: []string{"--all", "--from", "silver", "--class", "silver"}},
		"all-of-typo": {args: []string{"--all", "--from", "silvr", "--class", "silver"}, code: 5},
		"to-typo":     {args: []string{name, "--class", "sivler"}, code: 5},
		"not-found":   {args: []string{name, "--class", "silver", "--yes"}, image: 75, code: 4},
		"no-volume":   {args: []string{"pvc-1", "--class", "silver"}, code: 4},
		"ours": {scene: func(_ *world, v *corev1.PersistentVolume) {
			v.Annotations[contract.ProvisionedBy] = contract.ProvisionerName
		}, args: []string{name}, code: 4},
		"no-class":      {args: []string{name}, code: 4},
		"class-foreign": {scene: func(w *world, _ *corev1.PersistentVolume) { w.class.Provisioner = "other" }, args: []string{name, "--class", "silver"}, code: 4},
		"no-config":     {scene: func(w *world, _ *corev1.PersistentVolume) { w.config = nil }, args: []string{name, "--class", "silver"}, code: 4},
		"not-expandable": {scene: func(w *world, _ *corev1.PersistentVolume) { delete(w.config.Data, "expandable") },
			args: []string{name, "--class", "silver"}, code: 4},
		"named-by-hand": {scene: func(w *world, v *corev1.PersistentVolume) { v.Name = "home"; w.claim.Spec.VolumeName = "home" }, args: []string{"home", "--class", "silver"}, code: 4},
		"released":      {scene: func(_ *world, v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeReleased }, args: []string{name, "--class", "silver"}, code: 4},
		"lost-record": {scene: func(w *world, v *corev1.PersistentVolume) {
			v.Annotations, v.Spec.ClaimRef.UID, w.claim.UID = nil, another, another
		}, args: []string{name, "--class", "silver", "--yes"}},
		"claim-gone": {scene: func(w *world, _ *corev1.PersistentVolume) { w.claim.UID = "other" }, args: []string{name, "--class", "silver"}, code: 4},
		"elsewhere":  {scene: func(_ *world, v *corev1.PersistentVolume) { v.Spec.NFS.Path = "/etc" }, args: []string{name, "--class", "silver"}, code: 4},
		"above":      {scene: func(_ *world, v *corev1.PersistentVolume) { v.Spec.NFS.Path = "/srv/../etc" }, args: []string{name, "--class", "silver"}, code: 4},
		"not-granted": {scene: func(_ *world, v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{TargetPortal: "10.0.0.1:3260", IQN: "iqn.2000-01.x",
				SecretRef: &corev1.SecretReference{Namespace: "kube-system", Name: "chap"}}}
			v.Spec.MountOptions = []string{"dev"}
		}, args: []string{name, "--class", "silver"}, code: 4},
		"no-node": {scene: func(_ *world, v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/opt/x"}}
		}, args: []string{name, "--class", "silver"}, code: 4},
		"root":    {scene: func(_ *world, v *corev1.PersistentVolume) { v.Spec.NFS.Path = "/srv/" }, args: []string{name, "--class", "silver"}, code: 4},
		"dot":     {scene: func(_ *world, v *corev1.PersistentVolume) { v.Spec.NFS.Path = "/srv/./x" }, args: []string{name, "--class", "silver"}, code: 4},
		"escapes": {scene: func(_ *world, v *corev1.PersistentVolume) { v.Spec.NFS.Path = "/srv/x\x1b]0;x\a\n" }, args: []string{name, "--class", "silver"}, code: 4},
		"escapes-of-options": {scene: func(_ *world, v *corev1.PersistentVolume) { v.Spec.MountOptions = []string{"\x1b[2J"} },
			args: []string{name, "--class", "silver"}, code: 4},
		"another-contains": {scene: func(w *world, v *corev1.PersistentVolume) {
			other := v.DeepCopy()
			other.Name, other.Spec.NFS.Path = "victim", v.Spec.NFS.Path+"/x/."
			w.more = append(w.more, other)
		}, args: []string{name, "--class", "silver", "--yes"}, code: 4},
		"another-dispatcher": {scene: func(_ *world, v *corev1.PersistentVolume) {
			v.Annotations[contract.AnnRecord] = "0a"
			v.Annotations[corev1.BetaStorageClassAnnotation] = "old"
		}, args: []string{name, "--class", "silver"}, code: 4},
		"csi": {scene: func(_ *world, v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "x", VolumeHandle: "y"}}
		}, args: []string{name, "--class", "silver"}, code: 4},
		"tenant":        {scene: func(w *world, _ *corev1.PersistentVolume) { w.forbid("pods") }, args: []string{name, "--class", "silver"}, code: 1},
		"nothing":       {code: 2},
		"both":          {args: []string{name, "--all", "--from", "x"}, code: 2},
		"from-alone":    {args: []string{name, "--from", "x"}, code: 2},
		"undo-never":    {args: []string{name, "--undo"}, code: 4},
		"undo-of-class": {args: []string{name, "--undo", "--class", "silver"}, code: 2},
		"undo-forged": {scene: func(_ *world, v *corev1.PersistentVolume) { v.Annotations[contract.AnnAdoptedFrom] = "[" },
			args: []string{name, "--undo"}, code: 4},
		"undo-expanding": {scene: func(w *world, v *corev1.PersistentVolume) {
			v.Annotations[contract.AnnAdoptedFrom] = "{}"
			w.pod("exp-0 running", 20)
		}, args: []string{name, "--undo", "--yes"}, code: 4},
		"undo-too-late": {scene: func(_ *world, v *corev1.PersistentVolume) {
			v.Annotations[contract.AnnAdoptedFrom] = "{}"
			v.Status.Phase = corev1.VolumeReleased
		}, args: []string{name, "--undo", "--yes"}, code: 4},
	} {
		t.Run(test, func(t *testing.T) {
			w := newWorld(t)
			v := foreign(w)
			if c.scene != nil {
				c.scene(w, v)
			}
			before := v.DeepCopy()
			w.serve(c.image)
			for _, resource := range w.forbids {
				w.client.PrependReactor("*", resource, func(action clienttesting.Action) (bool, runtime.Object, error) { return true, nil, notAllowed(action) })
			}
			output, code := w.run("", append([]string{"adopt"}, c.args...)...)
			if code != c.code {
				t.Errorf("exit code %d, want %d; printed:\n%s", code, c.code, output)
			}
			golden.Compare(t, "testdata/adopt.txtar", test, output)
			if w.forbids != nil {
				return
			}
			if pods := w.podsNow(); len(pods) > 0 && test != "undo-expanding" {
				t.Errorf("pods %v are left", pods)
			}
			now, err := w.client.CoreV1().PersistentVolumes().Get(t.Context(), before.Name, metav1.GetOptions{})
			w.must(err)
			if adopted := slices.Contains([]string{"yes", "all", "lost-record"}, test); adopted == same(t, now, before) {
				t.Errorf("adopted: want %t, the volume is %+v", adopted, now)
			}
		})
	}
}

// same compares what the API server would send.
func same(t *testing.T, a, b *corev1.PersistentVolume) bool {
	t.Helper()
	one, err := json.Marshal(a)
	other, err2 := json.Marshal(b)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return string(one) == string(other)
}

// whose says whether a volume is as it was, or wholly adopted. All else is an error.
func whose(t *testing.T, before, now *corev1.PersistentVolume) string {
	t.Helper()
	if same(t, now, before) {
		return "theirs"
	}
	want := before.DeepCopy()
	maps.Copy(want.Annotations, map[string]string{contract.ProvisionedBy: contract.ProvisionerName, contract.AnnIdentity: `{"properties":{"zone":"west"}}`,
		contract.AnnRecord: "trusted", contract.AnnMadeBefore: "2026-11-21T13:00:00Z", contract.AnnAdoptedFrom: `{"provisioner":"rancher.io/local-path","storageClass":"local-path"}`})
	want.Finalizers = append(want.Finalizers, contract.VolumeFinalizer)
	want.Spec.StorageClassName = "silver"
	if !same(t, now, want) {
		t.Fatalf("the volume is neither as it was nor adopted: %+v\nwant %+v", now, want)
	}
	return "ours"
}

// TestAdoptKilled: at each write the command ends, before the API server did it or after. The volume is theirs or ours and nothing in
// between, and another run does the rest. Then it is given back, with the same faults, and is as it was.
func TestAdoptKilled(t *testing.T) {
	name := "pvc-" + uid
	states := map[string]int{}
	for _, undo := range []bool{false, true} {
		for at := 1; ; at++ {
			reached := false
			for _, after := range []bool{false, true} {
				w := newWorld(t)
				before := foreign(w).DeepCopy()
				w.serve(0)
				args := []string{"adopt", name, "--class", "silver", "--yes"}
				if undo {
					if output, code := w.run("", args...); code != 0 {
						t.Fatal(output)
					}
					args = []string{"adopt", name, "--undo", "--yes"}
				}
				writes, dead := 0, false
				w.client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
					if dead { // a process that was killed sends nothing more
						return true, nil, errors.New("killed")
					}
					verb := action.GetVerb()
					if verb != "create" && verb != "delete" && verb != "patch" {
						return false, nil, nil
					}
					if writes++; writes != at {
						return false, nil, nil
					}
					dead, reached = true, true
					if after {
						w.carryOut(action)
					}
					return true, nil, errors.New("killed")
				})
				_, _ = w.run("", args...)
				dead = false
				w.client.ReactionChain = w.client.ReactionChain[1:]
				state := whose(t, before, w.volumeNow())
				states[fmt.Sprint(undo, " ", state)]++
				output, code := w.run("", args...)
				again := code != 0 && (strings.Contains(output, "of this dispatcher already") || strings.Contains(output, "was not adopted"))
				if code != 0 && !again {
					t.Fatalf("undo %t, write %d, after %t: another run ends with %d: %s", undo, at, after, code, output)
				}
				want := "ours"
				if undo {
					want = "theirs"
				}
				if got := whose(t, before, w.volumeNow()); got != want || len(w.podsNow()) > 0 {
					t.Fatalf("undo %t, write %d, after %t: in the end the volume is %s, pods %v", undo, at, after, got, w.podsNow())
				}
			}
			if !reached {
				break
			}
		}
	}
	t.Log(states)
	for _, state := range []string{"false theirs", "false ours", "true theirs", "true ours"} {
		if states[state] == 0 {
			t.Errorf("no fault left the state %s: %v", state, states)
		}
	}
}

// carryOut does what the API server did before the command could hear of it.
func (w *world) carryOut(action clienttesting.Action) {
	w.t.Helper()
	for _, reactor := range w.client.ReactionChain[1:] {
		if reactor.Handles(action) {
			if handled, _, _ := reactor.React(action); handled {
				return
			}
		}
	}
}

// TestAdoptedIsOurs: the dispatcher's own decision about an adopted volume. Its class is not its claim's.
func TestAdoptedIsOurs(t *testing.T) {
	w := newWorld(t)
	foreign(w)
	w.more = append(w.more, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local-path"}, Provisioner: "rancher.io/local-path"})
	w.serve(0)
	if output, code := w.run("", "adopt", "pvc-"+uid, "--class", "silver", "--yes"); code != 0 {
		t.Fatal(output)
	}
	output, code := w.run("", "why", "data")
	if code != 0 {
		t.Errorf("exit code %d: %s", code, output)
	}
	golden.Compare(t, "testdata/adopt.txtar", "why", output)
}

// TestAdoptBesideAnother: where somebody else adopts the same volume meanwhile, that one's pod stays.
func TestAdoptBesideAnother(t *testing.T) {
	w := newWorld(t)
	v := foreign(w)
	w.serve(0)
	w.client.PrependReactor("get", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: action.(clienttesting.GetAction).GetName(), UID: "another"}}, nil
	})

	output, code := w.run("", "adopt", v.Name, "--class", "silver", "--yes")
	if code != exitTrouble || !strings.Contains(output, "another pod of the name is there: somebody else does the same") {
		t.Errorf("exit code %d: %s", code, output)
	}

	actions := w.client.Actions()
	last, deletes := actions[len(actions)-1].(clienttesting.DeleteActionImpl)
	if !deletes || last.DeleteOptions.Preconditions == nil || *last.DeleteOptions.Preconditions.UID != "pod" {
		t.Errorf("the last request is %+v, want the deletion of the pod that was created alone", last)
	}
}
