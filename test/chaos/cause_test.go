package chaos

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/test/chaos/sim"
)

// causes keep a claim from its volume for four minutes. Its event has to name them, and it has to be bound after that by
// the same dispatcher, which every run checks.
var causes = []struct {
	do    string
	rate  string
	event string
	why   string // in the event's message
}{
	{do: "quota-zero", event: "ProvisionerPodRefused", why: "exceeded quota"},
	{do: "image-broken", event: "ProvisionerImagePullFailed", why: "no such image"},
	{do: "config-delete", event: "ProvisionerConfigMissing", why: `has no provisioner ConfigMap for class "class-0"`},
	{do: "node-dead", event: "ProvisionerUnschedulable", why: "nodes are available"},
	{rate: "backend-error", event: "ProvisionerFailed", why: "the backend is not available"},
	{rate: "exit-64", event: "ProvisionerRefused", why: "refused by chaos"},
	{rate: "exit-75", event: "ProvisionerBusy", why: "busy by chaos"},
	{rate: "no-volume", event: "ProvisionerMadeNoVolume", why: "exited with code 0, but volume"},
	{rate: "misfit", event: "VolumeDoesNotFit", why: "does not fit the claim: spec."},
	{rate: "oom", event: "ProvisionerOutOfMemory", why: "want of memory"},
}

func TestCauseIsNamed(t *testing.T) {
	for _, c := range causes {
		t.Run(c.do+c.rate, func(t *testing.T) {
			plan := sim.Plan{Seed: 1, Claims: 1, Nodes: 1, Classes: []sim.Class{{Name: "class-0"}}, Length: 4 * time.Minute,
				Rates:   map[string]float64{c.rate: 1},
				Actions: []sim.Action{{At: 5 * time.Second, Do: "claim-create"}}}
			if c.rate == "oom" {
				plan.Rates["exit-1"] = 1
			}
			if c.do != "" {
				plan.Actions = slices.Insert(plan.Actions, 0, sim.Action{At: time.Second, Do: c.do, For: time.Hour})
			}
			r := run(t, plan, sim.Options{})
			named := slices.ContainsFunc(r.Events, func(e string) bool {
				return strings.HasPrefix(e, "claim-0 "+c.event+": ") && strings.Contains(e, c.why)
			})
			if len(r.Violations) > 0 || !named {
				t.Errorf("no event %s with %q of claim-0 in:\n%s\nviolations: %s\n%s%s", c.event, c.why,
					strings.Join(r.Events, "\n"), strings.Join(r.Violations, "\n"), plan, r.Trace)
			}
		})
	}
}
