package queue

import (
	"cmp"
	"slices"
)

// turns is a line in which namespaces take turns: within a namespace it is first come, first served. It is pure, and
// knows a namespace only while something of it waits.
type turns struct {
	order   []string            // namespaces, the one whose turn is next first
	waiting map[string][]waiter // by namespace, by their numbers
	last    uint64              // number given out
	length  int
}

type waiter struct {
	number uint64
	uid    string
}

// enter puts a UID last in its namespace. A namespace that is new comes last in turn. The number is what leave asks
// for.
func (t *turns) enter(namespace, uid string) (number uint64) {
	if t.waiting == nil {
		t.waiting = map[string][]waiter{}
	}

	if len(t.waiting[namespace]) == 0 {
		t.order = append(t.order, namespace)
	}

	t.last++
	t.length++
	t.waiting[namespace] = append(t.waiting[namespace], waiter{t.last, uid})

	return t.last
}

// first is the first of the namespace that has the fewest slots, or where several do, of the one whose turn comes
// first.
func (t *turns) first(slots func(namespace string) int) (namespace string, first waiter, ok bool) {
	fewest := 0
	for _, n := range t.order {
		if has := slots(n); !ok || has < fewest {
			namespace, first, fewest, ok = n, t.waiting[n][0], has, true
		}

		if fewest == 0 {
			break
		}
	}

	return namespace, first, ok
}

// leave takes a number out of the line. If it was served its namespace has had its turn.
func (t *turns) leave(namespace string, number uint64, served bool) {
	list := t.waiting[namespace]
	at, found := slices.BinarySearchFunc(list, number, func(w waiter, number uint64) int {
		return cmp.Compare(w.number, number)
	})
	if !found {
		return
	}

	t.length--
	if at == 0 {
		list[0] = waiter{} // the text of the UID ends with its wait, not with the list
		list = list[1:]
	} else {
		list = slices.Delete(list, at, at+1)
	}

	t.waiting[namespace] = list
	if len(list) > 0 && !served {
		return
	}

	at = slices.Index(t.order, namespace)
	t.order = slices.Delete(t.order, at, at+1)
	if len(list) > 0 {
		t.order = append(t.order, namespace)
	} else {
		delete(t.waiting, namespace)
	}
}

// postpone lets all others that wait go before the namespace.
func (t *turns) postpone(namespace string) {
	if at := slices.Index(t.order, namespace); at >= 0 {
		t.order = append(slices.Delete(t.order, at, at+1), namespace)
	}
}

// ahead is about how many go before one that enters now.
func (t *turns) ahead(namespace string) int {
	if len(t.waiting[namespace]) == 0 {
		return len(t.order)
	}

	return min(t.length, len(t.waiting[namespace])*len(t.order))
}
