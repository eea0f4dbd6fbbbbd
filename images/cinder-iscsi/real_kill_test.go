//go:build cinder

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// wire is a way to the real Cinder that can be cut at one request.
type wire struct {
	url   string
	proxy *httputil.ReverseProxy

	mu     sync.Mutex
	seen   int
	cutAt  int // 0 for nowhere
	blow   blow
	strike func()
}

func newWire(t testing.TB, endpoint string) *wire {
	t.Helper()
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{proxy: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: target.Scheme, Host: target.Host})}
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	w.url = server.URL + target.Path
	return w
}

// ServeHTTP passes requests on. At the one to be cut, either Cinder gets no request or the caller no answer.
func (w *wire) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	w.mu.Lock()
	w.seen++
	cut, b, strike := w.seen == w.cutAt, w.blow, w.strike
	w.mu.Unlock()
	if !cut {
		w.proxy.ServeHTTP(answer, request)
		return
	}
	if b.after {
		w.proxy.ServeHTTP(httptest.NewRecorder(), request.WithContext(context.WithoutCancel(request.Context())))
	}
	strike()
	panic(http.ErrAbortHandler)
}

// struck runs with a blow at the n-th request, and says whether there was one.
func (w *wire) struck(ctx context.Context, b blow, n int, run func(context.Context)) bool {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	var hit atomic.Bool
	w.mu.Lock()
	w.seen, w.cutAt, w.blow = 0, n, b
	w.strike = func() {
		hit.Store(true)
		if b.killed {
			kill()
		}
	}
	w.mu.Unlock()
	run(ctx)
	w.mu.Lock()
	w.cutAt = 0
	w.mu.Unlock()
	return hit.Load()
}

// Whatever call to the real Cinder a run dies at, or gets no answer to, the next one ends with one volume or none.
func TestRealCinderKilled(t *testing.T) {
	for how, config := range credentials(t) {
		if how != "noauth" {
			t.Skip("the calls are the same with Keystone, and its catalog names Cinder's own address")
		}
		for _, b := range blows {
			for _, op := range []contract.Operation{contract.Provision, contract.Delete} {
				t.Run(fmt.Sprintf("%s %s", op, b), func(t *testing.T) {
					t.Parallel()
					w := newWire(t, environment(t)["CINDER_ENDPOINT"])
					s := realStage(t, map[string]string{"cloud.conf": strings.ReplaceAll(config["cloud.conf"], environment(t)["CINDER_ENDPOINT"], w.url)})
					calls := 0
					for hit := true; hit; calls++ {
						hit = s.dieAndGoOn(w, op, b, calls+1)
					}
					if least := map[contract.Operation]int{contract.Provision: 6, contract.Delete: 5}[op]; calls-1 < least {
						t.Errorf("%d calls were struck, not at least %d", calls-1, least)
					}
					t.Logf("struck at each of %d calls", calls-1)
				})
			}
		}
	}
}

func (s *stage) dieAndGoOn(w *wire, op contract.Operation, b blow, n int) (hit bool) {
	s.t.Helper()
	ctx := s.t.Context()
	uid := "de1e0000-0000-4000-8000-" + fmt.Sprintf("%012x", time.Now().UnixNano()&0xffffffffffff)
	if op == contract.Delete {
		s.realRun(ctx, contract.Provision, uid).want(s.t, 0, "")
	}
	hit = w.struck(ctx, b, n, func(ctx context.Context) { s.realRun(ctx, op, uid) })
	s.realRun(ctx, op, uid).want(s.t, 0, "")
	if op == contract.Provision {
		found, err := s.client(s.t).Find(ctx, "pvc-"+uid)
		if err != nil || len(found) != 1 || found[0].Status != "in-use" || len(found[0].Attachments) != 1 {
			s.t.Errorf("%s at call %d: in cinder there is %+v, %v", b, n, found, err)
		}
		s.realRun(ctx, contract.Delete, uid).want(s.t, 0, "")
	}
	if found, err := s.client(s.t).Find(ctx, "pvc-"+uid); err != nil || len(found) != 0 || len(s.cluster.Secrets()) != 0 {
		s.t.Errorf("%s at call %d: left in cinder: %+v, %v; %d secrets", b, n, found, err, len(s.cluster.Secrets()))
	}
	return hit
}

// beganAttach writes into the real Cinder's database what one leaves that was killed in os-attach.
const beganAttach = `
import sqlite3, sys, uuid
cinder = sqlite3.connect("../../.cinder/state/cinder.sqlite", timeout=60)
cinder.execute("INSERT INTO volume_attachment (id, volume_id, attach_status, attach_mode, created_at, deleted) "
               "VALUES (?, ?, 'attaching', 'rw', datetime('now'), 0)", (str(uuid.uuid4()), sys.argv[1]))
cinder.commit()
`

// As TestCinderKilledInAttach, of which this is the original.
func TestRealCinderKilledInAttach(t *testing.T) {
	for _, attached := range []bool{false, true} {
		t.Run(fmt.Sprintf("attached=%t", attached), func(t *testing.T) {
			config, noauth := credentials(t)["noauth"]
			if !noauth {
				t.Skip("the calls are the same with Keystone")
			}
			s := realStage(t, config)
			uid := "de1e0000-0000-4000-8000-" + fmt.Sprintf("%012x", time.Now().UnixNano()&0xffffffffffff)
			s.realRun(t.Context(), contract.Provision, uid).want(t, 0, "")
			v := s.realVolume(uid)
			if err := s.client(t).Detach(t.Context(), v.ID, v.Attachments[0].AttachmentID); err != nil {
				t.Fatal(err)
			}
			if err := s.client(t).Reserve(t.Context(), v.ID); err != nil {
				t.Fatal(err)
			}
			began := exec.CommandContext(t.Context(), "python3", "-c", beganAttach, v.ID)
			if out, err := began.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if attached {
				s.realRun(t.Context(), contract.Provision, uid).want(t, 0, "")
			}
			got := s.realRun(t.Context(), contract.Delete, uid)
			got.want(t, 0, "")
			if !strings.Contains(got.log, string(cinder.Forget)) {
				t.Errorf("no attachment was in the way:\n%s", got.log)
			}
			if v := s.realVolume(uid); v != nil {
				t.Errorf("left in cinder: %+v", v)
			}
		})
	}
}

func (s *stage) realVolume(uid string) *cinder.Volume {
	s.t.Helper()
	found, err := s.client(s.t).Find(s.t.Context(), "pvc-"+uid)
	if err != nil || len(found) > 1 {
		s.t.Fatalf("in cinder there is %+v, %v", found, err)
	}
	if len(found) == 0 {
		return nil
	}
	return &found[0]
}
