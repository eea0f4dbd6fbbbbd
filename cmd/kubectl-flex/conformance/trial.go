package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/conformance/sandbox"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/apiserver"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// maxFindings is the limit on the findings of a check, since more of the same do not help.
const maxFindings = 3

// finding is one way in which a provisioner did not do what it should.
type finding struct{ expected, got, remedy, log string }

// trial is a run of one check. An error that keeps it from going on, such as a machine that cannot run pods, ends it by a panic with a
// halt, which run recovers.
type trial struct {
	*stage
	ctx      context.Context
	before   []string
	findings []finding
	blind    bool
}

type halt struct{ err error }

func (t *trial) must(err error) {
	if err != nil {
		panic(halt{err})
	}
}

// begin records the storage that exists before the check.
func (t *trial) begin() { t.before = t.everything() }

func (t *trial) everything() []string {
	found, err := t.listStorage(t.ctx)
	t.must(err)
	return append(found, t.secretsOf()...)
}

// added is the storage that did not exist when the check began.
func (t *trial) added() []string {
	return slices.DeleteFunc(t.everything(), func(name string) bool { return slices.Contains(t.before, name) })
}

func (t *trial) fail(r *run, expected, came, remedy string) {
	f := finding{expected: expected, got: came, remedy: remedy}
	if r != nil {
		f.log = r.Output
	}
	t.findings = append(t.findings, f)
}

func (t *trial) provision(c *claim) *run { return t.pod(contract.Provision, c, nil) }

func (t *trial) pod(op contract.Operation, c *claim, volume *corev1.PersistentVolume) *run {
	r, err := t.do(t.ctx, op, c, volume)
	t.must(err)
	return r
}

// provisioned is a new claim with its volume. The check fails if there is no volume.
func (t *trial) provisioned() (*claim, bool) {
	c := t.newClaim()
	return c, t.wantProvisioned(c, "a first attempt", "")
}

// wantProvisioned provisions a claim. The check fails unless there is a volume that fits it.
func (t *trial) wantProvisioned(c *claim, when, remedy string) bool {
	return t.wantVolume(c, t.provision(c), when, remedy)
}

func (t *trial) wantVolume(c *claim, r *run, when, remedy string) bool {
	if remedy == "" {
		remedy = "read the message and the log"
	}
	volume := t.api.Volume(c.VolumeName)
	switch {
	case !r.ok():
		t.fail(r, when+": provision exits with code 0", r.summary(), remedy)
	case volume == nil:
		t.fail(r, when+": the PersistentVolume "+c.VolumeName+" exists", r.summary()+", and there is no volume", "create the PersistentVolume before exit 0, by flexctl create-pv")
	default:
		if faults := podspec.Misfits(volume, c.object()); len(faults) > 0 && !t.misfit {
			t.fail(r, when+": the volume fits its claim", strings.Join(faults, "; "), "let flexctl create-pv or the whole skeleton make the PersistentVolume")
			return false
		}
		if t.options.Inspect == nil {
			return true
		}
		if err := t.options.Inspect(t.ctx, volume); err != nil {
			t.fail(r, when+": the volume's storage is whole", err.Error(), "create the PersistentVolume once all else is done; what an attempt left half made has another name")
			return false
		}
		return true
	}
	return false
}

// wantGone removes what exists for a claim. The check fails if something is left.
func (t *trial) wantGone(c *claim, when, remedy string) bool {
	r, err := t.remove(t.ctx, c)
	t.must(err)
	return t.wantRemoved(r, when, remedy)
}

func (t *trial) wantRemoved(r *run, when, remedy string) bool {
	if !r.ok() {
		t.fail(r, when+": delete exits with code 0", r.summary(), remedy)
		return false
	}
	if !t.sees() {
		t.blind = true
		return true
	}
	if left := t.added(); len(left) > 0 {
		t.fail(r, when+": nothing is left", "there is still "+some(left), remedy)
		t.before = append(t.before, left...) // it is reported once
		return false
	}
	return true
}

func some(names []string) string {
	if len(names) > 4 {
		return strings.Join(names[:4], ", ") + fmt.Sprintf(" and %d more", len(names)-4)
	}
	return strings.Join(names, ", ")
}

// disruption says when a signal is sent to a pod: some time after its start or, with call above 0, at a call to the API server, before or
// after the call has an effect.
type disruption struct {
	at    time.Duration
	call  int
	after bool
	// grace is 0 for SIGKILL, and else the time between SIGTERM and SIGKILL.
	grace time.Duration
}

func (b disruption) String() string {
	name := "SIGKILL"
	if b.grace > 0 {
		name = "SIGTERM"
	}
	switch {
	case b.call == 0:
		return fmt.Sprintf("%s after %s", name, b.at.Round(time.Millisecond/10))
	case b.after:
		return fmt.Sprintf("%s after the API server did what call %d asked for, before its answer", name, b.call)
	}
	return fmt.Sprintf("%s at call %d to the API server, before its effect", name, b.call)
}

// disrupted is a run with a disruption.
type disrupted struct {
	*run
	// hit reports whether the pod still ran at that time.
	hit bool
	// overdue reports whether the pod still ran after its grace period.
	overdue bool
}

// disrupt runs a pod with a disruption.
func (t *trial) disrupt(op contract.Operation, c *claim, volume *corev1.PersistentVolume, b disruption) disrupted {
	var process *sandbox.Process
	var once sync.Once
	var hit, overdue, ended atomic.Bool
	ready := make(chan struct{})
	hurt := func() {
		once.Do(func() {
			<-ready
			hit.Store(!ended.Load())
			if b.grace == 0 {
				process.Kill()
				return
			}
			process.Terminate()
			time.AfterFunc(b.grace, func() {
				if !ended.Load() {
					overdue.Store(true)
					process.Kill()
				}
			})
		})
	}
	t.api.SetFault(func(n int, _ string) (f apiserver.Fault) {
		if n == b.call {
			f.Do = hurt
			// After SIGTERM the pod still gets the response.
			f.Before, f.After = b.grace == 0 && !b.after, b.grace == 0 && b.after
		}
		return f
	})
	defer t.api.SetFault(nil)
	r, err := t.start(op, c, volume)
	t.must(err)
	process = r.process
	close(ready)
	if b.call == 0 {
		timer := time.AfterFunc(b.at, hurt)
		defer timer.Stop()
	}
	result, err := r.wait(t.ctx)
	ended.Store(true)
	t.must(err)
	result.Struck = hit.Load()
	return disrupted{result, hit.Load(), overdue.Load()}
}

// disruptionsOver returns disruptions that are spread over a run of that duration.
func (t *trial) disruptionsOver(took time.Duration, grace time.Duration) []disruption {
	n := t.options.Kills
	if grace > 0 {
		n = min(n, 5)
	}
	step := max(took/time.Duration(n), time.Millisecond/2)
	var blows []disruption
	for i := range n {
		blows = append(blows, disruption{at: step * time.Duration(i), grace: grace})
	}
	return blows
}

// disruptionsAtCalls returns disruptions at every call of a run with n calls.
func disruptionsAtCalls(n int, grace time.Duration) []disruption {
	var blows []disruption
	for call := 1; call <= n; call++ {
		blows = append(blows, disruption{call: call, grace: grace})
		if grace == 0 {
			blows = append(blows, disruption{call: call, after: true})
		}
	}
	return blows
}
