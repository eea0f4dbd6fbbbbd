//go:build e2e

package e2e

import (
	"context"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// TestUpgrade installs the version of the checkout FLEX_E2E_UPGRADE_FROM, then this one, then goes back, and forward again. Each
// time, claims are in all phases: what one version began, the other one ends, with the pods that there are. Run by make test-upgrade.
func TestUpgrade(t *testing.T) {
	from := os.Getenv("FLEX_E2E_UPGRADE_FROM")
	if from == "" {
		t.Skip("FLEX_E2E_UPGRADE_FROM names no checkout: make test-upgrade")
	}
	s := begin(t)
	s.later(func(ctx context.Context) error { return install(ctx, repository) })
	s.ok(install(t.Context(), from))
	cinder := s.cinder("noauth")
	ofCinder := s.cinderClass(cinder.standalone()).claim("of-cinder", readWriteOnce, rawDevice)
	ofCinder.bound(patient)
	before := s.inAllPhases("before")
	s.ok(install(t.Context(), repository))
	before.end()
	ofCinder.ask("2Gi")
	ofCinder.has("2Gi")
	after := s.inAllPhases("after")
	s.ok(install(t.Context(), from))
	before.remain()
	after.end()
	ofCinder.delete()
	s.wait(patient, "Cinder's volume gone", func() string { return strings.Trim(ofCinder.left()+", "+cinder.remains(), ", ") })
	again := s.inAllPhases("again")
	s.ok(install(t.Context(), repository))
	again.end()
	for _, p := range []*phases{before, after, again} {
		p.remain()
		p.remove()
	}
}

// phases are claims of a class, each in another phase.
type phases struct {
	s     *scope
	class *class
	// used has data. provisioning, failing, expanding, deleting and stuck have a pod at work, or wait after one that failed.
	used, provisioning, failing, expanding, deleting, stuck, retained *claim
}

// ready fails with what an administrator can mend, until the test mends it.
const ready = "[ -e \"$home/gates/ready\" ] || flexctl fail --try-again \"the storage is away\"\n"

// choose reads what the test wants of the claim: that the operation fails until the storage is ready, or waits at its gate.
const choose = "case $(cat \"$home/gates/$FLEX_PVC_NAME\") in\nfails-$FLEX_OPERATION) " + ready + ";;\nwaits-$FLEX_OPERATION) " + gate + ";;\nesac\n"

// inAllPhases takes claims to where a version has to leave them to another one.
func (s *scope) inAllPhases(name string) *phases {
	s.Helper()
	want := growing(choose)
	want.provision, want.remove = choose+makeDir+makeVolume, choose+removeDir
	p := &phases{s: s, class: s.class(name, want)}
	made := func(phase, choice string) *claim {
		s.Helper()
		s.ok(os.WriteFile(p.class.dir()+"/gates/"+name+"-"+phase, []byte(choice), 0o644))
		return p.class.claim(name + "-" + phase)
	}
	p.used, p.retained = made("used", ""), made("retained", "")
	p.provisioning, p.failing = made("provisioning", "waits-provision"), made("failing", "fails-provision")
	p.expanding = made("expanding", "waits-expand")
	p.deleting, p.stuck = made("deleting", "waits-delete"), made("stuck", "fails-delete")
	for _, c := range []*claim{p.used, p.retained, p.expanding, p.deleting, p.stuck} {
		c.bound(patient)
	}
	p.used.consume(shared.admin)
	s.reclaim(p.retained, corev1.PersistentVolumeReclaimRetain)
	p.expanding.ask("128Mi")
	for _, c := range []*claim{p.retained, p.deleting, p.stuck} {
		c.delete()
	}
	for operation, c := range map[contract.Operation]*claim{contract.Provision: p.provisioning, contract.Expand: p.expanding, contract.Delete: p.deleting} {
		s.running(operation, []*claim{c})
	}
	p.failing.told(patient, "ProvisionerBusy", "the storage is away (pod {pod})")
	s.told(patient, p.stuck.volume().UID, "ProvisionerBusy", "the storage is away (pod *)")
	return p
}

// end has the version that is installed now end what another one began. What runs needs no second pod.
func (p *phases) end() {
	p.s.Helper()
	p.s.ok(os.WriteFile(p.class.dir()+"/gates/ready", nil, 0o644))
	for operation, c := range map[contract.Operation]*claim{contract.Provision: p.provisioning, contract.Expand: p.expanding, contract.Delete: p.deleting} {
		p.class.open(operation, c.volumeName())
	}
	p.provisioning.bound(patient)
	p.failing.bound(patient)
	p.expanding.has("128Mi")
	p.deleting.gone(patient)
	p.stuck.gone(patient)
	p.provisioning.ran(contract.Provision, 1)
	p.expanding.ran(contract.Expand, 1)
	p.deleting.ran(contract.Delete, 1)
	p.remain()
}

// remain fails unless the data of the claims that stay is there.
func (p *phases) remain() {
	p.s.Helper()
	p.s.finished(p.used.consumerOf(shared.admin, "cat /data/hello"), "hello from "+p.used.Name+"\n")
	p.s.wait(soon, "retained volume released", func() string {
		if v := p.retained.volume(); v == nil || v.Status.Phase != corev1.VolumeReleased || !exists(p.retained.directory()) {
			return "it is not: " + p.retained.left()
		}
		return ""
	})
}

// remove deletes what stays. The retained volume's storage goes once its policy says so.
func (p *phases) remove() {
	p.s.Helper()
	p.s.reclaim(p.retained, corev1.PersistentVolumeReclaimDelete)
	for _, c := range []*claim{p.used, p.provisioning, p.failing, p.expanding} {
		c.delete()
	}
	for _, c := range []*claim{p.used, p.provisioning, p.failing, p.expanding, p.retained} {
		c.gone(patient)
	}
}
