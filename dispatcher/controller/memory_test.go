package controller

import (
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// Deletions count for an hour, with a limit and without one.
func TestMemoryExpires(t *testing.T) {
	m := newMemory()
	m.deletionBegan("silver", "1", dispatchertest.Noon)
	m.deletionBegan("silver", "2", dispatchertest.Noon.Add(time.Minute))
	m.storageRemoved("v", dispatchertest.Noon)
	m.expire(dispatchertest.Noon.Add(limitPeriod))
	if len(m.deletions["silver"]) != 1 || len(m.deletedVolumes) != 0 {
		t.Errorf("after an hour there are %v and %v", m.deletions, m.deletedVolumes)
	}

	m.expire(dispatchertest.Noon.Add(limitPeriod + time.Minute))
	if len(m.deletions) != 0 {
		t.Errorf("in the end there are %v", m.deletions)
	}
}

// What is handed over while a claim is looked at is not forgotten with it.
func TestForgetAfterHandOver(t *testing.T) {
	for _, c := range []struct {
		name   string
		before bool // that the claim is observed
		want   bool
	}{{"before it is observed", true, true}, {"after it was observed", false, false}} {
		m, ended := newMemory(), false
		handOver := func() { m.handOver("1", func(c *claimMemory) { c.wanted = true }, func() {}) }
		if c.before {
			handOver()
		}

		revision := m.handedOver()
		if !c.before {
			handOver()
		}

		got := m.forget("1", revision, func() { ended = true })
		if got != c.want || ended != c.want || m.claim("1").wanted == c.want {
			t.Errorf("handed over %s: forgotten %t, ended %t, remembered %+v", c.name, got, ended, m.claim("1"))
		}
	}
}
