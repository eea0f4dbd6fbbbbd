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

// trial is a run of one check. What keeps it from going on ends it by a panic with a halt, which run recovers: an error, such as a machine
// that cannot run pods, or a failure without which the rest shows nothing.
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

// run runs a check.
func (t *trial) run(check func(*trial)) (err error) {
	defer func() {
		switch stopped := recover().(type) {
		case nil:
		case halt:
			err = stopped.err
		default:
			panic(stopped)
		}
	}()
	t.before = t.everything()
	check(t)
	return nil
}

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

// removed is the run that removed what exists for a claim.
func (t *trial) removed(c *claim) *run {
	r, err := t.remove(t.ctx, c)
	t.must(err)
	return r
}

const (
	first   = "a first attempt"
	readLog = "read the message and the log"
)

// provisioned is a new claim with its volume. Without a volume the check fails and ends.
func (t *trial) provisioned() *claim {
	c := t.newClaim()
	if !t.wantProvisioned(c, first, readLog) {
		panic(halt{})
	}
	return c
}

// wantDone fails the check unless a run exited with code 0.
func (t *trial) wantDone(r *run, when, remedy string) bool {
	if !r.ok() {
		t.fail(r, fmt.Sprintf("%s: %s exits with code 0", when, r.Operation), r.summary(), remedy)
	}
	return r.ok()
}

// wantSame fails the check unless the storage is as it was before a run.
func (t *trial) wantSame(r *run, before []string, expected, remedy string) {
	if now := t.everything(); !slices.Equal(before, now) {
		t.fail(r, expected, "there was "+some(before)+", and there is "+some(now), remedy)
	}
}

// wantProvisioned provisions a claim. The check fails unless there is a volume that fits it.
func (t *trial) wantProvisioned(c *claim, when, remedy string) bool {
	return t.wantVolume(c, t.provision(c), when, remedy)
}

func (t *trial) wantVolume(c *claim, r *run, when, remedy string) bool {
	volume := t.api.Volume(c.VolumeName)
	if !t.wantDone(r, when, remedy) {
		return false
	}
	if volume == nil {
		t.fail(r, when+": the PersistentVolume "+c.VolumeName+" exists", r.summary()+", and there is no volume", "create the PersistentVolume before exit 0, by flexctl create-pv")
		return false
	}
	if faults := podspec.Misfits(volume, c.object()); len(faults) > 0 && !t.misfit {
		t.fail(r, when+": the volume fits its claim", strings.Join(faults, "; "), "let flexctl create-pv or the whole skeleton make the PersistentVolume")
		return false
	}
	if t.options.Inspect == nil {
		return true
	}
	err := t.options.Inspect(t.ctx, volume)
	if err != nil {
		t.fail(r, when+": the volume's storage is whole", err.Error(), "create the PersistentVolume once all else is done; what an attempt left half made has another name")
	}
	return err == nil
}

// wantGone removes what exists for a claim. The check fails if something is left.
func (t *trial) wantGone(c *claim, when, remedy string) { t.wantRemoved(t.removed(c), when, remedy) }

func (t *trial) wantRemoved(r *run, when, remedy string) {
	if t.wantDone(r, when, remedy) {
		t.wantNothing(r, when, remedy)
	}
}

// wantNothing fails the check if there is storage that did not exist when it began.
func (t *trial) wantNothing(r *run, when, remedy string) {
	t.blind = t.blind || !t.sees()
	if left := t.added(); len(left) > 0 {
		t.fail(r, when+": nothing is left", "there is still "+some(left), remedy)
		t.before = append(t.before, left...) // it is reported once
	}
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
	return disrupted{result, overdue.Load()}
}

// eachDisruption calls try with disruptions that are spread over a run that nobody disturbed, and with some at each of its
// calls, until the check has enough findings.
func (t *trial) eachDisruption(undisturbed *run, grace time.Duration, try func(disruption)) {
	n := t.options.Kills
	if grace > 0 {
		n = min(n, 5)
	}
	step := max(undisturbed.Took/time.Duration(n), time.Millisecond/2)
	var all []disruption
	for i := range n {
		all = append(all, disruption{at: step * time.Duration(i), grace: grace})
	}
	for i := range undisturbed.Calls {
		all = append(all, disruption{call: i + 1, grace: grace})
		if grace == 0 {
			all = append(all, disruption{call: i + 1, after: true})
		}
	}
	for _, b := range all {
		if len(t.findings) < maxFindings {
			try(b)
		}
	}
}
