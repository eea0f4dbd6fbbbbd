package observed

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// TestStoppedBy: the switch's own words reach those who wait, cleaned.
func TestStoppedBy(t *testing.T) {
	for reason, want := range map[string]string{
		"":                     "ConfigMap ns/stop-deletes stops all deletions",
		"restoring\nlast week": "ConfigMap ns/stop-deletes stops all deletions: restoring last week",
	} {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: contract.StopDeletes}, Data: map[string]string{"reason": reason}}
		if got := StoppedBy(cm); got != want {
			t.Errorf("reason %q: %q, want %q", reason, got, want)
		}
	}
}

// A claim that the cache does not show is known by what its newest pod was asked for.
func TestClaimRef(t *testing.T) {
	pod := dispatchertest.Pod("prov-0 failed", dispatchertest.Noon, dispatchertest.Noon)
	pod.Annotations[contract.AnnRequest] = `{"claim":{"namespace":"team-a","name":"data","uid":"` + dispatchertest.UID + `"}}`
	other := pod.DeepCopy()
	other.Annotations[contract.AnnRequest] = `{"claim":{"namespace":"team-b","name":"data","uid":"another"}}`
	cached := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "data", UID: dispatchertest.UID}}
	for name, c := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		pod   *corev1.Pod
		want  string
	}{
		"in the cache":                {cached, other, "team-a/data"},
		"not in the cache":            {nil, pod, "team-a/data"},
		"a record of another claim's": {nil, other, ""},
		"no pods":                     {nil, nil, ""},
	} {
		s, got := &Claim{UID: dispatchertest.UID, Claim: c.claim}, ""
		if c.pod != nil {
			s.Add(NewAttempt(c.pod, ""))
		}

		if claim := s.ClaimRef(); claim != nil {
			got = claim.Namespace + "/" + claim.Name
			if claim.UID != dispatchertest.UID {
				t.Errorf("%s: it has the UID %s", name, claim.UID)
			}
		}

		if got != c.want {
			t.Errorf("%s: claim %q, want %q", name, got, c.want)
		}
	}
}

// What the kubelet says of a pod that does not start: its cause comes before its summary, and storage that cannot be mounted is not an object
// that is missing.
func TestPodProblem(t *testing.T) {
	const refused = `MountVolume.SetUp failed for volume "exports" : mount failed: exit status 32
Mounting command: mount
Mounting arguments: -t nfs -o vers=4 10.0.0.1:/srv /var/lib/kubelet/pods/x/volumes
Output: mount.nfs: Connection refused

`
	const summary = "Unable to attach or mount volumes: unmounted volumes=[exports], unattached volumes=[]: timed out waiting for the condition"
	for _, c := range []struct {
		events []string
		want   string
	}{
		{nil, " "},
		{[]string{"Pulled x"}, " "},
		{[]string{"FailedMount " + refused}, `ProvisionerMountFailed FailedMount: MountVolume.SetUp failed for volume "exports" : mount.nfs: Connection refused`},
		{[]string{"FailedMount " + refused, "FailedMount " + summary}, `ProvisionerMountFailed FailedMount: MountVolume.SetUp failed for volume "exports" : mount.nfs: Connection refused`},
		{[]string{"FailedMount " + summary}, "ProvisionerMountFailed FailedMount: " + summary},
		{[]string{"FailedMount " + refused, `FailedMount MountVolume.SetUp failed for volume "secret-0" : secret "pool" not found`},
			`ProvisionerPodConfigError FailedMount: MountVolume.SetUp failed for volume "secret-0" : secret "pool" not found`},
		{[]string{`FailedMount MountVolume.SetUp failed for volume "host-0" : hostPath type check failed: /srv is not a directory`},
			`ProvisionerMountFailed FailedMount: MountVolume.SetUp failed for volume "host-0" : hostPath type check failed: /srv is not a directory`},
		{[]string{"FailedCreatePodSandBox no network"}, "ProvisionerPodConfigError FailedCreatePodSandBox: no network"},
		{[]string{"FailedMount failed to sync secret cache: timed out"}, " "},
	} {
		var list []*corev1.Event
		for i, text := range c.events {
			reason, message, _ := strings.Cut(text, " ")
			list = append(list, &corev1.Event{Reason: reason, Message: message, LastTimestamp: metav1.NewTime(dispatchertest.Noon.Add(time.Duration(i) * time.Second))})
		}

		a := NewAttempt(dispatchertest.Pod("prov-0 pending", dispatchertest.Noon, dispatchertest.Noon), PodProblem(list))
		if got := string(a.Outcome.Reason) + " " + a.Outcome.Message; got != c.want {
			t.Errorf("%q: %s, want %s", c.events, got, c.want)
		}
	}
}
