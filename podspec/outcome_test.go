package podspec

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// A case is testdata/outcome/<case>.yaml: a pod as the kubelet or others leave it, and what is to be made of it.
func TestOutcomeOf(t *testing.T) {
	files, err := filepath.Glob("testdata/outcome/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases in testdata/outcome: %v", err)
	}

	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			var c struct {
				Pod     corev1.Pod
				Outcome Outcome
			}
			read(t, file, &c)
			if got, want := text(t, OutcomeOf(&c.Pod)), text(t, c.Outcome); got != want {
				t.Errorf("%s:\ngot:\n%swant:\n%s", file, got, want)
			}
		})
	}
}

func text(t *testing.T, object any) string {
	t.Helper()
	data, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}

	return string(data)
}

func TestNames(t *testing.T) {
	const uid = "8b6e7a3e-0d9f-4a53-9d0a-6d1f5b7f2c11"
	for _, op := range []contract.Operation{contract.Provision, contract.Delete, contract.Expand} {
		for _, number := range []int{0, 7, MaxAttempt} {
			name := Name(op, uid, number)
			gotOp, gotUID, gotNumber, ok := ParseName(name)
			if !ok || gotOp != op || gotUID != uid || gotNumber != number {
				t.Errorf("ParseName(%q) = %q, %q, %d, %t", name, gotOp, gotUID, gotNumber, ok)
			}

			if len(name) > 46 {
				t.Errorf("%q has %d bytes, want at most 46: it is a host name too", name, len(name))
			}
		}
	}

	for _, name := range []string{"", "prov-" + uid, "prov-" + uid + "-", "prov-" + uid + "-10000", "prov-" + strings.ToUpper(uid) + "-1", "x-" + uid + "-1", "prov-" + uid + "-1-2"} {
		if _, _, _, ok := ParseName(name); ok {
			t.Errorf("ParseName(%q) takes what Name never makes", name)
		}
	}
}

func TestUnclear(t *testing.T) {
	for _, c := range []struct {
		outcome Outcome
		want    bool
	}{
		{Outcome{Phase: Running, MayHaveRun: true, ExitCode: -1}, false},
		{Outcome{Phase: Succeeded, MayHaveRun: true}, false},
		{Outcome{Phase: Failed, MayHaveRun: true, ExitCode: 1, Reason: ReasonFailed}, false},
		{Outcome{Phase: Failed, MayHaveRun: true, ExitCode: contract.ExitRefused, Reason: ReasonRefused}, false},
		{Outcome{Phase: Failed, MayHaveRun: true, ExitCode: contract.ExitTryAgain, Reason: ReasonTryAgain}, true},
		{Outcome{Phase: Failed, MayHaveRun: true, ExitCode: 137, Reason: ReasonFailed}, true},
		{Outcome{Phase: Failed, MayHaveRun: true, ExitCode: 129, Reason: ReasonFailed}, true},
		{Outcome{Phase: Failed, MayHaveRun: true, ExitCode: 128, Reason: ReasonFailed}, false},
		{Outcome{Phase: Failed, MayHaveRun: true, ExitCode: 0, Reason: ReasonFailed}, false},
		{Outcome{Phase: Failed, MayHaveRun: true, ExitCode: 143, Reason: ReasonDeadline}, true},
		{Outcome{Phase: Failed, MayHaveRun: true, ExitCode: -1, Reason: ReasonEvicted}, true},
		{Outcome{Phase: Failed, MayHaveRun: true, ExitCode: -1, Reason: ReasonFailed}, true}, // its node does not know how it ended
		{Outcome{Phase: Failed, MayHaveRun: false, ExitCode: -1, Reason: ReasonEvicted}, false},
		{Outcome{Phase: Failed, MayHaveRun: true, ExitCode: 137, Reason: ReasonOutOfMemory}, true},
	} {
		if got := c.outcome.Unclear(); got != c.want {
			t.Errorf("%+v is unclear: %t, want %t", c.outcome, got, c.want)
		}
	}
}

// TestLogContainer: whose log says more than the outcome does.
func TestLogContainer(t *testing.T) {
	for name, want := range map[string]struct {
		container string
		explains  bool
	}{
		"no-message":           {ContainerName, true},
		"out-of-memory":        {ContainerName, true},
		"deadline":             {ContainerName, true},
		"own-message":          {ContainerName, false},
		"image-missing":        {ContainerName, true}, // nobody asks before it has ended
		"init-without-message": {"flexctl", true},
		"init-out-of-memory":   {"flexctl", true},
		"init-failed":          {"flexctl", false},
		"deleted-without-node": {ContainerName, false},
	} {
		var c struct {
			Pod     corev1.Pod
			Outcome Outcome
		}
		read(t, "testdata/outcome/"+name+".yaml", &c)
		if container, explains := LogContainer(&c.Pod, OutcomeOf(&c.Pod)); container != want.container || explains != want.explains {
			t.Errorf("%s: %s, %t, want %v", name, container, explains, want)
		}
	}
}

// TestHandled: a pod is a record for as long as it has the finalizer, unless it says that it was acted on.
func TestHandled(t *testing.T) {
	for _, c := range []struct {
		finalizers []string
		settled    string
		want       bool
	}{
		{[]string{contract.PodFinalizer}, "", false},
		{[]string{contract.PodFinalizer}, "true", true},
		{[]string{"theirs"}, "", true},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Finalizers: c.finalizers, Annotations: map[string]string{contract.AnnSettled: c.settled}}}
		if got := Handled(pod); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

// TestSignals: a code above 128 is told as what ended the container.
func TestSignals(t *testing.T) {
	for signal, name := range map[int32]string{6: "SIGABRT", 9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE", 15: "SIGTERM"} {
		if got, want := exitMeaning(&corev1.ContainerStateTerminated{ExitCode: 128 + signal}), " (it was ended by signal "+name+")"; got != want {
			t.Errorf("%d: %q, want %q", signal, got, want)
		}
	}
}
