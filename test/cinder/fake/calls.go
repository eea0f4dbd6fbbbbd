package fake

import (
	"slices"
	"strings"
)

// Call is one request that came in, to Cinder or to Keystone.
type Call struct {
	Op       string // an action's name, or method and path, "GET /volumes/{id}"
	Method   string
	Path     string
	ID       string // what {id} stands for
	Body     string // of a call to Cinder
	Identity bool   // a call to Keystone
}

// of reports whether the call is of an operation; "*" is all calls to Cinder.
func (c Call) of(op string) bool { return c.Op == op || op == "*" && !c.Identity }

// Calls is a log of calls in the order in which they came.
type Calls []Call

// Calls is the log since the start or the last ForgetCalls.
func (f *Cinder) Calls() Calls {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// ForgetCalls empties the log.
func (f *Cinder) ForgetCalls() { f.locked(func() { f.calls = nil }) }

// Count is how many calls there were of an operation; "*" counts all calls to Cinder, none to Keystone.
func (c Calls) Count(op string) int { return len(c.Of(op)) }

// Of is the calls of an operation; "*" is all calls to Cinder.
func (c Calls) Of(op string) Calls {
	return slices.DeleteFunc(slices.Clone(c), func(call Call) bool { return !call.of(op) })
}

// Ops is the operations in their order, without those on Keystone.
func (c Calls) Ops() []string {
	var ops []string
	for _, call := range c.Of("*") {
		ops = append(ops, call.Op)
	}
	return ops
}

func (c Calls) String() string {
	var lines []string
	for _, call := range c {
		lines = append(lines, call.Op+" "+call.ID)
	}
	return strings.Join(lines, "\n")
}
