package dispatcher

import (
	"testing"
	"time"
)

// The hourly audit finds no pod of a claim that waits. The command of such a finding would remove the record of its attempts.
func TestAuditSparesWaitingClaims(t *testing.T) {
	inBubble(t, func(p tenants) {
		stop := p.dispatch()
		p.class("a.fails", nil)
		p.claim("data", "a.fails")
		p.play(2*time.Hour + 10*time.Minute)
		for _, message := range p.said("OrphanFound") {
			t.Errorf("the claim waits, and the audit says: %s", message)
		}

		stop()
	})
}
