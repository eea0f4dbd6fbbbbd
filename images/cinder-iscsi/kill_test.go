package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk/apiserver"
	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// blow is how one call goes wrong. A run that is killed makes no further call; one that only loses the connection goes on.
type blow struct {
	after, killed bool
}

func (b blow) String() string {
	return map[bool]string{false: "before", true: "after"}[b.after] + map[bool]string{false: " lost", true: " killed"}[b.killed]
}

var blows = []blow{{false, false}, {true, false}, {false, true}, {true, true}}

// struck runs with a blow at the n-th call to Cinder or Keystone, counted through, or to Kubernetes. It is false where the
// run has fewer calls.
func (s *stage) struck(ctx context.Context, b blow, n int, cluster bool, run func(context.Context) result) bool {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	var hit atomic.Bool
	strike := func() {
		hit.Store(true)
		if b.killed {
			kill()
		}
	}
	if cluster {
		s.cluster.SetFault(func(i int, _ string) apiserver.Fault {
			if i != n {
				return apiserver.Fault{}
			}
			return apiserver.Fault{Before: !b.after, After: b.after, Do: strike}
		})
		defer s.cluster.SetFault(nil)
		run(ctx)
		return hit.Load()
	}
	fault := fake.On("*").Nth(n).Do(func(fake.Call) { strike() }).Close()
	if b.after {
		fault = fault.AfterEffect()
	}
	armed := s.cinder.Fault(fault)
	defer armed.Remove()
	run(ctx)
	return hit.Load()
}

// eachStrike runs test for every call of a run and every blow until there are no more calls.
func eachStrike(t *testing.T, least int, test func(t *testing.T, strike func(*stage, func(context.Context) result) bool)) {
	for _, cluster := range []bool{false, true} {
		for _, b := range blows {
			t.Run(fmt.Sprintf("%s cluster=%t", b, cluster), func(t *testing.T) {
				t.Parallel()
				n, more := 1, true
				for ; more; n++ {
					more = false // so it stays where the test ends before its strike, or is not run
					t.Run(fmt.Sprintf("call %d", n), func(t *testing.T) {
						test(t, func(s *stage, run func(context.Context) result) bool {
							more = s.struck(t.Context(), b, n, cluster, run)
							return more
						})
					})
				}
				if calls := n - 2; !cluster && calls < least {
					t.Errorf("%d calls were struck, not at least %d", calls, least)
				}
			})
		}
	}
}

// After a run that died at any call, the next one ends with exactly one volume.
func TestKilledProvision(t *testing.T) {
	t.Parallel()
	eachStrike(t, 6, func(t *testing.T, strike func(*stage, func(context.Context) result) bool) {
		s := newStage(t)
		strike(s, s.provision)
		if len(s.cinder.Volumes()) > 1 {
			t.Fatalf("two volumes:\n%s", s.cinder.Volumes())
		}
		s.provision(t.Context()).want(t, 0, "")
		s.wantOne()
		s.delete(t.Context()).want(t, 0, "")
		s.wantNothing()
	})
}

// A provision that died at any call is undone without a trace, although nothing but the name is known; so is one that was
// refused, and died while it cleaned up behind itself.
func TestUndoOfKilledProvision(t *testing.T) {
	t.Parallel()
	for kind, connection := range map[string]fake.Connection{"iscsi": fake.ISCSI(), "nfs, which is refused": fake.NFS()} {
		t.Run(kind, func(t *testing.T) {
			eachStrike(t, 5, func(t *testing.T, strike func(*stage, func(context.Context) result) bool) {
				s := newStage(t, fake.WithConnection(connection), fake.WithPace(0))
				strike(s, s.provision)
				s.undo(t.Context()).want(t, 0, "")
				s.wantNothing()
			})
		})
	}
}

// A delete that died at any call is ended by the next one.
func TestKilledDelete(t *testing.T) {
	t.Parallel()
	eachStrike(t, 5, func(t *testing.T, strike func(*stage, func(context.Context) result) bool) {
		s := newStage(t)
		s.provision(t.Context()).want(t, 0, "")
		strike(s, s.delete)
		s.delete(t.Context()).want(t, 0, "")
		s.wantNothing()
	})
}

// Runs side by side, as when a node comes back, agree on one volume or fail and are run again.
func TestRunsSideBySide(t *testing.T) {
	t.Parallel()
	for range 5 {
		s := newStage(t)
		done := make(chan result)
		for range 3 {
			go func() { done <- s.provision(t.Context()) }()
		}
		for range 3 {
			<-done
		}
		s.provision(t.Context()).want(t, 0, "")
		if s.cluster.Volume(name) == nil {
			t.Fatal("no volume")
		}
		s.delete(t.Context()).want(t, 0, "")
		s.wantNothing()
	}
}

// A Cinder that was killed in os-attach has an attachment that its volume does not show. Cinder then refuses to delete, and
// with the attachment of the next try beside it, to end the connection; all the same nothing is left in the end.
func TestCinderKilledInAttach(t *testing.T) {
	t.Parallel()
	const server = "22222222-2222-2222-2222-222222222222"
	for _, c := range []struct {
		name     string
		status   string
		attached bool              // the next try came as far as that
		others   []fake.Attachment // of somebody else
		code     int
		message  string
		cleared  int // calls that removed an attachment
	}{
		{name: "undone at once", status: "attaching", cleared: 1},
		{name: "attached by the next try", status: "attaching", attached: true, cleared: 1},
		{name: "unreserved by an undo that died", status: "in-use", cleared: 1},
		{name: "wanted again after that", status: "in-use", attached: true, cleared: 1},
		{name: "a server's beside it", status: "attaching", others: []fake.Attachment{{Status: "attaching", Instance: server}}, code: 1,
			message: "cinder volume {v} is in-use by an attachment that is not ours; detach it there", cleared: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, fake.WithPace(0))
			v := s.cinder.AddVolume(fake.Volume{Name: name, Status: "attaching", Size: 10, Metadata: ourMetadata, Project: project, Attachments: c.others})
			s.cinder.BeginAttach(name)
			s.cinder.SetStatus(name, c.status)
			if c.attached {
				s.provision(t.Context()).want(t, 0, "")
			}
			s.undo(t.Context()).want(t, c.code, strings.ReplaceAll(c.message, "{v}", v.ID))
			if n := s.cinder.Calls().Count("DELETE /attachments/{id}"); n != c.cleared {
				t.Errorf("%d attachments were removed by themselves, want %d:\n%s", n, c.cleared, s.cinder.Calls())
			}
			if c.code == 0 {
				s.wantNothing()
			} else if left := s.cinder.Volume(name).Attachments; len(left) != 1 || left[0].Instance != server {
				t.Errorf("left: %+v", left)
			}
		})
	}
}
