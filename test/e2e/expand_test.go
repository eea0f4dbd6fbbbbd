//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// noteSizes leaves a line for each run: the size before and the size that is asked for, in MiB.
const noteSizes = "echo $((FLEX_CURRENT_SIZE_BYTES >> 20)) $((FLEX_SIZE_BYTES >> 20)) >> \"$home/sizes\"\n"

// growing is a class whose claims may be expanded, by this script after the prologue.
func growing(expand string) setting {
	yes := true
	want := setting{terms: storagev1.StorageClass{AllowVolumeExpansion: &yes}, data: map[string]string{}}
	if expand != "" {
		want.data["expand"] = prologue + expand
	}
	return want
}

// Two requests in a row, the second one while the pod of the first runs.
func TestExpand(t *testing.T) {
	t.Parallel()
	s := begin(t)
	c := s.class("grows", growing(noteSizes+"[ $FLEX_SIZE_BYTES -lt 200000000 ] || "+strings.TrimSuffix(gate, "\n")+"\n"))
	data := c.claim("data")
	data.bound(soon)
	data.ask("128Mi")
	data.has("128Mi")
	data.told(soon, "ExpansionSucceeded", "pod "+podspec.Name(contract.Expand, string(data.UID), 0)+" expanded volume {volume} to 128Mi")
	// What kube-controller-manager says of it, and all that it does.
	data.told(soon, "ExternalExpanding", "waiting for an external controller to expand this PVC")
	data.ask("256Mi")
	s.wait(soon, "pod for 256Mi", func() string { return s.lines(c, "sizes", "64 128", "128 256") })
	data.ask("512Mi")
	c.open(contract.Expand, data.volumeName())
	data.has("512Mi")
	if lack := s.lines(c, "sizes", "64 128", "128 256", "256 512"); lack != "" {
		t.Error(lack)
	}
	env := c.env(contract.Expand, data.volumeName())
	for name, want := range map[string]string{"FLEX_OPERATION": "expand", "FLEX_SIZE_BYTES": "536870912", "FLEX_CURRENT_SIZE_BYTES": "268435456", "FOLDER": c.id} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
	data.consume(shared.admin)
	data.delete()
	data.gone(patient)
}

// A failure is on the claim. It can be tried with less, or again once it is mended.
func TestExpandFails(t *testing.T) {
	t.Parallel()
	s := begin(t)
	c := s.class("full", growing(noteSizes+"[ $FLEX_SIZE_BYTES -le 134217728 ] || flexctl fail \"no room for more than 128Mi\"\n"))
	data := c.claim("data")
	data.bound(soon)
	data.ask("1Gi")
	data.told(soon, "ProvisionerFailed", "no room for more than 128Mi (pod flex-provisioners/exp-*)")
	data.marked(corev1.PersistentVolumeClaimControllerResizeInProgress, "64Mi", "Resizing: ", "ControllerResizeError: no room for more than 128Mi (pod *)")
	data.ask("100Mi")
	data.has("100Mi")
	data.ask("1Gi")
	data.marked(corev1.PersistentVolumeClaimControllerResizeInProgress, "100Mi", "Resizing: ", "ControllerResizeError: no room for more than 128Mi (pod *)")
	c.edit(map[string]string{"expand": prologue + "true\n"})
	data.has("1Gi")
}

// A pod that has the device sees it grow.
func TestExpandBlock(t *testing.T) {
	t.Parallel()
	s := begin(t)
	want := growing("truncate -s \"$FLEX_SIZE_BYTES\" \"$home/disk\"\n" + gate)
	want.provision = "echo \"local: {path: $DISK}\" | flexctl create-pv --node-affinity self\n"
	want.remove = "true\n"
	want.data["volume-modes"], want.data["disk"] = "Block", "/dev/null" // made when its class has a directory
	c := s.class("block", want)
	disk := s.loopDevice(c.dir() + "/disk")
	c.edit(map[string]string{"disk": disk})
	c.grant(map[string]string{"volumeTypes": "local", "pathPrefixes": "/dev"})
	data := c.claim("data", rawDevice)
	data.bound(soon)
	pod := data.consumerOf(shared.admin, "size() { wc -c < /dev/data; }; size; until [ $(size) = 134217728 ]; do sleep 0.2; done; size", withDevice)
	s.podRuns(pod)
	data.ask("128Mi")
	s.wait(soon, "the storage has grown", func() string {
		if info, err := os.Stat(c.dir() + "/disk"); err != nil || info.Size() != 128<<20 {
			return fmt.Sprint(info, err)
		}
		return ""
	})
	_, err := command(t.Context(), "losetup", "-c", disk) // what an array and its host do
	s.ok(err)
	c.open(contract.Expand, data.volumeName())
	data.has("128Mi")
	s.finished(pod, "67108864\n134217728\n")
}

// The storage of a claim that goes meanwhile is removed, but not beside the pod that expands it.
func TestExpandDeleted(t *testing.T) {
	t.Parallel()
	s := begin(t)
	c := s.class("deleted", growing(gate))
	data := c.claim("data")
	data.bound(soon)
	data.ask("128Mi")
	s.wait(soon, "pod runs", func() string {
		if runs := c.runs(); len(runs) < 2 {
			return fmt.Sprint(runs)
		}
		return ""
	})
	data.delete()
	s.wait(soon, "volume released", func() string {
		if v := data.volume(); v == nil || v.Status.Phase != corev1.VolumeReleased {
			return fmt.Sprint(v)
		}
		return ""
	})
	if pods := shared.ran(contract.Delete, data.UID); len(pods) > 0 {
		t.Errorf("pod %s runs beside the one that expands", pods[0].Name)
	}
	c.open(contract.Expand, data.volumeName())
	data.gone(patient)
	if runs := c.runs(); len(runs) != 3 || !strings.HasPrefix(runs[2], "delete ") {
		t.Errorf("runs: %q", runs)
	}
}

// ask changes what the claim asks for.
func (c *claim) ask(size string) {
	c.s.Helper()
	patch := fmt.Sprintf(`{"spec":{"resources":{"requests":{"storage":%q}}}}`, size)
	c.s.wait(soon, "expansion admitted", func() string {
		_, err := shared.admin.CoreV1().PersistentVolumeClaims(c.Namespace).Patch(c.s.Context(), c.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if apierrors.IsForbidden(err) {
			return err.Error() // the API server has not seen yet that the class allows it
		}
		c.s.ok(err)
		return ""
	})
}

// has waits until claim and volume have the size, and nothing tells of an expansion any more.
func (c *claim) has(size string) {
	c.s.Helper()
	c.s.wait(patient, "expanded to "+size, func() string { return c.lacks("", size, size) })
}

// marked waits until the claim's status says so, with conditions "Type: message", and the volume has the size.
func (c *claim) marked(status corev1.ClaimResourceStatus, volume string, conditions ...string) {
	c.s.Helper()
	c.s.wait(soon, "marked "+string(status), func() string { return c.lacks(status, "", volume, conditions...) })
}

func (c *claim) lacks(status corev1.ClaimResourceStatus, capacity, volume string, conditions ...string) string {
	claim, v := c.now(), c.volume()
	if claim == nil || v == nil {
		return "claim or volume is not there"
	}
	now := claim.Status
	var said []string
	for _, condition := range now.Conditions {
		// Others are somebody else's: Kubernetes 1.37 has "Unused".
		if strings.Contains(string(condition.Type), "Resiz") {
			said = append(said, string(condition.Type)+": "+condition.Message)
		}
	}
	made, has := v.Spec.Capacity[corev1.ResourceStorage], now.Capacity[corev1.ResourceStorage]
	if now.AllocatedResourceStatuses[corev1.ResourceStorage] == status && made.Cmp(resource.MustParse(volume)) == 0 &&
		(capacity == "" || has.Cmp(resource.MustParse(capacity)) == 0) &&
		slices.EqualFunc(said, conditions, func(text, pattern string) bool { return like(pattern, text) }) {
		return ""
	}
	return fmt.Sprintf("volume has %s, claim %s, status %q, conditions %q%s", made.String(), has.String(), now.AllocatedResourceStatuses, said, showEvents(eventsOn(c.UID)))
}

// lines says whether a file of the class has other lines than these.
func (s *scope) lines(c *class, file string, want ...string) string {
	text, err := os.ReadFile(c.dir() + "/" + file)
	if got := strings.Fields(string(text)); err != nil || !slices.Equal(got, strings.Fields(strings.Join(want, " "))) {
		return fmt.Sprintf("%s has %q, want %q", file, text, want)
	}
	return ""
}

// loopDevice is a block device of the node on a new file of 64 MiB.
func (s *scope) loopDevice(file string) string {
	s.Helper()
	s.ok(os.WriteFile(file, nil, 0o666))
	s.ok(os.Chmod(file, 0o666)) // whatever the umask says
	s.ok(os.Truncate(file, 64<<20))
	out, err := command(s.Context(), "losetup", "-f", "--show", file)
	s.ok(err)
	device := strings.TrimSpace(out)
	s.later(func(ctx context.Context) error {
		_, err := command(ctx, "losetup", "-d", device)
		return err
	})
	return device
}
