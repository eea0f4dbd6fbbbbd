package observed

import (
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// What a killed attempt asked for may come within a minute of its end. The attempts that follow say so, since they replace its record.
func TestLateUntil(t *testing.T) {
	noon := dispatchertest.Noon
	for _, c := range []struct {
		name, volume string
		pods         []string
		deadline     int64
		annotation   string // of the pods
		want         string // of the next attempt's annotation
	}{
		{name: "nothing", pods: []string{"prov-0 failed"}, want: "true"},
		{name: "killed", pods: []string{"prov-0 killed"}, want: "2026-11-21T12:00:51Z"},
		{name: "killed, and tried again", pods: []string{"prov-0 killed", "prov-1 refused"}, want: "2026-11-21T12:00:51Z"},
		{name: "tried again", pods: []string{"prov-1 failed late"}, want: "2026-11-21T12:00:31Z"},
		{name: "tried again and killed", pods: []string{"prov-1 killed late"}, want: "2026-11-21T12:00:51Z"},
		{name: "killed when it had made the volume", volume: "fits", pods: []string{"prov-0 killed"}, want: "true"},
		{name: "killed before another one made the volume", volume: "fits", pods: []string{"prov-0 killed", "prov-1 done"}, want: "2026-11-21T12:00:51Z"},
		{name: "killed on a node whose clock is ahead: by its deadline", pods: []string{"prov-0 killed ahead"}, deadline: 40, want: "2026-11-21T12:01:21Z"},
		{name: "tried again, a day later than it can be", pods: []string{"prov-1 failed"}, annotation: "9999-01-01T00:00:00Z", want: "2026-11-22T12:00:42Z"},
		{name: "tried again, as late as it can be", pods: []string{"prov-1 failed"}, annotation: "2026-11-22T12:00:41Z", want: "2026-11-22T12:00:42Z"},
		{name: "what is no time", pods: []string{"prov-1 failed"}, annotation: "x", want: "true"},
	} {
		s := &Claim{Now: noon, UID: dispatchertest.UID}
		if c.volume != "" {
			s.Volume = dispatchertest.Volume(c.volume)
		}

		for _, words := range c.pods {
			pod := dispatchertest.Pod(words, noon.Add(-20*time.Second), noon.Add(-10*time.Second))
			if c.deadline > 0 {
				pod.Spec.ActiveDeadlineSeconds = &c.deadline
			}

			if c.annotation != "" {
				pod.Annotations[contract.AnnSuspect] = c.annotation
			}

			s.Add(NewAttempt(pod, ""))
		}

		s.Sort()
		if got := s.suspect(contract.Provision); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
