package queue

import (
	"fmt"
	"strings"
	"testing"
)

// Capitals are fresh. What follows a UID's first letter is its namespace.
func TestOrder(t *testing.T) {
	for _, c := range []struct{ name, pushed, popped string }{
		{"in the order they came", "A B C", "A B C"},
		{"others in the order they came", "a b c", "a b c"},
		{"fresh ones first", "a b A B", "A B a b"},
		{"others have every fourth turn", "a b A B C D E F G", "A B C a D E F b G"},
		{"one of the others alone does not wait", "a", "a"},
		{"namespaces take turns", "A1 B1 C1 D2", "A1 D2 B1 C1"},
		{"and among the others", "a1 b1 c1 d2 e2 f3", "a1 d2 f3 b1 e2 c1"},
		{"turns of the fresh and of the others do not count together", "a1 b2 A1 B1 C2", "A1 C2 B1 a1 b2"},
	} {
		q := ranking{of: func(uid string) (string, bool) { return uid[1:], uid < "a" }}
		var popped []string
		for uid := range strings.FieldsSeq(c.pushed) {
			q.Push(uid)
		}

		for q.Len() > 0 {
			popped = append(popped, q.Pop())
		}

		if got := strings.Join(popped, " "); got != c.popped {
			t.Errorf("%s: %s came as %s, want %s", c.name, c.pushed, got, c.popped)
		}

		if left := fmt.Sprint(len(q.fresh.waiting), len(q.others.waiting), len(q.fresh.order), len(q.others.order)); left != "0 0 0 0" {
			t.Errorf("%s: namespaces are left: %s", c.name, left)
		}
	}
}
