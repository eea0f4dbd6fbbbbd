package queue

import (
	"cmp"
	"slices"
)

// turns is who waits for the same thing, and in which order they get it: namespaces take turns, and within a namespace it is
// first come, first served. It is pure, and knows a namespace only while something of it waits.
//
// Who is called has not been served yet. It keeps its place, and its namespace the turn, until it leaves.
type turns struct {
	order  []*tenant // whose turn is next, first
	byName map[string]*tenant
	last   uint64 // number given out
	length int    // of all that wait to be called
}

// tenant is a namespace of which something waits.
type tenant struct {
	namespace string
	line      []waiter // to be called, by their numbers
	called    int      // how many were called and have not left
}

type waiter struct {
	number uint64
	uid    string
}

// ticket is the place of somebody who waits, until it leaves.
type ticket struct {
	namespace string
	number    uint64
}

// enter puts a UID last in its namespace. A namespace that is new comes last in turn.
func (t *turns) enter(namespace, uid string) ticket {
	n, ok := t.byName[namespace]
	if !ok {
		n = &tenant{namespace: namespace}
		if t.byName == nil {
			t.byName = map[string]*tenant{}
		}
		t.byName[namespace] = n
		t.order = append(t.order, n)
	}
	t.last++
	t.length++
	n.line = append(n.line, waiter{t.last, uid})
	return ticket{namespace, t.last}
}

// call calls the first of a namespace that holds least of what is waited for, or where several do, of the one whose turn
// comes first. It is not called again unless it comes back.
func (t *turns) call(held func(namespace string) int) (uid string, p ticket, ok bool) {
	var next *tenant
	least := 0
	for _, n := range t.order {
		if len(n.line) == 0 {
			continue
		}
		if holds := held(n.namespace); next == nil || holds < least {
			next, least = n, holds
		}
		if least == 0 {
			break
		}
	}
	if next == nil {
		return "", ticket{}, false
	}
	first := next.line[0]
	next.line[0] = waiter{} // the string goes with who is called, not with the line
	next.line = next.line[1:]
	next.called++
	t.length--
	return first.uid, ticket{next.namespace, first.number}, true
}

// back puts a UID that was called where it stood before. One that was not called stays where it is.
func (t *turns) back(p ticket, uid string) {
	n := t.byName[p.namespace]
	at, found := n.at(p.number)
	if found {
		return
	}
	n.line = slices.Insert(n.line, at, waiter{p.number, uid})
	n.called--
	t.length++
}

// leave ends the wait of who has the ticket. If it was served its namespace has had its turn.
func (t *turns) leave(p ticket, served bool) {
	n := t.byName[p.namespace]
	if at, found := n.at(p.number); found {
		n.line = slices.Delete(n.line, at, at+1)
		t.length--
	} else {
		n.called--
	}
	over := len(n.line)+n.called == 0
	if !over && !served {
		return
	}
	at := slices.Index(t.order, n)
	t.order = slices.Delete(t.order, at, at+1)
	if over {
		delete(t.byName, p.namespace)
	} else {
		t.order = append(t.order, n)
	}
}

// ahead is about how many are called before one that enters now.
func (t *turns) ahead(namespace string) int {
	n, ok := t.byName[namespace]
	if !ok {
		return len(t.order)
	}
	return min(t.length, len(n.line)*len(t.order))
}

// at is where in the line a number is, or belongs.
func (n *tenant) at(number uint64) (int, bool) {
	return slices.BinarySearchFunc(n.line, number, func(w waiter, number uint64) int { return cmp.Compare(w.number, number) })
}
