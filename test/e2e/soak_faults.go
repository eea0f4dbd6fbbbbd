//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/cluster"
)

// fault is done to the cluster, and undone before it returns.
type fault struct {
	name   string
	weight int
	// ends reports whether it ends the dispatcher, or may.
	ends bool
	do   func(k *soak, ctx context.Context) error
}

// soakFaults are drawn by their weights.
var soakFaults = []fault{
	{"dispatcher killed", 4, true, (*soak).killDispatcher},
	{"dispatcher cut off", 2, true, (*soak).cutDispatcher},
	{"pods killed", 6, false, (*soak).killPods},
	{"pods deleted", 3, false, (*soak).deletePods},
	{"kubelet killed", 2, false, crash("cluster", "kubelet")},
	{"kube-controller-manager killed", 2, false, crash("cluster", "kube-controller-manager")},
	{"kube-scheduler killed", 1, false, crash("cluster", "kube-scheduler")},
	{"API server killed", 2, true, crash("cluster", "kube-apiserver")},
	{"etcd killed", 1, true, crash("cluster", "etcd")},
	{"Cinder killed", 3, false, (*soak).killCinder},
	{"iSCSI target killed", 1, false, crash("cinder", "tgtd")},
	{"ConfigMap edited", 3, false, (*soak).editConfigMap},
	{"ConfigMap broken", 1, false, (*soak).breakConfigMap},
	{"ConfigMap deleted", 2, false, (*soak).deleteConfigMap},
	{"Secret deleted", 2, false, (*soak).deleteSecret},
	{"StorageClass deleted", 1, false, (*soak).deleteStorageClass},
	{"node lost", 2, false, (*soak).loseSpareNode},
}

// faults does one after the other until ctx ends; from a time on only those that leave the dispatcher alive.
func (k *soak) faults(ctx context.Context, gentle time.Time) {
	for {
		sleep(ctx, k.between(3, 15))
		if ctx.Err() != nil {
			return
		}
		f := k.drawFault(time.Now().After(gentle))
		k.mu.Lock()
		k.struck[f.name]++
		k.mu.Unlock()
		// Not ctx: what was begun is undone.
		if err := f.do(k, k.Context()); err != nil {
			k.violated("fault %q could not be done or undone: %v", f.name, err)
		}
	}
}

func (k *soak) drawFault(gentle bool) fault {
	choice := slices.DeleteFunc(slices.Clone(soakFaults), func(f fault) bool { return gentle && f.ends })
	total := 0
	for _, f := range choice {
		total += f.weight
	}
	n := k.roll(total)
	for _, f := range choice {
		if n -= f.weight; n < 0 {
			return f
		}
	}
	panic("unreachable: the weights do not add up")
}

func (k *soak) roll(n int) int { return k.faultDice.IntN(n) }

func (k *soak) between(least, most int) time.Duration {
	return time.Duration(least*1000+k.roll((most-least)*1000)) * time.Millisecond
}

// killDispatcher leaves the start of the next one to the kubelet, or where that would wait for long by now, to the
// Deployment. One whose container has not been started is left.
func (k *soak) killDispatcher(ctx context.Context) error {
	for _, pod := range all(shared.pods, isDispatcher) {
		if !slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.ContainerID != "" }) {
			continue
		}
		if err := killed(ctx, pod); err != nil && !gone(err) {
			return err
		}
		if slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.RestartCount > 1 }) {
			if err := deleteNow(ctx, pod); err != nil {
				return err
			}
		}
	}
	return nil
}

func deleteNow(ctx context.Context, pod *corev1.Pod) error {
	now := int64(0)
	return persist(ctx, func() error {
		options := metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID}}
		return shared.admin.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
	}, apierrors.IsNotFound, apierrors.IsConflict)
}

// gone is what containerd says of a container that has ended by itself.
func gone(err error) bool {
	return slices.ContainsFunc([]string{"not found", "already finished", "ttrpc: closed"}, func(text string) bool { return strings.Contains(err.Error(), text) })
}

func (k *soak) cutDispatcher(ctx context.Context) error {
	pods := all(shared.pods, isDispatcher)
	if len(pods) == 0 || pods[0].Status.PodIP == "" {
		return nil
	}
	address := pods[0].Status.PodIP + "/32"
	if _, err := command(ctx, "test/cluster/enter.sh", "ip", "route", "add", "blackhole", address); err != nil {
		return err
	}
	sleep(ctx, k.between(2, 25))
	_, err := command(context.Background(), "test/cluster/enter.sh", "ip", "route", "del", "blackhole", address)
	return err
}

// runningPods are up to three of the provisioner pods whose containers run.
func (k *soak) runningPods() []*corev1.Pod {
	pods := slices.DeleteFunc(k.pods(), func(p *corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning })
	for i := range pods {
		j := i + k.roll(len(pods)-i)
		pods[i], pods[j] = pods[j], pods[i]
	}
	return pods[:min(3, len(pods))]
}

func (k *soak) killPods(ctx context.Context) error {
	for _, pod := range k.runningPods() {
		if pod.Spec.NodeName == k.hollow.name {
			k.hollow.kill(pod)
		} else if err := killed(ctx, pod); err != nil && !gone(err) {
			return err
		}
	}
	return nil
}

func (k *soak) deletePods(ctx context.Context) error {
	for _, pod := range k.runningPods() {
		if err := deleteNow(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

// crash kills a program of test/cluster or test/cinder and starts it again.
func crash(of, program string) func(*soak, context.Context) error {
	ctl := "test/" + of + "/ctl.sh"
	return func(k *soak, ctx context.Context) error {
		if _, err := command(ctx, ctl, "kill", program); err != nil {
			return err
		}
		sleep(ctx, k.between(0, 6))
		_, err := command(context.Background(), ctl, "start", program)
		return err
	}
}

func (k *soak) killCinder(ctx context.Context) error {
	if err := crash("cinder", "cinder")(k, ctx); err != nil {
		return err
	}
	return k.cinder.resetStuck()
}

// loseSpareNode takes the power of a node for up to a minute. Every second time the node comes back with an empty disk.
func (k *soak) loseSpareNode(ctx context.Context) error {
	node := spareNodes[k.roll(len(spareNodes))]
	if _, err := command(ctx, "test/cluster/ctl.sh", "kill", node); err != nil {
		return err
	}
	sleep(ctx, k.between(5, 60))
	start := []string{"test/cluster/ctl.sh", "start", node}
	if k.roll(2) == 0 {
		_, err := command(context.Background(), start...)
		return err
	}
	if _, err := command(context.Background(), append(start, "--empty")...); err != nil {
		return err
	}
	return cluster.LoadImages(context.Background(), repository, "*", "--node", node)
}

// oneClass draws a class.
func (k *soak) oneClass() *soakClass { return k.classes[k.roll(len(k.classes))] }

func (k *soak) editConfigMap(ctx context.Context) error {
	class := k.oneClass()
	return class.widen(ctx, class.pods/2+k.roll(class.pods))
}

// widen changes how many pods of the class may be at work.
func (c *soakClass) widen(ctx context.Context, pods int) error {
	return patchConfigMap(ctx, c.id, fmt.Sprintf(`{"data":{"max-concurrent":"%d"}}`, pods))
}

// breakConfigMap gives Cinder's class a property that the image refuses, for a while.
func (k *soak) breakConfigMap(ctx context.Context) error {
	name := k.classes[1].id
	if err := patchConfigMap(ctx, name, `{"data":{"no-such-property":"1"}}`); err != nil {
		return err
	}
	sleep(ctx, k.between(1, 10))
	return patchConfigMap(ctx, name, `{"data":{"no-such-property":null}}`)
}

func patchConfigMap(ctx context.Context, name, patch string) error {
	configMaps := shared.admin.CoreV1().ConfigMaps(contract.ProvisionersNamespace)
	return persist(ctx, func() error {
		_, err := configMaps.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
}

func (k *soak) deleteConfigMap(ctx context.Context) error {
	return awayFor(ctx, k.between(1, 10), shared.admin.CoreV1().ConfigMaps(contract.ProvisionersNamespace), k.oneClass().id)
}

func (k *soak) deleteSecret(ctx context.Context) error {
	name := []string{k.classes[0].id, "cinder-cloud-config"}[k.roll(2)]
	return awayFor(ctx, k.between(1, 10), shared.admin.CoreV1().Secrets(contract.ProvisionersNamespace), name)
}

func (k *soak) deleteStorageClass(ctx context.Context) error {
	return awayFor(ctx, k.between(1, 10), shared.admin.StorageV1().StorageClasses(), k.oneClass().name)
}

// kind is a client for one kind of object.
type kind[T metav1.Object] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// awayFor deletes an object and makes it again after a while as it was.
func awayFor[T metav1.Object](ctx context.Context, while time.Duration, objects kind[T], name string) error {
	var was T
	if err := persist(ctx, func() (err error) { was, err = objects.Get(ctx, name, metav1.GetOptions{}); return err }); err != nil {
		return err
	}
	if err := persist(ctx, func() error { return objects.Delete(ctx, name, metav1.DeleteOptions{}) }, apierrors.IsNotFound); err != nil {
		return err
	}
	sleep(ctx, while)
	was.SetResourceVersion("")
	was.SetUID("")
	return persist(ctx, func() error { _, err := objects.Create(ctx, was, metav1.CreateOptions{}); return err }, apierrors.IsAlreadyExists)
}

// footprint is what a dispatcher takes of its machine.
type footprint struct {
	goroutines, resident, heap float64
}

// footprint reads it when the dispatcher has nothing to do.
func (k *soak) footprint(when string) footprint {
	k.Helper()
	var f footprint
	k.wait(patient, "metrics", func() string {
		var err error
		if f, err = k.measure(k.Context()); err != nil {
			return err.Error()
		}
		return ""
	})
	k.Logf("dispatcher at the %s: %s", when, f)
	return f
}

func (f footprint) String() string {
	return fmt.Sprintf("%.0f goroutines, %.1f MB resident, %.1f MB heap", f.goroutines, f.resident/1e6, f.heap/1e6)
}

// profiledDispatcher starts a dispatcher whose heap can be looked into.
func profiledDispatcher(ctx context.Context) error {
	_, err := kubectl(ctx, "-n", contract.SystemNamespace, "patch", "deployment", "flex-provisioner", "--type=json",
		"-p", `[{"op": "add", "path": "/spec/template/spec/containers/0/args", "value": ["--profiling"]}]`)
	if err != nil {
		return err
	}
	return newDispatcher(ctx)
}

// heapProfiles is where a soak leaves what the dispatcher's memory was taken by.
var heapProfiles = filepath.Join(repository, ".cluster", "soak")

// keepHeap leaves a profile for go tool pprof, where -base shows what has grown since an earlier one.
func (k *soak) keepHeap(ctx context.Context, began time.Time) error {
	pods := dispatchers()
	if len(pods) == 0 {
		return fmt.Errorf("no dispatcher is ready")
	}
	profile, err := shared.admin.CoreV1().Pods(pods[0].Namespace).ProxyGet("http", pods[0].Name, "8080", "debug/pprof/heap", map[string]string{"gc": "1"}).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("profile %s: %w", pods[0].Name, err)
	}
	if err := os.MkdirAll(heapProfiles, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(heapProfiles, fmt.Sprintf("heap-%02.0f.pb.gz", time.Since(began).Minutes())), profile, 0o644)
}

func (k *soak) measure(ctx context.Context) (footprint, error) {
	pods := dispatchers()
	if len(pods) == 0 {
		return footprint{}, fmt.Errorf("no dispatcher is ready")
	}
	text, err := metricsOf(ctx, pods[0])
	if err != nil {
		return footprint{}, err
	}
	values := map[string]float64{}
	for lines := bufio.NewScanner(strings.NewReader(string(text))); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			values[name] = n
		}
	}
	f := footprint{values["go_goroutines"], values["process_resident_memory_bytes"], values["go_memstats_heap_inuse_bytes"]}
	if f.goroutines == 0 || f.resident == 0 {
		return f, fmt.Errorf("the metrics of %s do not tell", pods[0].Name)
	}
	return f, nil
}

// sameFootprint allows what a heap differs by from one collection to the next.
func (k *soak) sameFootprint(start, end footprint) {
	k.Helper()
	if more := end.goroutines - start.goroutines; more > 10 {
		k.Errorf("the dispatcher has %.0f goroutines more than at the start", more)
	}
	if end.resident > 1.25*start.resident+10e6 {
		k.Errorf("the dispatcher takes %.1f MB, at the start %.1f MB", end.resident/1e6, start.resident/1e6)
	}
}

// report prints, every minute, how far everything is.
func (k *soak) report(ctx context.Context, began time.Time) {
	for minute := 1; ; minute++ {
		sleep(ctx, time.Minute)
		if ctx.Err() != nil {
			return
		}
		if minute%5 == 0 {
			if err := k.keepHeap(ctx, began); err != nil {
				k.say(began, "no profile: %v", err)
			}
		}
		phases := map[string]int{}
		for _, l := range k.all() {
			switch {
			case l.finishing.Load() && !l.stays:
				phases["ended"]++
			case l.wasBound():
				phases["bound"]++
			default:
				phases["waiting"]++
			}
		}
		foot, err := k.measure(ctx)
		if err != nil {
			k.say(began, "%v, %d provisioner pods, dispatcher: %v", phases, len(k.pods()), err)
			continue
		}
		k.say(began, "%v, %d provisioner pods, dispatcher: %s", phases, len(k.pods()), foot)
	}
}
