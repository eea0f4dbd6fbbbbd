//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Limits of waits. They are generous, since two cores run everything, and a wait that succeeds does not use them up.
const (
	soon    = 30 * time.Second
	patient = 150 * time.Second
	// glance is how often a condition is looked at that no watch tells of, such as a file of the node.
	glance = 100 * time.Millisecond
)

// watched is what the watches tell of the cluster.
type watched struct {
	claims, volumes, pods, events, leases cache.Store

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change
	// seen are all provisioner pods that there ever were, by name and UID, in their latest state.
	seen map[string]map[types.UID]*corev1.Pod
}

func watch(ctx context.Context, client kubernetes.Interface) (*watched, func(), error) {
	ctx, stop := context.WithCancel(ctx)
	factory := informers.NewSharedInformerFactory(client, 0)
	core, leases := factory.Core().V1(), factory.Coordination().V1().Leases().Informer()
	claims, volumes := core.PersistentVolumeClaims().Informer(), core.PersistentVolumes().Informer()
	pods, events := core.Pods().Informer(), core.Events().Informer()
	w := &watched{
		claims: claims.GetStore(), volumes: volumes.GetStore(), pods: pods.GetStore(), events: events.GetStore(), leases: leases.GetStore(),
		changed: make(chan struct{}), seen: map[string]map[types.UID]*corev1.Pod{},
	}
	for _, informer := range []cache.SharedIndexInformer{claims, volumes, pods, events, leases} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    w.change,
			UpdateFunc: func(_, obj any) { w.change(obj) },
			DeleteFunc: w.change,
		}); err != nil {
			stop()
			return nil, nil, fmt.Errorf("watch the cluster: %w", err)
		}
	}
	factory.StartWithContext(ctx)
	for kind, ok := range factory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			stop()
			return nil, nil, fmt.Errorf("watch the cluster: no %s", kind)
		}
	}
	return w, func() { stop(); factory.Shutdown() }, nil
}

func (w *watched) change(obj any) {
	if _, is := obj.(metav1.Object); is {
		listenTo(obj)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if pod, ok := obj.(*corev1.Pod); ok && pod.Labels[contract.LabelClaimUID] != "" {
		w.record(pod)
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// record is called with mu held.
func (w *watched) record(pod *corev1.Pod) {
	if w.seen[pod.Name] == nil {
		w.seen[pod.Name] = map[types.UID]*corev1.Pod{}
	}
	w.seen[pod.Name][pod.UID] = pod
}

func (w *watched) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

// ran are the pods that there ever were for the claim and the operation, by name. One name more than once means that
// an attempt was made twice.
func (w *watched) ran(operation contract.Operation, claim types.UID) []*corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	var pods []*corev1.Pod
	for _, name := range slices.Sorted(maps.Keys(w.seen)) {
		for _, pod := range w.seen[name] {
			if pod.Labels[contract.LabelClaimUID] == string(claim) && pod.Labels[contract.LabelOperation] == string(operation) {
				pods = append(pods, pod)
			}
		}
	}
	return pods
}

// all lists what a store holds and the condition picks.
func all[T metav1.Object](store cache.Store, pick func(T) bool) []T {
	var list []T
	for _, obj := range store.List() {
		if typed := obj.(T); pick(typed) {
			list = append(list, typed)
		}
	}
	slices.SortFunc(list, func(a, b T) int { return strings.Compare(a.GetName(), b.GetName()) })
	return list
}

// get is what a store has by the key, nil for nothing.
func get[T any](store cache.Store, key string) *T {
	obj, ok, _ := store.GetByKey(key)
	if !ok {
		return nil
	}
	return obj.(*T)
}

var errLate = errors.New("too late")

// await looks at every change in the cluster, until nothing is lacking or the limit has passed, and returns what was
// lacking then.
func (w *watched) await(limit time.Duration, lacking func() string) (string, error) {
	deadline := time.After(limit)
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for {
		next := w.next()
		lack := lacking()
		if lack == "" {
			return "", nil
		}
		select {
		case <-next:
		case <-tick.C:
		case <-deadline:
			return lack, errLate
		}
	}
}

// wait returns how long it took until nothing was lacking any more. The test ends if that takes longer than the limit.
func (s *scope) wait(limit time.Duration, what string, lacking func() string) time.Duration {
	s.Helper()
	began := time.Now()
	if lack, err := shared.await(limit, lacking); err != nil {
		s.Fatalf("%s: not within %s: %s", what, limit, lack)
	}
	return time.Since(began)
}

// like says whether the text is the pattern, in which each * stands for any text.
func like(pattern, text string) bool {
	return regexp.MustCompile("(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$").MatchString(text)
}

// told waits until an event on the object with the UID has the reason and a message like the pattern.
func (s *scope) told(limit time.Duration, about types.UID, reason, pattern string) time.Duration {
	s.Helper()
	return s.wait(limit, "event "+reason, func() string { return untold(about, reason, pattern) })
}

func untold(about types.UID, reason, pattern string) string {
	events := eventsOn(about)
	for _, event := range events {
		if event.Reason == reason && like(pattern, event.Message) {
			return ""
		}
	}
	return fmt.Sprintf("want %q\nhave %s", pattern, showEvents(events))
}

// eventsOn are the events of the object, the latest last.
func eventsOn(uid types.UID) []*corev1.Event {
	events := all(shared.events, func(e *corev1.Event) bool { return e.InvolvedObject.UID == uid })
	slices.SortStableFunc(events, func(a, b *corev1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) })
	return events
}

func showEvents(events []*corev1.Event) string {
	var lines []string
	for _, e := range events {
		lines = append(lines, fmt.Sprintf("\n  %s %s x%d: %s", e.Type, e.Reason, max(1, e.Count), e.Message))
	}
	if len(lines) == 0 {
		return "no event"
	}
	return strings.Join(lines, "")
}

// first is what is lacking for one of the things for which something is, and for how many.
func first[T any](things []T, lacking func(T) string) string {
	count, what := 0, ""
	for _, thing := range things {
		if lack := lacking(thing); lack != "" {
			count++
			what = lack
		}
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d, such as: %s", count, len(things), what)
}
