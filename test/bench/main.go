// Command bench measures the dispatcher on a running cluster: claims against bare pods of the same image, interleaved and
// at random moments, so that nothing locks on to the kubelet's one-second rounds. It prints; it asserts nothing.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", ".cluster/kubeconfig", "`file` that says how to reach the cluster")
	n := flag.Int("n", 50, "claims, and bare pods, to measure")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *kubeconfig, *n); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string, n int) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("read %s (make cluster-up writes it): %w", kubeconfig, err)
	}
	config.QPS, config.Burst = 500, 1000
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	b := &bench{client: client}
	if err := b.setUp(ctx); err != nil {
		return err
	}
	defer b.tearDown(context.WithoutCancel(ctx))
	var bare, annotated, created, share, bound series
	for i := range n {
		pause(ctx)
		took, err := b.barePod(ctx, i)
		if err != nil {
			return err
		}
		bare = append(bare, took)
		pause(ctx)
		c, err := b.claim(ctx, i)
		if err != nil {
			return err
		}
		annotated, created, share = append(annotated, c.annotated), append(created, c.podCreated), append(share, c.podCreated-c.annotated)
		bound = append(bound, c.bound)
	}
	gone, err := b.release(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%-48s %8s %8s %8s\n", fmt.Sprintf("n=%d, milliseconds", n), "p50", "p99", "max")
	for _, row := range []struct {
		name string
		series
	}{
		{"bare pod: create to Succeeded", bare},
		{"claim: create to given to us by Kubernetes", annotated},
		{"claim: given to us to provisioner pod created", share},
		{"claim: create to provisioner pod created", created},
		{"claim: create to Bound", bound},
	} {
		fmt.Printf("%-48s %8.1f %8.1f %8.1f\n", row.name, row.at(0.5), row.at(0.99), row.at(1))
	}
	fmt.Printf("%-48s %8.2f\n", "ratio of the medians, Bound : bare pod", bound.at(0.5)/bare.at(0.5))
	fmt.Printf("%-48s %8.1f\n", fmt.Sprintf("%d claims deleted at once: the last volume gone", n), series{gone}.at(1))
	return nil
}

// pause waits a random part of a second and a half.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(rand.N(1500 * time.Millisecond)):
	}
}
