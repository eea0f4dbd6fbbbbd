package fake

import (
	"fmt"
	"strings"
)

// Call is one request that came in, to Cinder or to Keystone.
type Call struct {
	Op       string // an action's name, or method and path, "GET /volumes/{id}"
	Method   string
	Path     string
	ID       string // what {id} stands for
	Body     string
	Status   int  // of the answer that was due; 0 where there was none to give
	Effect   bool // false where a fault kept Cinder from doing anything
	Identity bool // a call to Keystone
}

func (c Call) String() string { return fmt.Sprintf("%s %s %d", c.Op, c.ID, c.Status) }

// Calls is a log of calls in the order in which they came.
type Calls []Call

// Calls is the log since the start or the last ForgetCalls.
func (f *Cinder) Calls() Calls {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append(Calls(nil), f.calls...)
}

// ForgetCalls empties the log. Calls that are under way are not logged.
func (f *Cinder) ForgetCalls() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = nil
}

// Count is how many calls there were of an operation; "*" counts all calls to Cinder, none to Keystone.
func (c Calls) Count(op string) int { return len(c.Of(op)) }

// Of is the calls of an operation; "*" is all calls to Cinder.
func (c Calls) Of(op string) Calls {
	var of Calls
	for _, call := range c {
		if call.Op == op || op == "*" && !call.Identity {
			of = append(of, call)
		}
	}
	return of
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
		lines = append(lines, call.String())
	}
	return strings.Join(lines, "\n")
}
