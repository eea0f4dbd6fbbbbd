//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// deletedMeanwhile deletes a claim while its pod runs, which has made a directory and no volume yet.
var deletedMeanwhile = []struct {
	name string
	// end is what the script does when the claim is gone.
	end string
	// asks reports whether an administrator is asked then.
	asks bool
}{
	{name: "then the pod fails", end: "exit 1\n"},
	{name: "then the pod makes the volume", end: makeVolume},
	{name: "then the pod makes no volume", end: "exit 0\n", asks: true},
	{name: "then the pod refuses too late", end: makeVolume + "exit 1\n"},
}

// answerAny lets the storage be removed of pods of the claim that say that they made a volume, which does not exist, if
// the dispatcher asks about any. answered reports whether it does.
func (s *scope) answerAny(c *claim) (answered bool) {
	s.Helper()
	for _, p := range c.livePods() {
		if untold(p.UID, "DeletionHeld", "*") == "" && p.Annotations[contract.AnnAllowDelete] == "" {
			_, err := kubectl(s.Context(), "-n", p.Namespace, "annotate", "pod", p.Name, contract.AnnAllowDelete+"=true")
			s.ok(err)
			answered = true
		}
	}
	return answered
}

// answerHeld waits until the dispatcher asks about a pod of the claim, and answers.
func (s *scope) answerHeld(c *claim) {
	s.Helper()
	s.wait(patient, "DeletionHeld on the pod", func() string {
		if s.answerAny(c) {
			return ""
		}
		return "none"
	})
}

// goneOnceAnswered waits until nothing of the claim is left.
func (s *scope) goneOnceAnswered(c *claim) {
	s.Helper()
	s.wait(patient, "claim gone", func() string {
		s.answerAny(c)
		return c.left()
	})
}

func TestClaimDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, meanwhile := range deletedMeanwhile {
		t.Run(meanwhile.name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			class := s.class("a", setting{provision: makeDir + gate + meanwhile.end})
			c := class.claim("claim")
			s.wait(soon, "directory made", c.noDirectory)
			c.delete()
			s.wait(soon, "claim gone", c.present)
			class.open(contract.Provision, c.volumeName())
			if meanwhile.asks {
				s.answerHeld(c)
			}
			c.gone(patient)
			c.ran(contract.Provision, 1)
			c.ran(contract.Delete, 1)
		})
	}
}

// TestClaimMadeAnew deletes a claim and makes another one of the same name at once.
func TestClaimMadeAnew(t *testing.T) {
	t.Parallel()
	s := begin(t)
	class := s.class("a", setting{provision: makeDir + gate + makeVolume})
	first := class.claim("claim")
	s.wait(soon, "directory made", first.noDirectory)
	first.delete()
	s.wait(soon, "claim gone", first.present)
	second := class.claim("claim")
	class.open(contract.Provision, second.volumeName())
	second.bound(soon)
	class.open(contract.Provision, first.volumeName())
	s.wait(patient, "the first claim's volume gone", func() string {
		if v := first.volume(); v != nil {
			return "volume " + v.Name + " is " + string(v.Status.Phase)
		}
		return first.busy()
	})
	if exists(first.directory()) {
		t.Errorf("directory %s is left", first.directory())
	}
	second.consume(shared.admin)
}

// TestWaitForFirstConsumer: no pod before there is a consumer, and then one where the consumer will be.
func TestWaitForFirstConsumer(t *testing.T) {
	t.Parallel()
	s := begin(t)
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	class := s.class("a", setting{terms: storagev1.StorageClass{VolumeBindingMode: &wait}})
	c := class.claim("claim")
	c.told(soon, "WaitForFirstConsumer", "waiting for first consumer to be created before binding")
	s.class("b", setting{}).claim("other").bound(soon) // so that this one was passed over and not merely late
	c.ran(contract.Provision, 0)
	pod := c.consumer(shared.admin)
	s.finished(pod, "hello from claim\n")
	env := class.env(contract.Provision, c.volumeName())
	if env["FLEX_SELECTED_NODE"] != "node1" || env["FLEX_NODE"] != "node1" {
		t.Errorf("the pod saw the selected node %q and its own %q, want node1", env["FLEX_SELECTED_NODE"], env["FLEX_NODE"])
	}
	c.ran(contract.Provision, 1)
	c.delete()
	c.gone(soon)
}

// TestDeleteFails: storage that cannot be removed keeps its volume, the volume says why, and it is tried again. A script whose rm fails
// leaves no message, so that the volume says what rm printed: it is administrators who read the events of volumes.
func TestDeleteFails(t *testing.T) {
	t.Parallel()
	s := begin(t)
	class := s.class("a", setting{remove: countRuns + `case $run in
1) mkdir -p "$dir/kept/x"; chmod 0555 "$dir/kept" ;;
2) flexctl fail 'snapshots depend on it' ;;
*) chmod 0777 "$dir/kept" ;;
esac
` + removeDir})
	c := class.claim("claim")
	c.bound(soon)
	c.delete()
	volume := c.volume()
	s.told(soon, volume.UID, "ProvisionerFailed", "the container exited with code 1 and left no message (pod "+c.pod(contract.Delete, 0)+
		"); its log ends with: *rm: can't remove '*/kept/x': Permission denied*")
	s.told(soon, volume.UID, "ProvisionerFailed", "snapshots depend on it (pod "+c.pod(contract.Delete, 1)+")")
	c.gone(patient)
	c.ran(contract.Delete, 3)
}

// TestAlwaysTooSmall has a provisioner that makes a volume too small every time. Each is undone, and the attempts get
// rarer: the backend is not to be worn out by one bad class. The delay after the fifth attempt is 16 s, which is more than
// an attempt with its undo takes.
func TestAlwaysTooSmall(t *testing.T) {
	t.Parallel()
	s := begin(t)
	class := s.class("a", setting{provision: tooSmall})
	c := class.claim("claim")
	var starts []time.Time
	s.wait(2*patient, "six attempts", func() string {
		starts = nil
		for _, pod := range shared.ran(contract.Provision, c.UID) {
			starts = append(starts, pod.CreationTimestamp.Time)
		}
		if len(starts) < 6 {
			return fmt.Sprintf("%d attempts", len(starts))
		}
		return ""
	})
	slices.SortFunc(starts, time.Time.Compare)
	var delays []time.Duration
	for i := range starts[1:] {
		delays = append(delays, starts[i+1].Sub(starts[i]))
	}
	if delays[4] < 16*time.Second {
		t.Errorf("attempts came %v after the ones before them: the delay does not grow", delays)
	}
	names := map[string]bool{}
	for _, pod := range shared.ran(contract.Provision, c.UID) {
		if names[pod.Name] {
			t.Errorf("there was more than one pod %s", pod.Name)
		}
		names[pod.Name] = true
	}
	class.edit(works)
	c.bound(patient)
}
