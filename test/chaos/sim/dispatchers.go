package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/dispatcher"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/clock"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

type dispatcherProcess struct {
	*process
	cancel context.CancelFunc
	ended  chan struct{}
}

// startDispatcher starts a process of the real dispatcher.
func (w *World) startDispatcher() { w.startDispatcherWith(func(*process) {}) }

func (w *World) startDispatcherWith(prepare func(*process)) {
	w.mu.Lock()
	w.started++
	name := fmt.Sprintf("dispatcher-%d", w.started)
	w.mu.Unlock()
	p := &dispatcherProcess{process: w.process("dispatcher", name), ended: make(chan struct{})}
	prepare(p.process)
	var ahead time.Duration // of its node's clock
	if w.dice.chance(w.plan.Rates["leader-clock"], "leader-clock", name) {
		w.drawn("leader-clock")
		ahead = w.dice.between(-2*time.Hour, 2*time.Hour, "leader-clock", name, "ahead")
	}
	now := &clock.Clock{Local: func() time.Time { return time.Now().Add(ahead) }}
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(klog.NewContext(w.ctx, logr.Discard()))
	config := &rest.Config{Host: "http://apiserver", Transport: p.process, QPS: 200, Burst: 400,
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"}}
	if w.options.Wrap != nil {
		config.Wrap(w.options.Wrap)
	}
	config.Wrap(now.Wrap)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		panic(err)
	}
	var snapshots snapshotclient.Interface
	if w.snapshots != nil {
		snapshots = snapshotclient.NewForConfigOrDie(config)
	}
	d, err := dispatcher.New(ctx, client, dispatcher.Options{Snapshots: snapshots, ProvisionerName: contract.ProvisionerName, RecordKey: make([]byte, podspec.MinRecordKey), Registry: prometheus.NewRegistry(), Now: now.Now,
		SystemNamespace: contract.SystemNamespace, InsecureWithoutPolicies: true, // the double admits everything
		Pods: podspec.Cluster{Namespace: namespace, KubeAPI: "https://apiserver", FlexctlImage: "flexctl", ImageVolumes: true}})
	if err != nil {
		panic(err)
	}
	w.trace.add(name, "starts")
	w.set(func() { w.dispatchers = append(w.dispatchers, p) })
	go func() {
		defer close(p.ended)
		err := d.Run(ctx)
		if err != nil {
			w.diedYoung.Store(true)
		}
		w.trace.add(name, "ended: %v", err)
	}()
}

func (w *World) alive() []*dispatcherProcess {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []*dispatcherProcess
	for _, d := range w.dispatchers {
		if !d.isDead() {
			list = append(list, d)
		}
	}
	return list
}

// killDispatcher ends a process as SIGKILL does, as far as anybody can tell who is not in it. Another starts if it was
// the only one, unless all are away.
func (w *World) killDispatcher(p *process, why string) {
	for _, d := range w.alive() {
		if d.process == p && !w.over.Load() {
			w.trace.add(p.name, "is killed %s", why)
			d.kill()
			d.cancel()
			w.later(10*time.Millisecond, 20*time.Second, w.replaceDispatcher, "restart", p.name)
		}
	}
}

func (w *World) replaceDispatcher() {
	w.mu.Lock()
	away := w.away && w.faulty()
	w.mu.Unlock()
	if len(w.alive()) == 0 && !away && !w.over.Load() {
		w.startDispatcher()
	}
}

// sendAway ends all dispatchers, and starts none for a while.
func (w *World) sendAway(long time.Duration) {
	w.set(func() { w.away = true })
	for _, d := range w.alive() {
		w.killDispatcher(d.process, "and stays away")
	}
	time.AfterFunc(long, func() {
		w.set(func() { w.away = false })
		w.replaceDispatcher()
	})
}

func (w *World) disturbDispatchers(a Action) {
	alive := w.alive()
	if a.Do != "dispatcher-kill" {
		if len(alive) > 1 {
			return
		}
		w.startDispatcher()
		until := a.For
		if a.Do == "dispatcher-stale" {
			until += 20 * time.Second
			w.later(time.Second, 5*time.Second, func() { w.outdate(a) }, "outdate")
		}
		time.AfterFunc(until, func() {
			if alive := w.alive(); len(alive) > 1 {
				w.killDispatcher(alive[a.N%len(alive)].process, "as one of two leaders")
			}
		})
		return
	}
	if len(alive) > 0 {
		w.killDispatcher(alive[a.N%len(alive)].process, "by the plan")
	}
}

// outdate lets one of several dispatchers hear of nothing for a while, as one that is cut off or does not get a processor,
// and then of one kind after the other.
func (w *World) outdate(a Action) {
	if alive := w.alive(); len(alive) > 0 {
		w.deafen(alive[a.N%len(alive)].process, a.For)
	}
}

func (w *World) deafen(p *process, long time.Duration) {
	w.trace.add(p.name, "hears of nothing for %s", long)
	for _, resource := range []string{apiserver.Pods, apiserver.Claims, apiserver.Volumes, apiserver.ConfigMaps, apiserver.Classes, apiserver.Revisions, apiserver.Attachments} {
		until := time.Now().Add(long + w.dice.between(0, 5*time.Second, "outdate", p.name, resource))
		w.set(func() { w.lags[p.name+"/"+resource] = until })
	}
}

// replaceByOld replaces the leader by one whose first lists are old, and that hears of nothing new for a while: its API server is
// another one, behind the others.
func (w *World) replaceByOld(a Action) {
	alive := w.alive()
	if len(alive) != 1 {
		return
	}
	w.killDispatcher(alive[0].process, "as another one leads")
	w.startDispatcherWith(func(p *process) {
		p.lists = time.Now().Add(-a.For)
		w.deafen(p, w.dice.between(0, 20*time.Second, "old-lists", p.name))
	})
}

// leaseLasts is how long a leader may say nothing before another one leads.
const leaseLasts = 15 * time.Second

// halt stops a leader for longer than its Lease lasts. It goes on for a moment before it sees that another one leads.
func (w *World) halt(p *process, what string) {
	if len(w.alive()) != 1 {
		return
	}
	long := leaseLasts + w.dice.between(5*time.Second, 90*time.Second, "halt", p.name)
	w.drawn("dispatcher-pause")
	w.turns.disturbed("dispatcher-pause", long)
	w.trace.add(p.name, "stands still for %s, at %s", long, what)
	p.halted.Store(time.Now().Add(long).UnixNano())
	time.AfterFunc(leaseLasts, func() {
		if !w.over.Load() && !p.isDead() {
			w.startDispatcher()
		}
	})
	time.AfterFunc(long+w.dice.between(0, 5*time.Second, "halt", p.name, "goes on"), func() { w.killDispatcher(p, "as it does not lead any more") })
}

// wrote counts what a dispatcher writes.
func (w *World) wrote(p *process, r *apiserver.Request, code int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes++
	w.lastWrite = fmt.Sprintf("%s %s %s%s -> %d", p.name, r.Verb, r.Resource, path(r), code)
}

// served checks what a dispatcher does.
func (w *World) served(p *process, r *apiserver.Request, code int) {
	var pod corev1.Pod
	if p.role != "dispatcher" || r.Resource != apiserver.Pods || r.Verb != "create" || code != 201 || json.Unmarshal(r.Body(), &pod) != nil {
		return
	}
	w.orderedAt(&pod)
	if stopped := w.stopped(); operation(&pod) == contract.DeleteSnapshot && stopped > decided {
		w.violate("%s creates %s, %s after all deletions were stopped", p.name, pod.Name, stopped)
	}
	if operation(&pod) == contract.Delete {
		w.ordered(p.name, &pod)
	}
}
