package main

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/audit"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// An audit of a class asks on the nodes that the scheduler would give its pods, and on no other.
func TestNodesOfAClass(t *testing.T) {
	const key = "storage"
	taint := func(effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: key, Value: "provisioning", Effect: effect}
	}
	for _, c := range []struct {
		name        string
		node        corev1.NodeSpec
		tolerations []corev1.Toleration
		want        bool
	}{
		{"no taint", corev1.NodeSpec{}, nil, true},
		{"cordoned", corev1.NodeSpec{Unschedulable: true}, nil, false},
		{"not tolerated", corev1.NodeSpec{Taints: []corev1.Taint{taint(corev1.TaintEffectNoSchedule)}}, nil, false},
		{"only a preference", corev1.NodeSpec{Taints: []corev1.Taint{taint(corev1.TaintEffectPreferNoSchedule)}}, nil, true},
		{"the same value", corev1.NodeSpec{Taints: []corev1.Taint{taint(corev1.TaintEffectNoSchedule)}},
			[]corev1.Toleration{{Key: key, Value: "provisioning"}}, true},
		{"another value", corev1.NodeSpec{Taints: []corev1.Taint{taint(corev1.TaintEffectNoSchedule)}},
			[]corev1.Toleration{{Key: key, Value: "users"}}, false},
		{"any value", corev1.NodeSpec{Taints: []corev1.Taint{taint(corev1.TaintEffectNoExecute)}},
			[]corev1.Toleration{{Key: key, Operator: corev1.TolerationOpExists}}, true},
		{"any taint", corev1.NodeSpec{Taints: []corev1.Taint{taint(corev1.TaintEffectNoExecute)}},
			[]corev1.Toleration{{Operator: corev1.TolerationOpExists}}, true},
		{"any taint of another effect", corev1.NodeSpec{Taints: []corev1.Taint{taint(corev1.TaintEffectNoSchedule)}},
			[]corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}, false},
		{"one of two taints", corev1.NodeSpec{Taints: []corev1.Taint{taint(corev1.TaintEffectNoSchedule), {Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}},
			[]corev1.Toleration{{Key: key, Operator: corev1.TolerationOpExists}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: c.node})
			nodes, err := auditor{client: client}.nodes(t.Context(), &configmaps.Config{Tolerations: c.tolerations})
			if err != nil {
				t.Fatal(err)
			}
			if got := len(nodes) == 1; got != c.want {
				t.Errorf("nodes %v; node-1 among them: %v, want %v", nodes, got, c.want)
			}
		})
	}
}

// The classes of one ConfigMap are asked for together where their provisioner is told the same, and apart where not.
func TestAsked(t *testing.T) {
	class := func(name, provisioner string, parameters ...string) storagev1.StorageClass {
		c := storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, Parameters: map[string]string{}}
		for i := 0; i < len(parameters); i += 2 {
			c.Parameters[parameters[i]] = parameters[i+1]
		}
		return c
	}
	const from = contract.ParameterConfigFromClass
	for name, c := range map[string]struct {
		classes []storagev1.StorageClass
		want    string
	}{
		"none":                   {nil, "[silver] map[]"},
		"its own":                {[]storagev1.StorageClass{class("gold", "p"), class("silver", "p", "pool", "a")}, "[silver] map[pool:a]"},
		"copies":                 {[]storagev1.StorageClass{class("copy", "p", from, "silver"), class("silver", "p"), class("silver-wait", "p", from, "silver")}, "[copy silver silver-wait] map[]"},
		"with other parameters":  {[]storagev1.StorageClass{class("copy", "p", from, "silver", "pool", "b"), class("silver", "p", "pool", "a")}, "[copy] map[pool:b]; [silver] map[pool:a]"},
		"of another provisioner": {[]storagev1.StorageClass{class("copy", "q", from, "silver"), class("silver", "p")}, "[silver] map[]"},
		"wrong":                  {[]storagev1.StorageClass{class("silver", "p", from, "*")}, "[silver] map[]"},
	} {
		var got []string
		for _, l := range listingsOf(&configmaps.Config{StorageClass: "silver"}, pointers(c.classes), "p") {
			got = append(got, fmt.Sprint(l.Classes, " ", l.Parameters))
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s: asked for %s, want %s", name, text, c.want)
		}
	}
}

// listedBy runs a pod that lists and ends like this.
func listedBy(t *testing.T, end corev1.ContainerStateTerminated) (log string, err error) {
	t.Helper()
	client := fake.NewClientset() // every log of it is "fake logs"
	client.PrependReactor("get", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() == "log" {
			return false, nil, nil
		}
		failed := corev1.ContainerState{Terminated: &end}
		return true, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "list"}, Spec: corev1.PodSpec{NodeName: "node1"},
			Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{Name: podspec.ContainerName, State: failed}}}}, nil
	})
	config := &configmaps.Config{StorageClass: "silver", Image: "x", StartTimeout: time.Second, Timeout: time.Second}
	return auditor{client: client}.runListPod(t.Context(), config, nil, "")
}

// TestListingFails: of a pod that left no message, the error has what it printed last, since its log goes with it.
func TestListingFails(t *testing.T) {
	_, err := listedBy(t, corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"})
	const want = "that lists: the container exited with code 1 and left no message; its log ends with: fake logs"
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want ... %s", err, want)
	}
}

// TestListingOfAPart: what a node lists counts, although a disk of it may be away.
func TestListingOfAPart(t *testing.T) {
	log, err := listedBy(t, corev1.ContainerStateTerminated{ExitCode: contract.ExitNotHere, Reason: "Error", Message: "no /mnt/a"})
	if !errors.Is(err, errNotHere) || log != "fake logs" {
		t.Errorf("listed %q, %v", log, err)
	}
}

// TestListings: a class whose pod cannot start is given up, with the kubelet's cause, while the storage of another one is looked at.
func TestListings(t *testing.T) {
	class := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"storage-class": name, "type": "provisioner-config"}},
			Data:       map[string]string{"plugin-name": "p", "image": "x", "service-account-name": name, "listable": "true"},
		}
	}
	client := fake.NewClientset(class("away"), class("silver"))
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		pod := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
		pod.Name, pod.UID = "list-"+pod.Annotations[contract.AnnClass], types.UID(pod.Annotations[contract.AnnClass])
		pod.Status.Phase = corev1.PodPending
		if pod.UID == "silver" {
			pod.Status.Phase = corev1.PodSucceeded
		}
		return false, nil, nil
	})
	for i, message := range []string{
		"MountVolume.SetUp failed for volume \"exports\" : mount failed: exit status 32\nMounting command: mount\nMounting arguments: -t nfs\nOutput: mount.nfs: Connection refused",
		"Unable to attach or mount volumes: unmounted volumes=[exports]: timed out waiting for the condition",
	} {
		e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("e", i)}, Reason: "FailedMount", Message: message,
			InvolvedObject: corev1.ObjectReference{UID: "away"}, LastTimestamp: metav1.NewTime(noon.Add(time.Duration(i) * time.Minute))}
		if err := client.Tracker().Add(e); err != nil {
			t.Fatal(err)
		}
	}

	var notes bytes.Buffer
	a := auditor{client: client, namespace: "ns", provisioner: "p", patience: time.Millisecond, notes: log.New(&notes, "", 0)}
	listings, unseen := a.listings(t.Context())
	if len(listings) != 1 || listings[0].Classes[0] != "silver" {
		t.Errorf("listings are %+v", listings)
	}
	const cause = `FailedMount: MountVolume.SetUp failed for volume "exports" : mount.nfs: Connection refused`
	if want := "class away: wait for pod list-away: it does not start: " + cause; len(unseen) != 1 || unseen[0].Error() != want {
		t.Errorf("unseen are %v, want %s", unseen, want)
	}
	for _, want := range []string{"class away: pod list-away is starting, for 0s: " + cause + "\n", "class silver: its storage was looked at, in 0s: 0 volumes\n"} {
		if !strings.Contains(notes.String(), want) {
			t.Errorf("the notes lack %s:\n%s", want, notes.String())
		}
	}
}

// A finding is two lines, and a note one, whatever they are made of.
func TestAuditPrints(t *testing.T) {
	const hostile = "a\nb\x1b[2J\u202e\xff\r"
	var out, notes bytes.Buffer
	showFinding(&out, audit.Finding{Kind: audit.Storage, Name: hostile, Why: hostile, Command: hostile})
	auditor{notes: log.New(&notes, "", 0)}.note("class %s: %v", hostile, errors.New(hostile))
	for text, lines := range map[string]int{out.String(): 2, notes.String(): 1} {
		odd := strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) })
		if odd || !utf8.ValidString(text) || strings.Count(text, "\n") != lines {
			t.Errorf("%q: want %d printable lines", text, lines)
		}
	}
}
