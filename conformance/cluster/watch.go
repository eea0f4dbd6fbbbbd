package cluster

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// maxLog is the limit in bytes on the log of a pod.
const maxLog = 1 << 20

// watcher records the provisioner pods of this run's claims by a watch. The dispatcher removes a pod as soon as it has acted on the
// outcome, so lists would miss pods.
type watcher struct {
	api       *client
	namespace string
	// ours is the prefix of the annotation AnnClaim of this run's pods.
	ours string
	logs bool

	mutex   sync.Mutex
	changed chan struct{} // closed and replaced at each change
	seen    []*seen
	running sync.WaitGroup
}

// seen is a provisioner pod.
type seen struct {
	*corev1.Pod            // as it was seen last
	since, until time.Time // seen first, and seen to have ended; zero while it has not
	gone         bool
	log          string
	logged       bool // the log was read, or is being read
}

func (s *seen) operation() contract.Operation {
	return contract.Operation(s.Labels[contract.LabelOperation])
}

func newWatcher(api *client, namespace, ours string, logs bool) *watcher {
	return &watcher{api: api, namespace: namespace, ours: ours, logs: logs, changed: make(chan struct{})}
}

// start watches the pods until watching ends. It returns once the watch has begun.
func (w *watcher) start(ctx, watching context.Context) error {
	note := func(object any, gone bool) { w.note(watching, object, gone) }
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewFilteredListWatchFromClient(w.api.core, "pods", w.namespace, func(o *metav1.ListOptions) {
			o.LabelSelector = contract.LabelOperation
		}),
		ObjectType: &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { note(object, false) },
			UpdateFunc: func(_, object any) { note(object, false) },
			DeleteFunc: func(object any) {
				if last, missed := object.(cache.DeletedFinalStateUnknown); missed {
					object = last.Obj
				}
				note(object, true)
			},
		},
	})
	w.running.Go(func() { informer.RunWithContext(watching) })
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return fmt.Errorf("watch pods in namespace %s: %w", w.namespace, ctx.Err())
	}
	return nil
}

func (w *watcher) note(ctx context.Context, object any, gone bool) {
	pod, is := object.(*corev1.Pod)
	if !is || !strings.HasPrefix(pod.Annotations[contract.AnnClaim], w.ours) {
		return
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	at := slices.IndexFunc(w.seen, func(s *seen) bool { return s.UID == pod.UID })
	if at < 0 {
		at = len(w.seen)
		w.seen = append(w.seen, &seen{since: time.Now()})
	}
	s := w.seen[at]
	s.Pod, s.gone = pod, gone
	if s.until.IsZero() && (gone || ended(pod)) {
		s.until = time.Now()
	}
	if w.logs && !gone && !s.logged && started(pod) {
		s.logged = true
		w.running.Go(func() { w.follow(ctx, s, pod) })
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// follow reads a log to its end. It misses the log of a pod that was removed too quickly.
func (w *watcher) follow(ctx context.Context, s *seen, pod *corev1.Pod) {
	stream, err := w.api.core.Get().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("log").
		Param("container", podspec.ContainerName).Param("follow", "true").Stream(ctx)
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(stream, maxLog))
		stream.Close()
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	s.log, s.logged = string(text), err == nil
}

// all returns the pods so far, in the order in which they were seen.
func (w *watcher) all() []seen {
	return w.some(func(seen) bool { return true })
}

// of returns the pods of an operation for a claim.
func (w *watcher) of(claim types.UID, operation contract.Operation) []seen {
	return w.some(func(s seen) bool {
		return s.Labels[contract.LabelClaimUID] == string(claim) && s.operation() == operation
	})
}

func (w *watcher) some(match func(seen) bool) []seen {
	if w == nil {
		return nil
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	var some []seen
	for _, s := range w.seen {
		if match(*s) {
			some = append(some, *s)
		}
	}
	return some
}

// await waits until the condition is true, and checks it at each change. It reports whether it became true.
func (w *watcher) await(ctx context.Context, condition func() bool) bool {
	for {
		w.mutex.Lock()
		changed := w.changed
		w.mutex.Unlock()
		if condition() {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

func started(pod *corev1.Pod) bool {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == podspec.ContainerName {
			return status.State.Running != nil || status.State.Terminated != nil
		}
	}
	return false
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
