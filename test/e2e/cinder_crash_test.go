//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// cinderStops undoes what a test with a Cinder does to the installation, and stops the Cinder.
func cinderStops(t *testing.T) {
	t.Helper()
	installedAfter(t)
	t.Cleanup(func() {
		if _, err := command(context.Background(), "test/cinder/down.sh"); err != nil {
			t.Error(err)
		}
	})
}

// ctl kills and starts the programs of Cinder.
func (c *cinder) ctl(verb, program string) {
	c.s.Helper()
	_, err := command(c.s.Context(), "test/cinder/ctl.sh", verb, program)
	c.s.ok(err)
}

// nothingLeft waits until neither Cinder nor its target, the node nor the cluster has anything of the test's claims.
func (c *cinder) nothingLeft() {
	c.s.Helper()
	c.s.wait(2*patient, "nothing left", func() string {
		return strings.Trim(c.s.left()+", "+c.remains(), ", ")
	})
}

// remains names what Cinder and its target, the node and the Secrets have of any claim.
func (c *cinder) remains() string {
	c.s.Helper()
	return strings.Trim(c.left()+", "+c.s.chapSecrets()+", "+c.s.sessions(""), ", ")
}

// TestCinderKilled kills Cinder, all of its services, while six claims are on their way to volumes, and again while the
// volumes are removed. Each claim ends with one volume, and none ends with something left.
func TestCinderKilled(t *testing.T) {
	cinderStops(t)
	s := begin(t)
	cinder := s.cinder("noauth")
	class := s.cinderClass(cinder.standalone())
	var claims []*claim
	for i := range 6 {
		claims = append(claims, class.claim(fmt.Sprintf("claim-%d", i), readWriteOnce))
	}
	s.wait(patient, "provisions under way", func() string {
		if len(cinder.volumes()) < 2 {
			return "cinder has no two volumes"
		}
		return ""
	})
	cinder.crashed(contract.Provision, claims)
	s.wait(2*patient, "claims bound", func() string { return first(claims, (*claim).unbound) })
	s.wait(patient, "pods acted on", func() string { return first(claims, (*claim).busy) })
	for _, c := range claims {
		cinder.until(c.volumeName(), "in-use")
	}
	if all := cinder.volumes(); len(all) != len(claims) {
		t.Errorf("cinder has %d volumes for %d claims: %+v", len(all), len(claims), all)
	}

	for _, c := range claims {
		c.delete()
	}
	s.wait(patient, "deletes under way", func() string {
		if !slices.ContainsFunc(cinder.volumes(), func(v cinderVolume) bool { return v.Status != "in-use" }) {
			return "all cinder volumes are in-use"
		}
		return ""
	})
	cinder.crashed(contract.Delete, claims)
	cinder.nothingLeft()
}

// crashed kills Cinder, and starts it again when a pod has failed for the want of it.
func (c *cinder) crashed(operation contract.Operation, claims []*claim) {
	c.s.Helper()
	c.ctl("kill", "cinder")
	c.s.wait(patient, fmt.Sprintf("a %s pod failed", operation), func() string {
		for _, claim := range claims {
			for _, p := range shared.ran(operation, claim.UID) {
				if p.Status.Phase == corev1.PodFailed {
					return ""
				}
			}
		}
		return "none has"
	})
	c.ctl("start", "cinder")
	var states []string
	for _, v := range c.volumes() {
		states = append(states, v.Status)
	}
	slices.Sort(states)
	c.s.Logf("cinder came back in the midst of six %ss with volumes that are %s", operation, strings.Join(states, ", "))
	c.s.ok(c.resetStuck())
}

// goesOn is how long Cinder may take to go on, once it answers, with what it had begun.
const goesOn = 10 * time.Second

// resetStuck does what an administrator of Cinder has to do about volumes that stay on their way. Cinder goes on with what
// its services had begun, but this one's message queue ends with its process, and with it what they had not taken up yet.
func (c *cinder) resetStuck() error {
	was, err := c.list()
	if err != nil {
		return err
	}
	var stay []cinderVolume
	if _, err := shared.await(goesOn, func() string {
		now, err := c.list()
		if err != nil {
			return err.Error()
		}
		stay = stuck(was, now)
		return first(stay, func(v cinderVolume) string { return "volume " + v.Name + " is " + v.Status })
	}); err == nil {
		return nil
	}
	for _, v := range stay {
		c.s.Logf("left to cinder's administrator: volume %s is %s", v.Name, v.Status)
		reset := map[string]any{"os-reset_status": map[string]any{"status": "error"}}
		if _, err := c.try("POST", c.endpoint+"/volumes/"+v.ID+"/action", reset, nil); err != nil {
			return err
		}
	}
	return nil
}

// stuck are the volumes that are on their way and have come no further.
func stuck(was, now []cinderVolume) []cinderVolume {
	return slices.DeleteFunc(slices.Clone(was), func(v cinderVolume) bool {
		return v.Status != "creating" && v.Status != "deleting" ||
			!slices.ContainsFunc(now, func(w cinderVolume) bool { return w.ID == v.ID && w.Status == v.Status })
	})
}

// dropExports does what an administrator of Cinder has to do about exports of volumes that Cinder has deleted. Told to remove
// one while the target is dead, Cinder finds none and goes on, and the target that is started again makes it from its file.
func (c *cinder) dropExports() error {
	volumes, err := c.list()
	if err != nil {
		return err
	}
	files, err := command(c.s.Context(), "find", ".cinder/state/targets", "-name", "volume-*")
	if err != nil {
		return err
	}
	for _, file := range strings.Fields(files) {
		id := strings.TrimPrefix(path.Base(file), "volume-")
		if slices.ContainsFunc(volumes, func(v cinderVolume) bool { return v.ID == id }) {
			continue
		}
		c.s.Logf("left to cinder's administrator: the export of volume %s, which it has deleted", id)
		for _, args := range [][]string{
			{"env", "TGT_IPC_SOCKET=.cinder/state/tgt.sock", ".cinder/state/bin/tgt-admin", "--force", "--delete", "iqn.2010-10.org.openstack:volume-" + id},
			{"rm", "--force", file},
		} {
			if _, err := command(c.s.Context(), args...); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestTargetKilled kills the iSCSI target under a pod that writes to its volume, and lets a claim be made meanwhile. When
// the target is back the pod goes on writing, and the claim is bound.
func TestTargetKilled(t *testing.T) {
	cinderStops(t)
	s := begin(t)
	cinder := s.cinder("noauth")
	class := s.cinderClass(cinder.standalone())
	used := class.claim("used", readWriteOnce)
	used.bound(patient)
	pod := used.consumerOf(shared.admin, `i=0; while :; do i=$((i + 1)); echo $i | dd of=/data/count conv=fsync 2> /dev/null && echo $i; sleep 0.2; done`, ownsFiles)
	s.wrote(pod, 0)

	cinder.ctl("kill", "tgtd")
	meanwhile := class.claim("meanwhile", readWriteOnce)
	meanwhile.told(patient, "ProvisionerFailed", "*")
	count := s.count(pod)
	cinder.ctl("start", "tgtd")
	took := s.wrote(pod, count)
	t.Logf("the pod wrote again %s after the target was back", took)
	meanwhile.bound(2 * patient)
	if all := cinder.volumes(); len(all) != 2 {
		t.Errorf("cinder has %d volumes for 2 claims: %+v", len(all), all)
	}
	s.finished(meanwhile.consumerOf(shared.admin, `echo works > /data/file && sync && cat /data/file`, ownsFiles), "works\n")
	s.deleteClaims(t.Context())
	cinder.nothingLeft()
}

// count is the last number that the pod wrote.
func (s *scope) count(pod *corev1.Pod) int {
	s.Helper()
	n, err := strconv.Atoi(logOf(s.Context(), pod, 1))
	if err != nil {
		return 0 // it has written nothing yet
	}
	return n
}

// wrote waits until the pod has written more than so many numbers, and returns how long that took.
func (s *scope) wrote(pod *corev1.Pod, than int) string {
	s.Helper()
	return s.wait(2*patient, "pod writes", func() string {
		if s.count(pod) > than {
			return ""
		}
		return "its log ends with " + logOf(s.Context(), pod, 1)
	}).String()
}
