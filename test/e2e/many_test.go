//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// TestFiftyAtOnce makes 50 claims of three classes at once. A script that ran twice for a claim would fail, since its
// directory is there already.
func TestFiftyAtOnce(t *testing.T) {
	s := begin(t)
	var classes []*class
	for _, suffix := range []string{"a", "b", "c"} {
		classes = append(classes, s.class(suffix, setting{
			data:      map[string]string{"max-concurrent": "5"}, // the machine has two cores
			provision: "mkdir \"$dir\"\nchmod 0777 \"$dir\"\n" + makeVolume,
			remove:    "rmdir \"$dir\"\n",
		}))
	}
	var claims []*claim
	for i := range 50 {
		claims = append(claims, classes[i%3].claim(fmt.Sprintf("claim-%d", i)))
	}
	made := s.wait(3*patient, "50 claims bound", func() string { return first(claims, (*claim).unbound) })
	for _, class := range classes {
		if most := shared.mostAtOnce(class.name); most != 5 {
			t.Errorf("%d pods of class %s at once, want the 5 of max-concurrent", most, class.name)
		}
		var want []string
		for _, c := range claims {
			if c.class == class {
				want = append(want, c.volumeName())
			}
		}
		slices.Sort(want)
		if got := class.volumes(); !slices.Equal(got, want) {
			t.Errorf("class %s has the directories %v, want %v", class.name, got, want)
		}
	}
	if n := len(s.volumes()); n != 50 {
		t.Errorf("%d volumes, want 50", n)
	}
	for _, c := range claims {
		c.ran(contract.Provision, 1)
		c.delete()
	}
	gone := s.wait(3*patient, "50 claims gone", s.left)
	for _, c := range claims {
		c.ran(contract.Delete, 1)
	}
	for _, class := range classes {
		if left := class.volumes(); len(left) > 0 {
			t.Errorf("class %s has the directories %v left", class.name, left)
		}
	}
	t.Logf("50 claims: bound in %.1f s, gone in %.1f s", made.Seconds(), gone.Seconds())
}

// first is what is lacking for one of the things for which something is, and for how many.
func first[T any](things []T, lacking func(T) string) string {
	count, what := 0, ""
	for _, thing := range things {
		if lack := lacking(thing); lack != "" {
			count++
			what = lack
		}
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d, such as: %s", count, len(things), what)
}
