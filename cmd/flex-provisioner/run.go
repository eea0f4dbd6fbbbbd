package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/dispatcher"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/admission"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/clock"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// run runs the dispatcher until ctx ends. The loss of the Lease is an error: the process exits, and is restarted as a candidate.
func run(ctx context.Context, o *options) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("find the API server (outside a cluster, give --kubeconfig): %w", err)
	}
	config.UserAgent = "flex-provisioner"
	var server clock.Clock
	config.Wrap(server.Wrap)
	client, err := kubernetes.NewForConfig(withLimits(config, o.qps, o.burst))
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	events, err := kubernetes.NewForConfig(withLimits(config, eventQPS, eventBurst))
	if err != nil {
		return fmt.Errorf("make client for events: %w", err)
	}
	snapshots, err := snapshotclient.NewForConfig(inJSON(withLimits(config, o.qps, o.burst)))
	if err != nil {
		return fmt.Errorf("make client for snapshots: %w", err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	pods, err := o.cluster(client, config)
	if err != nil {
		return err
	}
	probe := withLimits(config, o.qps, o.burst)
	probe.Impersonate = admission.ProbeIdentity(o.namespace)
	asProvisioner, err := kubernetes.NewForConfig(probe)
	if err != nil {
		return fmt.Errorf("make client for probes of the admission policies: %w", err)
	}
	key, err := recordKey(ctx, client.CoreV1().Secrets(o.leaseNamespace))
	if err != nil {
		return err
	}
	d, err := dispatcher.New(ctx, client, dispatcher.Options{
		ProvisionerName: o.provisionerName, Pods: pods, RecordKey: key,
		Threads: o.threads, DeleteLimit: o.deleteLimit, SystemNamespace: o.leaseNamespace, InsecureWithoutPolicies: o.insecure, Prober: asProvisioner,
		Events: events, Snapshots: snapshots, Registry: registry, Now: server.Now,
	})
	if err != nil {
		return err
	}
	state := newReadiness(client, permissions(o.namespace, o.leaseNamespace, contract.LeaseName(o.provisionerName)))
	stopServing, err := serve(ctx, o, registry, state)
	if err != nil {
		return err
	}
	defer stopServing()
	work := func(ctx context.Context) error {
		state.startedLeading(d)
		return d.Run(ctx)
	}
	if !o.leaderElect {
		return work(ctx)
	}
	return lead(ctx, o, config, state, work)
}

// Limits of the clients for events and for the Lease. They have clients of their own, so that they do not wait for the requests of the main
// one, whose limits are options.
const (
	eventQPS, eventBurst = 50, 300
	leaseQPS, leaseBurst = 10, 20
)

// withLimits is a client configuration with other limits. Compression is off: the API server would compress each event of a watch by itself,
// which costs both sides more than it saves on a cluster's network.
func withLimits(config *rest.Config, qps float32, burst int) *rest.Config {
	config = rest.CopyConfig(config)
	config.DisableCompression = true
	config.QPS, config.Burst = qps, burst
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config
}

// inJSON is for kinds that CustomResourceDefinitions define. They have no other form.
func inJSON(config *rest.Config) *rest.Config {
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	return config
}

// cluster is what all provisioner pods have in common.
func (o *options) cluster(client kubernetes.Interface, config *rest.Config) (podspec.Cluster, error) {
	c := podspec.Cluster{Namespace: o.namespace, KubeAPI: o.podAPI, FlexctlImage: o.flexctlImage, ImageVolumes: o.flexctlMount == mountImage}
	if c.KubeAPI == "" {
		c.KubeAPI = config.Host
		if host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"); host != "" && port != "" {
			c.KubeAPI = "https://" + net.JoinHostPort(host, port)
		}
	}
	if o.flexctlMount == mountAuto {
		server, err := client.Discovery().ServerVersion()
		if err != nil {
			return c, fmt.Errorf("ask the API server for its version: %w", err)
		}
		if c.ImageVolumes, err = podspec.ImageVolumes(server.GitVersion); err != nil {
			return c, err
		}
	}
	return c, nil
}

// lead runs work while this process holds the Lease. Leader election has its own client, so that it never waits for a burst of work. The
// Lease is released only after the work has ended, so that no two processes work at the same time.
func lead(ctx context.Context, o *options, config *rest.Config, state *readiness, work func(context.Context) error) error {
	client, err := kubernetes.NewForConfig(withLimits(config, leaseQPS, leaseBurst))
	if err != nil {
		return fmt.Errorf("make client for the Lease: %w", err)
	}
	hostname, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find own name: %w", err)
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: o.leaseNamespace, Name: contract.LeaseName(o.provisionerName)},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: hostname + "_" + string(uuid.NewUUID())},
	}
	electing, resign := context.WithCancel(context.WithoutCancel(ctx))
	defer resign()
	result := make(chan error, 1)
	started := false
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, ReleaseOnCancel: true, Name: lock.LeaseMeta.Name,
		LeaseDuration: o.leaseDuration, RenewDeadline: o.leaseDuration * 2 / 3, RetryPeriod: o.leaseDuration / 5,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				started = true
				working, stop := context.WithCancelCause(context.WithoutCancel(leading))
				defer context.AfterFunc(leading, func() { stop(dispatcher.ErrLeaseLost) })()
				defer context.AfterFunc(ctx, func() { stop(nil) })()
				result <- work(working)
				resign()
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(identity string) {
				klog.FromContext(ctx).Info("Leader", "identity", identity, "self", identity == lock.Identity())
				state.standby(identity)
			},
		},
	})
	if err != nil {
		return fmt.Errorf("set up leader election: %w", err)
	}
	// A candidate has no work that has to end first.
	defer context.AfterFunc(ctx, func() {
		if !elector.IsLeader() {
			resign()
		}
	})()
	elector.Run(electing)
	if !started {
		return nil
	}
	select {
	case err = <-result:
	case <-time.After(o.leaseDuration):
		err = errors.New("work did not end after the Lease was lost")
	}
	if err == nil && ctx.Err() == nil {
		err = fmt.Errorf("lost the Lease %s/%s", o.leaseNamespace, lock.LeaseMeta.Name)
	}
	return err
}
