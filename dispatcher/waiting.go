package dispatcher

import (
	"fmt"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// ReasonConcurrency is of the event about a claim or volume that waits for its turn. docs/events.md explains it.
const ReasonConcurrency podspec.Reason = "ConcurrencyLimitReached"

// awaitTurn puts an attempt off while max-concurrent pods of its class run. It is asked before the facts are confirmed: a
// claim that waits costs the API server nothing. Who is woken later looks again, and confirms then.
func (d *Dispatcher) awaitTurn(f *facts, p *plan) {
	if p.create == nil {
		return
	}
	limit := f.config.MaxConcurrent
	used, tellAt, full := d.slots.full(f.class, d.lanes.namespace(f.uid), f.uid, podspec.Name(p.create.op, f.uid, p.create.number), limit)
	if !full {
		return
	}
	order := p.create
	*p = plan{reports: p.reports, again: p.again}
	if f.now.Before(tellAt) {
		p.look(tellAt)
		return
	}
	p.reports = append(p.reports, f.waitsForTurn(order, used, limit))
}

// waitsForTurn is told once for each wait: start clears what was told.
func (f *facts) waitsForTurn(o *order, used, limit int) report {
	r := report{on: onClaim, pod: o.record, reason: ReasonConcurrency, key: string(ReasonConcurrency),
		message: fmt.Sprintf("waiting for other provisioner pods of StorageClass %s to end: %d of at most %d (max-concurrent) are running or starting; "+
			"namespaces take turns, and no action is needed", f.class, used, limit)}
	switch {
	case o.op == contract.Delete && f.volume != nil:
		r.on = onVolume
	case f.claim == nil:
		r.on = onPod
	}
	return r
}
