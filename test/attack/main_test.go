//go:build e2e

package attack

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
)

// everything is what the cases share; it exists before the first.
var everything *world

func TestMain(m *testing.M) {
	flag.Parse()
	// Cases mostly wait, and Go would run no more of them at a time than there are cores.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(runAll(context.Background(), m))
}

func runAll(ctx context.Context, m *testing.M) int {
	var err error
	everything, err = setUp(ctx)
	if everything != nil {
		defer everything.takeDown()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		return 1
	}
	return m.Run()
}

// TestCases tries all cases of the tables, those that need to be alone after the others.
func TestCases(t *testing.T) {
	for _, alone := range []bool{false, true} {
		for _, view := range views {
			if view == "backend" {
				continue // TestBackend needs no cluster
			}
			data := read(t, view)
			t.Run(view, func(t *testing.T) {
				for _, a := range data.Cases {
					if a.Alone == alone {
						t.Run(a.Name, func(t *testing.T) {
							if !alone {
								t.Parallel()
							}
							try(t, data, a)
						})
					}
				}
			})
		}
	}
}

func try(t *testing.T, data table, a attempt) {
	t.Helper()
	if a.Verb != "" {
		if err := a.judge(everything.send(t.Context(), data, a)); err != nil {
			t.Error(err)
		}
		return
	}
	tell, known := stories[a.Story]
	if !known {
		t.Fatalf("there is no story %q", a.Story)
	}
	s := begin(t, a)
	tell(s)
}
