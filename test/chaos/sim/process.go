package sim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// process is somebody who talks to the API server, and who may die between any two instructions. It is an
// http.RoundTripper.
type process struct {
	w    *World
	name string // in the trace
	role string // dispatcher or pod: whose faults it gets
	dead chan struct{}
	once sync.Once
	// refuse is why the API server does not talk to this process at all now.
	refuse func() error
	// halted is until when the process stands still, in nanoseconds since 1970.
	halted atomic.Int64
	// lists is of when its first lists are; zero for of now.
	lists time.Time
	// cuts are the watches that are open, to be closed by closing them.
	cuts atomic.Pointer[chan struct{}]
}

func (w *World) process(role, name string) *process {
	p := &process{w: w, role: role, name: name, dead: make(chan struct{})}
	cut := make(chan struct{})
	p.cuts.Store(&cut)
	return p
}

func (p *process) kill() { p.once.Do(func() { close(p.dead) }) }

func (p *process) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// cutWatches breaks every watch of the process.
func (p *process) cutWatches() {
	cut := make(chan struct{})
	close(*p.cuts.Swap(&cut))
}

// stands is for how long the process stands still yet.
func (p *process) stands() time.Duration { return time.Until(time.Unix(0, p.halted.Load())) }

// slowest is how late an answer of the API server may be: after that it answers every request with an error.
const slowest = time.Minute

var errDead = errors.New("the process is dead")

// pause is false if the process died or gave up first.
func (p *process) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return !p.isDead() && ctx.Err() == nil
	case <-p.dead:
	case <-ctx.Done():
	}
	return false
}

// RoundTrip is one call: on its way, taking effect, on its way back. The process may die, and the answer be lost, at each.
func (p *process) RoundTrip(hr *http.Request) (*http.Response, error) {
	r, err := apiserver.Read(hr)
	if err != nil {
		return nil, err
	}
	ctx, w := hr.Context(), p.w
	what := fmt.Sprintf("%s %s %s %s", p.name, r.Verb, r.Resource, r.Named())
	if p.isDead() {
		return nil, errDead
	}
	if p.stands() > 0 { // what would be asked meanwhile is decided anew afterwards
		p.pause(ctx, p.stands())
		return p.failed(hr, r, syscall.ECONNRESET)
	}
	if p.role == "dispatcher" && r.Verb != "watch" && w.faulty() {
		if w.dice.chance(w.plan.Rates["kill-dispatcher"], "kill", what) {
			w.drawn("kill-dispatcher")
			time.AfterFunc(w.dice.between(0, 4*time.Millisecond, "kill-when", what), func() { w.killDispatcher(p, "at "+what) })
		}
		if w.dice.chance(w.plan.Rates["dispatcher-pause"], "halt", what) {
			w.halt(p, what)
		}
	}
	if !p.pause(ctx, w.dice.between(100*time.Microsecond, 2*time.Millisecond, "there", what)) {
		// It may have been on the wire already.
		if r.Writes() && w.dice.chance(0.5, "wire", what) {
			code, _ := w.server.Do(r)
			w.trace.add(p.name, "%s %s%s -> %d, but died or gave up", r.Verb, r.Resource, path(r), code)
			w.served(p, r, code)
		}
		return nil, cmp(ctx.Err(), errDead)
	}
	if p.refuse != nil {
		if err := p.refuse(); err != nil {
			return p.failed(hr, r, err)
		}
	}
	if r.Verb == "watch" {
		return p.watch(hr, r)
	}
	if r.Group != "" && time.Since(w.trace.start) < w.plan.CRDs {
		return p.failed(hr, r, apiserver.Status(404, metav1.StatusReasonNotFound, "the server could not find the requested resource"))
	}
	fault := p.fault(r, what)
	if err := cmp(before(fault), w.refusal(r)); err != nil {
		return p.failed(hr, r, err)
	}
	if !p.lists.IsZero() && r.Initially() {
		r.AsOf = p.lists
	}
	foreign := p.role == "dispatcher" && r.Writes() && r.Resource == apiserver.Volumes && w.isForeign(r.Name)
	code, answer := w.server.Do(r)
	if p.role == "dispatcher" && r.Writes() {
		w.wrote(p, r, code)
	}
	if foreign && code < 300 {
		w.violate("%s: %s of volume %s, which another provisioner made", p.name, r.Verb, r.Name)
	}
	w.trace.add(p.name, "%s %s%s -> %d %s", r.Verb, r.Resource, path(r), code, fault)
	w.served(p, r, code)
	back := w.dice.between(100*time.Microsecond, 2*time.Millisecond, "back", what)
	if p.role == "dispatcher" && w.faulty() && w.dice.chance(w.plan.Rates["api-slow"], "api-slow", what) {
		w.drawn("api-slow")
		back = w.dice.between(time.Second, slowest, "api-slow", what, "back")
		w.turns.disturbed("api-slow", back)
	}
	if !p.pause(ctx, max(back, p.stands())) {
		return nil, cmp(ctx.Err(), errDead)
	}
	if err := after(fault); err != nil {
		return p.failed(hr, r, err)
	}
	return apiserver.Respond(hr, code, answer), nil
}

func cmp(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func path(r *apiserver.Request) string {
	text := ""
	if r.Namespace != "" {
		text = " " + r.Namespace
	}
	if name := r.Named(); name != "" {
		text += "/" + name
	}
	if r.Subresource != "" {
		text += "/" + r.Subresource
	}
	return text
}

// faults of calls, in the order in which they are drawn. Those of the second list lose the answer of a call that took
// effect.
var (
	faultsBefore = []string{"api-429", "api-500", "api-503", "api-409", "api-timeout"}
	faultsAfter  = []string{"lost-504", "lost-reset", "lost-500"}
)

func (p *process) fault(r *apiserver.Request, what string) string {
	if !p.w.faulty() {
		return ""
	}
	for _, list := range [][]string{faultsBefore, faultsAfter} {
		for _, name := range list {
			if name == "api-409" && (!r.Writes() || r.Verb == "create") {
				continue
			}
			if p.w.dice.chance(p.w.plan.Rates[name], name, what) {
				p.w.drawn(name)
				return name
			}
		}
	}
	return ""
}

func before(fault string) error {
	switch fault {
	case "api-429":
		return apiserver.Status(429, metav1.StatusReasonTooManyRequests, "the server has received too many requests")
	case "api-500":
		return apiserver.Status(500, metav1.StatusReasonInternalError, "Internal error occurred")
	case "api-503":
		return apiserver.Unavailable()
	case "api-409":
		return apiserver.Status(409, metav1.StatusReasonConflict, "the object has been modified")
	case "api-timeout":
		return syscall.ETIMEDOUT
	}
	return nil
}

func after(fault string) error {
	switch fault {
	case "lost-504":
		return apiserver.Status(504, metav1.StatusReasonTimeout, "request did not complete within requested timeout")
	case "lost-reset":
		return syscall.ECONNRESET
	case "lost-500":
		return apiserver.Status(500, metav1.StatusReasonInternalError, "etcdserver: request timed out")
	}
	return nil
}

func (p *process) failed(hr *http.Request, r *apiserver.Request, err error) (*http.Response, error) {
	p.w.trace.add(p.name, "%s %s%s -> %v", r.Verb, r.Resource, path(r), err)
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return nil, err
	}
	code, answer := apiserver.Failure(err)
	response := apiserver.Respond(hr, code, answer)
	if code == http.StatusTooManyRequests {
		response.Header.Set("Retry-After", "1")
	}
	return response, nil
}

func (p *process) watch(hr *http.Request, r *apiserver.Request) (*http.Response, error) {
	if (p.w.plan.Lists || !p.lists.IsZero()) && r.Initial() {
		return p.failed(hr, r, apiserver.Status(422, metav1.StatusReasonInvalid, "sendInitialEvents is forbidden"))
	}
	if p.w.faulty() {
		switch fault := p.fault(r, p.name+" watch "+r.Resource); fault {
		case "api-429", "api-500", "api-503":
			return p.failed(hr, r, before(fault))
		}
	}
	body := p.w.server.Watch(hr.Context(), r, p.lag, *p.cuts.Load())
	response := apiserver.Respond(hr, http.StatusOK, nil)
	response.Body, response.ContentLength = body, -1
	return response, nil
}

// lag is when the process hears of a change.
func (p *process) lag(resource, change string, at time.Time) time.Time {
	w := p.w
	at = at.Add(w.dice.between(100*time.Microsecond, 5*time.Millisecond, "lag", p.name, resource, change))
	if !w.faulty() {
		return at
	}
	if w.dice.chance(w.plan.Rates["lag"], "lagging", p.name, resource, change) {
		w.drawn("lag")
		at = at.Add(w.dice.between(0, 5*time.Second, "lag-long", p.name, resource, change))
	}
	if until := time.Unix(0, p.halted.Load()); until.After(at) {
		at = until
	}
	for _, key := range []string{resource, p.name + "/" + resource} {
		if until := w.lagsUntil(key); until.After(at) {
			at = until
		}
	}
	return at
}
