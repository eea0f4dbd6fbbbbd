package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// atOnce is how many bare pods, and then claims, are made at once, in as many rounds.
const (
	atOnce = 20
	rounds = 3
)

// goals of Bound against a bare pod, one at a time and twenty at once, by how the kubelet learns that a container ended.
var podGoals = map[string][2]float64{"default": {0.3, 0.5}, "evented": {0.55, 0.7}}

// runPods measures on the real kubelet, interleaved, each at a random moment of a quiet node: case 4.
func runPods(ctx context.Context, s settings, r *report) error {
	goals, ok := podGoals[s.pleg]
	if !ok {
		return fmt.Errorf("-pleg=%s: say default or evented, as the cluster was started with", s.pleg)
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return fmt.Errorf("read %s (make cluster-up writes it): %w", s.kubeconfig, err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	b := &bench{client: client}
	if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	defer func() {
		ctx := context.WithoutCancel(ctx)
		removeClass(ctx, client, name)
		b.removeBare(ctx)
		_ = client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}) // the next run finds it if it stays
	}()
	if err := addClass(ctx, client, class{name: name, provisioner: contract.ProvisionerName}); err != nil {
		return err
	}
	if err := b.addBare(ctx); err != nil {
		return err
	}
	c := "4 real pods, PLEG " + s.pleg
	if err := b.single(ctx, r, c, s.n, goals[0]); err != nil {
		return err
	}
	if err := b.together(ctx, r, c, goals[1]); err != nil {
		return err
	}
	if s.peer != "" {
		if err := b.peer(ctx, r, c, s); err != nil {
			return err
		}
	}
	if err := b.parts(ctx, r, s.n/2); err != nil {
		return err
	}
	_, err = b.release(ctx)
	return err
}

// barePods are as many for each claim: when a bare pod's end is seen depends on the kubelet's rounds more than on the pod.
const barePods = 3

// single is bare pods, one bare provisioner and one claim in turn.
func (b *bench) single(ctx context.Context, r *report, c string, n int, goal float64) error {
	var bare, least, share, created, bound series
	for i := range n {
		for j := range barePods {
			if err := b.settle(ctx); err != nil {
				return err
			}
			took, err := b.barePod(ctx, fmt.Sprintf("bare-%d-%d", i, j), nil)
			if err != nil {
				return err
			}
			bare = append(bare, took)
		}
		if err := b.settle(ctx); err != nil {
			return err
		}
		floor, err := b.bareBound(ctx, fmt.Sprintf("least-%d", i))
		if err != nil {
			return err
		}
		if err := b.settle(ctx); err != nil {
			return err
		}
		course, err := b.claim(ctx, fmt.Sprintf("claim-%d", i))
		if err != nil {
			return err
		}
		if err := b.dropBare(ctx); err != nil {
			return err
		}
		least, share = append(least, floor), append(share, course.podCreated-course.annotated)
		created, bound = append(created, course.podCreated), append(bound, course.bound)
	}
	addSeries(r, figure{Case: c, What: "bare pod: create to Succeeded", Unit: "ms"}, bare)
	addSeries(r, figure{Case: c, What: "bare provisioner: claim created to Bound", Unit: "ms"}, least)
	addSeries(r, figure{Case: c, What: "claim created to pod created", Unit: "ms"}, created)
	addSeries(r, figure{Case: c, What: "annotated to pod created", Unit: "ms"}, share)
	addSeries(r, figure{Case: c, What: "claim created to Bound", Unit: "ms"}, bound)
	addRatios(r, c, "one at a time", goal, bare, least, bound)
	return nil
}

// together is twenty bare pods, twenty bare provisioners, and twenty claims.
func (b *bench) together(ctx context.Context, r *report, c string, goal float64) error {
	var bare, least, bound series
	measure := func(into *series, do func(i int) (time.Duration, error)) error {
		took, err := b.atOneTime(ctx, do)
		*into = append(*into, took...)
		return err
	}
	for round := range rounds {
		if err := measure(&bare, func(i int) (time.Duration, error) {
			return b.barePod(ctx, fmt.Sprintf("bare-%d-%d", round, i), nil)
		}); err != nil {
			return err
		}
		if err := measure(&least, func(i int) (time.Duration, error) {
			return b.bareBound(ctx, fmt.Sprintf("least-%d-%d", round, i))
		}); err != nil {
			return err
		}
		if err := b.dropBare(ctx); err != nil {
			return err
		}
		if err := measure(&bound, func(i int) (time.Duration, error) {
			course, err := b.claim(ctx, fmt.Sprintf("claim-%d-%d", round, i))
			return course.bound, err
		}); err != nil {
			return err
		}
	}
	addSeries(r, figure{Case: c, What: "20 at once: bare pod, create to Succeeded", Unit: "ms"}, bare)
	addSeries(r, figure{Case: c, What: "20 at once: bare provisioner: claim created to Bound", Unit: "ms"}, least)
	addSeries(r, figure{Case: c, What: "20 at once: claim created to Bound", Unit: "ms"}, bound)
	addRatios(r, c, "20 at once", goal, bare, least, bound)
	return nil
}

// addRatios adds what Bound is of a bare pod, and of the least that a provisioner pod can do.
func addRatios(r *report, c, how string, goal float64, bare, least, bound series) {
	r.add(figure{Case: c, What: "Bound : bare pod, " + how, Unit: "ratio", AtMost: goal}, bound.at(0.5)/bare.at(0.5))
	r.add(figure{Case: c, What: "bare provisioner's Bound : bare pod, " + how, Unit: "ratio"}, least.at(0.5)/bare.at(0.5))
	r.add(figure{Case: c, What: "Bound : bare provisioner's, " + how, Unit: "ratio"}, bound.at(0.5)/least.at(0.5))
	fmt.Fprintf(os.Stderr, "bench: %s: bare pod %.0f ms, bare provisioner %.0f ms, Bound %.0f ms\n", how, bare.at(0.5), least.at(0.5), bound.at(0.5))
}

// peer is the same for another provisioner, whose node has to be the cluster's.
func (b *bench) peer(ctx context.Context, r *report, c string, s settings) error {
	p, class, err := startPeer(ctx, s.peer, s.kubeconfig)
	if err != nil {
		return err
	}
	defer p.stop()
	var single, together series
	for i := range s.n {
		if err := b.settle(ctx); err != nil {
			return err
		}
		took, err := b.boundOf(ctx, fmt.Sprintf("peer-%d", i), class)
		if err != nil {
			return err
		}
		single = append(single, took)
	}
	for round := range rounds {
		took, err := b.atOneTime(ctx, func(i int) (time.Duration, error) {
			return b.boundOf(ctx, fmt.Sprintf("peer-%d-%d", round, i), class)
		})
		if err != nil {
			return err
		}
		together = append(together, took...)
	}
	addSeries(r, figure{Case: c, What: "peer: claim created to Bound", Unit: "ms"}, single)
	addSeries(r, figure{Case: c, What: "peer, 20 at once: claim created to Bound", Unit: "ms"}, together)
	return nil
}

// atOneTime is how long each took that was done at once, on a quiet node.
func (b *bench) atOneTime(ctx context.Context, do func(i int) (time.Duration, error)) (series, error) {
	if err := b.settle(ctx); err != nil {
		return nil, err
	}
	var all sync.WaitGroup
	took, faults := make(series, atOnce), make([]error, atOnce)
	for i := range atOnce {
		all.Go(func() { took[i], faults[i] = do(i) })
	}
	all.Wait()
	for _, fault := range faults {
		if fault != nil {
			return nil, fault
		}
	}
	return took, nil
}

// podParts are what a provisioner pod has beside a bare one, each measured alone.
var podParts = []struct {
	name  string
	dress func(*corev1.Pod)
}{
	{"nothing", func(*corev1.Pod) {}},
	{"token", func(pod *corev1.Pod) {
		mount(pod, "token", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{
			ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}}})
	}},
	{"annotations as files", func(pod *corev1.Pod) {
		mount(pod, "request", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{
			Path: "request", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['request']"}}}}})
	}},
	{"image volume", func(pod *corev1.Pod) {
		mount(pod, "flexctl", corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: image, PullPolicy: corev1.PullIfNotPresent}})
	}},
	{"init container", func(pod *corev1.Pod) {
		pod.Spec.InitContainers = []corev1.Container{{Name: "init", Image: image, Command: []string{"/bin/true"}}}
	}},
	{"the node's network", func(pod *corev1.Pod) { pod.Spec.HostNetwork = true }},
}

func mount(pod *corev1.Pod, name string, source corev1.VolumeSource) {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/mnt/" + name, ReadOnly: true})
}

// parts measures each part alone, in turn.
func (b *bench) parts(ctx context.Context, r *report, n int) error {
	took := make([]series, len(podParts))
	for i := range n {
		for j, part := range podParts {
			if err := b.settle(ctx); err != nil {
				return err
			}
			d, err := b.barePod(ctx, fmt.Sprintf("part-%d-%d", j, i), part.dress)
			if err != nil {
				return err
			}
			took[j] = append(took[j], d)
		}
	}
	for j, part := range podParts {
		addSeries(r, figure{Case: "4 parts of a pod, create to Succeeded", What: "a bare pod with " + part.name, Unit: "ms"}, took[j])
	}
	return nil
}
