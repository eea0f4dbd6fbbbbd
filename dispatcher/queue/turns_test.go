package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Each step is "enter UID...", "call: UID" for who is called and nobody, "back UID", "served UID" or "gone UID". A UID's
// first letter is its namespace, and "holds a" says that namespace a holds one more of what is waited for.
func TestTurns(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []string
	}{
		{"first come, first served", []string{"enter a1 a2 a3", "call: a1", "served a1", "call: a2", "served a2", "call: a3", "served a3", "call:"}},
		{"namespaces take turns", []string{"enter a1 a2 a3 b1 b2 c1", "call: a1", "served a1", "call: b1", "served b1", "call: c1", "served c1",
			"call: a2", "served a2", "call: b2", "served b2", "call: a3"}},
		{"a new namespace waits for one turn of each", []string{"enter a1 a2 a3 b1 b2", "call: a1", "served a1", "enter c1", "call: b1", "served b1", "call: a2", "served a2", "call: c1"}},
		{"one that comes alone again and again waits for one turn too", []string{"enter a1 a2 a3 b1", "call: a1", "served a1", "call: b1", "served b1",
			"enter b2", "call: a2", "served a2", "call: b2", "served b2", "enter b3", "call: a3"}},
		{"who is called keeps the turn until it is served", []string{"enter a1 a2 b1", "call: a1", "call: a2", "back a2", "back a1", "call: a1", "served a1", "call: b1"}},
		{"who comes back keeps its ticket", []string{"enter a1 a2 a3", "call: a1", "call: a2", "back a2", "back a1", "back a1", "call: a1", "call: a2", "call: a3"}},
		{"who comes back alone keeps its namespace's turn", []string{"enter a1 b1 b2", "call: a1", "call: b1", "served b1", "back a1", "call: a1"}},
		{"who goes without being served leaves the turn", []string{"enter a1 a2 b1", "call: a1", "gone a1", "call: a2", "served a2", "call: b1"}},
		{"who goes before it is called", []string{"enter a1 a2 b1", "gone a1", "call: a2", "served a2", "gone b1", "call:"}},
		{"who is served before it is called", []string{"enter a1 a2 b1", "served a2", "call: b1"}},
		{"who holds less goes first", []string{"enter a1 a2 b1 b2", "holds a", "call: b1", "served b1", "holds b", "call: a1", "served a1", "holds a", "call: b2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var q turns
			places, held := map[string]ticket{}, map[string]int{}
			for _, step := range c.steps {
				words, want, _ := strings.Cut(step, ":")
				do, uids := strings.Fields(words)[0], strings.Fields(words)[1:]
				if do == "call" {
					uid, _, _ := q.call(func(namespace string) int { return held[namespace] })
					if uid != strings.TrimSpace(want) {
						t.Fatalf("%s of %q: called %q", step, c.steps, uid)
					}
				}
				for _, uid := range uids {
					switch do {
					case "enter":
						places[uid] = q.enter(uid[:1], uid)
					case "back":
						q.back(places[uid], uid)
					case "served", "gone":
						q.leave(places[uid], do == "served")
						delete(places, uid)
					case "holds":
						held[uid]++
					}
				}
			}
			for uid, p := range places {
				q.leave(p, uid[0] == 'a')
			}
			if q.length != 0 || len(q.order) != 0 || len(q.byName) != 0 {
				t.Errorf("with nobody waiting there are %d, %d namespaces in turn, %d by name", q.length, len(q.order), len(q.byName))
			}
		})
	}
}

// TestTurnsAreFair draws steps at random: while a namespace waits for one turn no other has two, order within a namespace is
// kept, and nothing is left at the end.
func TestTurnsAreFair(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		var q turns
		places := map[string]ticket{}
		waiting := map[string][]string{}      // by namespace, in order
		passed := map[string]map[string]int{} // by namespace that waits and other: served since the former had a turn
		check := func(ok bool, format string, args ...any) {
			if !ok {
				t.Fatalf("seed %d: %s", seed, fmt.Sprintf(format, args...))
			}
		}
		for i := range 400 {
			namespace := fmt.Sprint("team-", r.IntN(1+r.IntN(6)))
			switch {
			case r.IntN(2) == 0:
				uid := fmt.Sprint(namespace, "/", i)
				check(q.ahead(namespace) <= q.length, "%d are ahead of %d", q.ahead(namespace), q.length)
				places[uid] = q.enter(namespace, uid)
				if len(waiting[namespace]) == 0 {
					passed[namespace] = map[string]int{}
				}
				waiting[namespace] = append(waiting[namespace], uid)
			case len(waiting[namespace]) > 0 && r.IntN(4) == 0: // somebody goes
				at := r.IntN(len(waiting[namespace]))
				q.leave(places[waiting[namespace][at]], false)
				delete(places, waiting[namespace][at])
				waiting[namespace] = slices.Delete(waiting[namespace], at, at+1)
			default:
				uid, p, ok := q.call(func(string) int { return 0 })
				check(ok == (len(places) > 0), "called %t with %d waiting", ok, len(places))
				if !ok {
					continue
				}
				check(waiting[p.namespace][0] == uid && p == places[uid], "called %s, of %s", uid, waiting[p.namespace])
				if r.IntN(5) == 0 {
					q.back(p, uid)
					continue
				}
				q.leave(p, true)
				delete(places, uid)
				waiting[p.namespace] = waiting[p.namespace][1:]
				passed[p.namespace] = map[string]int{}
				for other := range waiting {
					if other != p.namespace && len(waiting[other]) > 0 {
						passed[other][p.namespace]++
						check(passed[other][p.namespace] <= 1, "%s had two turns while %s waited for one", p.namespace, other)
					}
				}
			}
			check(q.length == len(places), "%d wait, length says %d", len(places), q.length)
		}
		for _, p := range places {
			q.leave(p, r.IntN(2) == 0)
		}
		check(q.length == 0 && len(q.order) == 0 && len(q.byName) == 0, "something is left of %v", q.byName)
	}
}
