//go:build e2e

package e2e

import (
	"fmt"
	"time"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// arrivals are claims of a class that keep coming, whatever else happens.
type arrivals struct {
	class  *class
	claims []*claim
}

// atOnce is how many claims wait at the same time, so that there are pods before, after and in the middle of an update.
const atOnce = 4

// until makes a claim whenever another one is bound, until three of those that it made are bound to volumes of the version.
func (a *arrivals) until(version string) {
	s, first := a.class.s, len(a.claims)
	s.Helper()
	s.wait(patient, "claims bound by version "+version, func() string {
		waiting, done := 0, 0
		for i, c := range a.claims {
			switch {
			case c.unbound() != "":
				waiting++
			case i >= first && c.volume().Annotations[madeBy] == version:
				done++
			}
		}
		if done >= 3 {
			return ""
		}
		for ; waiting < atOnce; waiting++ {
			a.claims = append(a.claims, a.class.claim(fmt.Sprintf("claim-%d", len(a.claims))))
		}
		return fmt.Sprintf("of %d claims since the update %d are bound by it", len(a.claims)-first, done)
	})
}

// update rolls an image out and back by its digest while claims arrive: none is lost, and what the old image made is
// deleted by the new one.
func update(s *scope, folder string) {
	registry := s.registry("")
	old := registry.push(s.image(disks, "examples/use-case-3-and-4-public-image/image"), "disks:1.0.0")
	next := s.imageOf("registry.storage.example/disks:1.1.0", "FROM "+disks+"\nCOPY version /\n", "version", "1.1.0\n")
	newer := registry.push(next, "disks:1.1.0")
	class := s.example(folder, disks, old)[0]
	s.exampleBound(folder)
	use := func(image string) {
		_, err := kubectl(s.Context(), "-n", contract.ProvisionersNamespace, "patch", "configmap", folder, "--type=merge", "-p", `{"data":{"image":"`+image+`"}}`)
		s.ok(err)
	}
	began, arriving := time.Now(), &arrivals{class: class}
	arriving.until("1.0.0")
	use(newer)
	arriving.until("1.1.0")
	use(old)
	arriving.until("1.0.0")
	claims := arriving.claims
	versions := map[string]int{}
	for _, c := range claims {
		c.bound(patient)
		c.ran(contract.Provision, 1)
		versions[c.volume().Annotations[madeBy]]++
	}
	s.Logf("%d claims within %.1f s, all bound at the first attempt: %v", len(claims), time.Since(began).Seconds(), versions)

	use(newer)
	probe := class.claim("after-the-last-update")
	probe.bound(patient)
	for _, c := range claims {
		c.delete()
	}
	probe.delete()
	s.rootLeaves(folder)
	s.exampleGone(folder)
	for _, c := range claims {
		if dir := nfsRoot + "/" + c.volumeName(); exists(dir) {
			s.Errorf("%s is left", dir)
		}
		for _, p := range shared.ran(contract.Delete, c.UID) {
			if got := p.Spec.Containers[0].Image; got != newer {
				s.Errorf("pod %s deleted with %s, want %s", p.Name, got, newer)
			}
		}
	}
}
