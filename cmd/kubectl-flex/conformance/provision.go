package conformance

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

func (t *trial) checkProvision() {
	t.wantGone(t.provisioned(), "after the provision", "read the message and the log")
}

func (t *trial) checkReadOnlyRoot() {
	if t.level.writable {
		t.fail(t.runs[0], "it works with a read-only root", t.runs[0].summary()+"; it works where its root can be written to",
			"write to /tmp, or to what the class mounts")
	}
}

func (t *trial) checkNonRoot() {
	if t.level.root {
		t.fail(t.runs[0], "it works as user 65532", t.runs[0].summary()+"; it works as root",
			"do without root, and let the storage belong to user 65532; if it must be, the class says run-as-user: \"0\" and conformance --run-as-user 0")
	}
}

func (t *trial) checkVolume() {
	c := t.newClaim()
	r := t.provision(c)
	volume := t.api.Volume(c.VolumeName)
	if !r.ok() || volume == nil {
		t.fail(r, "a volume", r.summary(), "see check provision")
		return
	}
	faults := podspec.Misfits(volume, c.object())
	reclaim := corev1.PersistentVolumeReclaimDelete
	var record map[string]string
	if recordKey.Mark(volume); !podspec.Recorded(volume) {
		record = map[string]string{contract.AnnRecord: recordKey.Sign(volume)}
	}
	location := ""
	if r.Location != volume.Annotations[contract.AnnLocation] {
		location = r.Location
	}
	if mending := podspec.RepairOf(volume, &reclaim, contract.ProvisionerName, record, location); mending != nil {
		faults = append(faults, mending.Faults...)
		if mending.Kept != "" {
			faults = append(faults, mending.Kept)
		}
	}
	if len(faults) > 0 {
		t.fail(r, "the volume fits its claim and lacks nothing", strings.Join(faults, "; "),
			"let flexctl create-pv or the whole skeleton "+contract.VolumeFile+" make the PersistentVolume")
	}
	t.wantGone(c, "after the provision", "see check delete")
}

func (t *trial) checkName() {
	if !t.sees() {
		t.blind = true
		return
	}
	c := t.provisioned()
	if made := t.added(); !strings.Contains(strings.Join(made, "\n"), c.Claim.UID) {
		came := "there is nothing new in the storage; does it make its storage somewhere else?"
		if len(made) > 0 {
			came = "it made " + some(made)
		}
		t.fail(nil, "storage that is named after "+c.VolumeName, came, "name the storage after $FLEX_PV_NAME: the next attempt knows nothing else")
	}
	t.removed(c) // another check is about what it leaves
}

func (t *trial) checkTwice() {
	const remedy = "look for the storage by $FLEX_PV_NAME before making it: mkdir -p, not mkdir"
	c := t.provisioned()
	t.wantProvisioned(c, "a second attempt", remedy)
	t.api.RemoveVolume(c.VolumeName)
	t.wantProvisioned(c, "an attempt after one that died before the volume was made", remedy)
	t.wantGone(c, "afterwards", remedy)
}

func (t *trial) checkAtOnce() {
	const remedy = "let no step depend on being the only one; what the other made is success"
	c := t.newClaim()
	for _, r := range t.both(contract.Provision, c, nil) {
		if r.Reason == podspec.ReasonRefused || r.Reason == podspec.ReasonNotHere {
			t.fail(r, "two at once: each exits with code 0, or one that is tried again soon", r.summary(), remedy)
		}
	}
	t.wantProvisioned(c, "an attempt after two at once", remedy)
	t.wantGone(c, "after two at once", remedy)
}

// both runs two pods of one claim at the same time.
func (t *trial) both(op contract.Operation, c *claim, volume *corev1.PersistentVolume) []*run {
	t.api.SetFault(nil)
	var pods []*started
	for range 2 {
		p, err := t.start(op, c, volume)
		t.must(err)
		pods = append(pods, p)
	}
	var runs []*run
	for _, p := range pods {
		r, err := p.wait(t.ctx)
		t.must(err)
		r.Raced = true
		runs = append(runs, r)
	}
	return runs
}

// killed disrupts an operation by each of its disruptions. The next attempt, or a delete if the claim is gone, has to find what a killed
// provision left.
func (t *trial) killed(op contract.Operation) {
	remedy := "whatever an attempt leaves must be found again by $FLEX_PV_NAME, half made or whole; " +
		"make marks before what they mark and remove them after it"
	t.eachDisruption(t.undisturbed(op), 0, func(b disruption) {
		c := t.killedOnce(op, b)
		switch op {
		case contract.Provision:
			t.wantProvisioned(c, "provision after "+b.String(), remedy)
		case contract.Expand:
			t.wantExpanded(c, "expand after "+b.String(), remedy)
		default:
			t.wantGone(c, fmt.Sprintf("delete after %s of a %s", b, op), remedy)
			return
		}
		t.wantGone(c, fmt.Sprintf("delete after %s and another attempt", b), remedy)
		if op == contract.Provision && len(t.findings) < maxFindings {
			t.wantGone(t.killedOnce(op, b), fmt.Sprintf("delete after %s of a %s", b, op), remedy)
		}
	})
}

// killedOnce is a claim of which an operation was disrupted.
func (t *trial) killedOnce(op contract.Operation, b disruption) *claim {
	c := t.ready(op)
	t.disrupt(op, c, t.api.Volume(c.VolumeName), b)
	return c
}

// ready is a claim in the state before an operation.
func (t *trial) ready(op contract.Operation) *claim {
	if op == contract.Provision {
		return t.newClaim()
	}
	return t.provisioned()
}

// undisturbed is a run of an operation that nobody disturbs.
func (t *trial) undisturbed(op contract.Operation) *run {
	c := t.ready(op)
	r := t.pod(op, c, t.api.Volume(c.VolumeName))
	if op != contract.Delete {
		t.wantGone(c, "after an attempt that nobody disturbed", "see check delete")
	} else {
		t.api.RemoveVolume(c.VolumeName)
	}
	return r
}

func (t *trial) checkTerminated() {
	const remedy = "the first process of a container gets no signal that it does not ask for: trap TERM, end, and exit with any code but 0"
	for _, op := range []contract.Operation{contract.Provision, contract.Delete} {
		t.eachDisruption(t.undisturbed(op), t.options.Grace, func(b disruption) {
			c := t.ready(op)
			r := t.disrupt(op, c, t.api.Volume(c.VolumeName), b)
			if r.overdue {
				t.fail(r.run, fmt.Sprintf("%s: it ends within %s", b, t.options.Grace), "it did not, and was killed", remedy)
			}
			if op == contract.Provision && !r.ok() {
				t.wantProvisioned(c, "provision after "+b.String(), "see check provision-killed")
			}
			t.wantGone(c, "delete after "+b.String(), remedy)
		})
	}
}
