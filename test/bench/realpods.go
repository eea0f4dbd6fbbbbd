package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
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
		_ = client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}) // the next run finds it if it stays
	}()
	if err := addClass(ctx, client, class{name: name, provisioner: contract.ProvisionerName}); err != nil {
		return err
	}
	c := "4 real pods, PLEG " + s.pleg
	if err := b.single(ctx, r, c, s.n, goals[0]); err != nil {
		return err
	}
	if err := b.together(ctx, r, c, goals[1]); err != nil {
		return err
	}
	return b.release(ctx)
}

// barePods are as many for each claim: when a bare pod's end is seen depends on the kubelet's rounds more than on the pod.
const barePods = 3

// single is bare pods and one claim in turn.
func (b *bench) single(ctx context.Context, r *report, c string, n int, goal float64) error {
	var bare, bound series
	for i := range n {
		for j := range barePods {
			if err := b.settle(ctx); err != nil {
				return err
			}
			took, err := b.barePod(ctx, fmt.Sprintf("bare-%d-%d", i, j))
			if err != nil {
				return err
			}
			bare = append(bare, took)
		}
		if err := b.settle(ctx); err != nil {
			return err
		}
		took, err := b.bound(ctx, fmt.Sprintf("claim-%d", i))
		if err != nil {
			return err
		}
		bound = append(bound, took)
	}
	addSeries(r, figure{Case: c, What: "bare pod: create to Succeeded", Unit: "ms"}, bare)
	addSeries(r, figure{Case: c, What: "claim created to Bound", Unit: "ms"}, bound)
	addRatio(r, c, "one at a time", goal, bare, bound)
	return nil
}

// together is twenty bare pods, and twenty claims.
func (b *bench) together(ctx context.Context, r *report, c string, goal float64) error {
	var bare, bound series
	measure := func(into *series, do func(i int) (time.Duration, error)) error {
		took, err := b.atOneTime(ctx, do)
		*into = append(*into, took...)
		return err
	}
	for round := range rounds {
		if err := measure(&bare, func(i int) (time.Duration, error) {
			return b.barePod(ctx, fmt.Sprintf("bare-%d-%d", round, i))
		}); err != nil {
			return err
		}
		if err := measure(&bound, func(i int) (time.Duration, error) {
			return b.bound(ctx, fmt.Sprintf("claim-%d-%d", round, i))
		}); err != nil {
			return err
		}
	}
	addSeries(r, figure{Case: c, What: "20 at once: bare pod, create to Succeeded", Unit: "ms"}, bare)
	addSeries(r, figure{Case: c, What: "20 at once: claim created to Bound", Unit: "ms"}, bound)
	addRatio(r, c, "20 at once", goal, bare, bound)
	return nil
}

// addRatio adds what Bound is of a bare pod.
func addRatio(r *report, c, how string, goal float64, bare, bound series) {
	r.add(figure{Case: c, What: "Bound : bare pod, " + how, Unit: "ratio", AtMost: goal}, bound.at(0.5)/bare.at(0.5))
	fmt.Fprintf(os.Stderr, "bench: %s: bare pod %.0f ms, Bound %.0f ms\n", how, bare.at(0.5), bound.at(0.5))
}

// atOneTime is how long each took that was done at once, on a quiet node.
func (b *bench) atOneTime(ctx context.Context, do func(i int) (time.Duration, error)) (series, error) {
	if err := b.settle(ctx); err != nil {
		return nil, err
	}
	took := make(series, atOnce)
	err := inParallel(ctx, atOnce, atOnce, func(i int) (err error) {
		took[i], err = do(i)
		return err
	})
	return took, err
}
