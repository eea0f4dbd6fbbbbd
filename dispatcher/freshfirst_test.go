package dispatcher

import (
	"strings"
	"testing"
)

func TestFreshFirst(t *testing.T) {
	for _, c := range []struct{ name, pushed, popped string }{
		{"in the order they came", "A B C", "A B C"},
		{"others in the order they came", "a b c", "a b c"},
		{"fresh ones first", "a b A B", "A B a b"},
		{"others have every fourth turn", "a b A B C D E F G", "A B C a D E F b G"},
		{"one of the others alone does not wait", "a", "a"},
	} {
		q := freshFirst{isFresh: func(uid string) bool { return uid < "a" }}
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
	}
}
