package fake_test

import (
	"slices"
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// watch returns the statuses that shows of the volume see, until it is in one that does not pass or is gone.
func watch(t *testing.T, f *fake.Cinder, id string) (seen []string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		code, answer, err := act(t.Context(), f, "GET", "/volumes/"+id, "")
		if err != nil {
			t.Fatal(err)
		}
		if code == 404 {
			return append(seen, "gone")
		}
		status := field(answer, "status")
		seen = append(seen, status)
		if status != "creating" && status != "deleting" {
			return seen
		}
	}
	t.Fatalf("after 10 s it is still %s", seen[len(seen)-1])
	return nil
}

// TestPace: how often a passing status is seen, and what it ends in.
func TestPace(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*fake.Cinder)
		created []string
		deleted []string
	}{
		"as it comes":    {func(*fake.Cinder) {}, []string{"creating", "available"}, []string{"deleting", "gone"}},
		"at once":        {func(f *fake.Cinder) { f.SetPace(fake.Reads(0)) }, []string{"available"}, []string{"gone"}},
		"slow":           {func(f *fake.Cinder) { f.SetPace(fake.Reads(3)) }, []string{"creating", "creating", "creating", "available"}, []string{"deleting", "deleting", "deleting", "gone"}},
		"no host":        {func(f *fake.Cinder) { f.FailCreate("") }, []string{"creating", "error"}, []string{"gone"}},
		"broken backend": {func(f *fake.Cinder) { f.FailCreate("no") }, []string{"creating", "error"}, []string{"deleting", "gone"}},
		"stuck":          {func(f *fake.Cinder) { f.FailDelete() }, []string{"creating", "available"}, []string{"deleting", "error_deleting"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := fake.New(t)
			c.prepare(f)
			id := create(t, f)
			if created := watch(t, f, id); !slices.Equal(created, c.created) {
				t.Errorf("created: %q, want %q", created, c.created)
			}
			if status, answer, err := act(t.Context(), f, "DELETE", "/volumes/"+id, ""); err != nil || status != 202 {
				t.Fatalf("delete: %d %s %v", status, answer, err)
			}
			if deleted := watch(t, f, id); !slices.Equal(deleted, c.deleted) {
				t.Errorf("deleted: %q, want %q", deleted, c.deleted)
			}
		})
	}
}

func create(t *testing.T, f *fake.Cinder) (id string) {
	t.Helper()
	status, answer, err := act(t.Context(), f, "POST", "/volumes", `{"volume": {"size": 1}}`)
	if err != nil || status != 202 {
		t.Fatalf("create: %d %s %v", status, answer, err)
	}
	return field(answer, "id")
}

func TestPaceByTime(t *testing.T) {
	f := fake.New(t, fake.WithPace(fake.After(20*time.Millisecond)))
	began := time.Now()
	id := create(t, f)
	seen := watch(t, f, id)
	if seen[len(seen)-1] != "available" || time.Since(began) < 20*time.Millisecond {
		t.Errorf("%q after %s, want available after 20 ms", seen, time.Since(began))
	}
}
