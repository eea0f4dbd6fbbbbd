package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Each step is "enter UID...", "first: UID" for who goes first and is served, or nobody, or "gone UID". A UID's first letter is its
// namespace, and "has a" says that namespace a has one more slot.
func TestTurns(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []string
	}{
		{"first come, first served", []string{"enter a1 a2 a3", "first: a1", "first: a2", "first: a3", "first:"}},
		{"namespaces take turns", []string{"enter a1 a2 a3 b1 b2 c1", "first: a1", "first: b1", "first: c1", "first: a2", "first: b2", "first: a3"}},
		{"a new namespace waits for one turn of each", []string{"enter a1 a2 a3 b1 b2", "first: a1", "enter c1", "first: b1", "first: a2", "first: c1"}},
		{"one that comes alone again and again waits for one turn too", []string{"enter a1 a2 a3 b1", "first: a1", "first: b1", "enter b2", "first: a2", "first: b2", "enter b3", "first: a3"}},
		{"who goes without being served leaves the turn", []string{"enter a1 a2 b1", "gone a1", "first: a2", "first: b1"}},
		{"who goes from the middle", []string{"enter a1 a2 a3 b1", "gone a2", "first: a1", "first: b1", "first: a3"}},
		{"who goes last takes its namespace along", []string{"enter a1 b1 b2", "gone a1", "first: b1", "enter a2", "first: b2", "first: a2"}},
		{"who has fewer slots goes first", []string{"enter a1 a2 b1 b2", "has a", "first: b1", "has b", "first: a1", "has a", "first: b2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var q turns
			numbers, slots := map[string]uint64{}, map[string]int{}
			leave := func(uid string, served bool) {
				q.leave(uid[:1], numbers[uid], served)
				q.leave(uid[:1], numbers[uid], served) // who is not in line leaves it as it is
				delete(numbers, uid)
			}
			for _, step := range c.steps {
				words, want, _ := strings.Cut(step, ":")
				do, names := strings.Fields(words)[0], strings.Fields(words)[1:]
				if do == "first" {
					_, w, ok := q.first(func(namespace string) int { return slots[namespace] })
					if w.uid != strings.TrimSpace(want) || ok != (w.uid != "") {
						t.Fatalf("%s of %q: %q goes first", step, c.steps, w.uid)
					}

					if ok {
						leave(w.uid, true)
					}
				}

				for _, name := range names {
					switch do {
					case "enter":
						numbers[name] = q.enter(name[:1], name)
					case "gone":
						leave(name, false)
					case "has":
						slots[name]++
					}
				}
			}

			for uid := range numbers {
				leave(uid, uid[0] == 'a')
			}

			if q.length != 0 || len(q.order) != 0 || len(q.waiting) != 0 {
				t.Errorf("with nobody waiting there are %d, %d namespaces in turn, %d with a line", q.length, len(q.order), len(q.waiting))
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
		numbers := map[string]uint64{}
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
				numbers[uid] = q.enter(namespace, uid)
				if len(waiting[namespace]) == 0 {
					passed[namespace] = map[string]int{}
				}

				waiting[namespace] = append(waiting[namespace], uid)
			case len(waiting[namespace]) > 0 && r.IntN(4) == 0: // somebody goes
				at := r.IntN(len(waiting[namespace]))
				q.leave(namespace, numbers[waiting[namespace][at]], false)
				delete(numbers, waiting[namespace][at])
				waiting[namespace] = slices.Delete(waiting[namespace], at, at+1)
			default:
				namespace, w, ok := q.first(func(string) int { return 0 })
				check(ok == (len(numbers) > 0), "%t goes first with %d waiting", ok, len(numbers))
				if !ok {
					continue
				}

				check(waiting[namespace][0] == w.uid && w.number == numbers[w.uid], "%s goes first, of %s", w.uid, waiting[namespace])
				q.leave(namespace, w.number, true)
				delete(numbers, w.uid)
				waiting[namespace] = waiting[namespace][1:]
				passed[namespace] = map[string]int{}
				for other := range waiting {
					if other != namespace && len(waiting[other]) > 0 {
						passed[other][namespace]++
						check(passed[other][namespace] <= 1, "%s had two turns while %s waited for one", namespace, other)
					}
				}
			}

			check(q.length == len(numbers), "%d wait, length says %d", len(numbers), q.length)
		}

		for uid, number := range numbers {
			namespace, _, _ := strings.Cut(uid, "/")
			q.leave(namespace, number, r.IntN(2) == 0)
		}

		check(q.length == 0 && len(q.order) == 0 && len(q.waiting) == 0, "something is left of %v", q.waiting)
	}
}
