package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/inspect"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// dispatcher reads the dispatcher's Deployment and its options.
func (r reader) dispatcher(ctx context.Context, _ string) error {
	d := &r.o.Dispatcher
	*d = inspect.DispatcherOptions{Provisioner: contract.ProvisionerName, Namespace: contract.ProvisionersNamespace, System: r.system, LeaseNamespace: r.system}
	deployment, err := r.client.AppsV1().Deployments(r.system).Get(ctx, deploymentName, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		if err := r.noteForbidden(inspect.Deployment, "get deployments in namespace "+r.system, err); err != nil {
			return err
		}
	}
	if err == nil {
		d.Found = true
		setOptions(d, deployment)
	}
	if r.namespace != "" {
		d.Namespace = r.namespace
	}
	if r.provisioner != "" {
		d.Provisioner = r.provisioner
	}
	d.Cluster.Namespace = d.Namespace
	lease, err := r.client.CoordinationV1().Leases(d.LeaseNamespace).Get(ctx, contract.LeaseName(d.Provisioner), metav1.GetOptions{})
	if err == nil && lease.Spec.HolderIdentity != nil {
		r.o.Leader = *lease.Spec.HolderIdentity
		if lease.Spec.AcquireTime != nil {
			r.o.LeaderSince = lease.Spec.AcquireTime.Time
		}
		if renewed, lasts := lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds; renewed != nil && lasts != nil &&
			r.o.Now.After(renewed.Add(time.Duration(*lasts)*time.Second)) {
			r.o.LeaderLost = renewed.Time
		}
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return r.noteForbidden(inspect.Lease, "get leases in namespace "+d.LeaseNamespace, err)
}

// setOptions sets the dispatcher's options from the command line in its Deployment.
func setOptions(d *inspect.DispatcherOptions, deployment *appsv1.Deployment) {
	d.LeaseNamespace = contract.SystemNamespace // the option's default
	d.Ready, d.Wanted = deployment.Status.ReadyReplicas, 1
	if deployment.Spec.Replicas != nil {
		d.Wanted = *deployment.Spec.Replicas
	}
	for _, container := range deployment.Spec.Template.Spec.Containers {
		if container.Name != "dispatcher" {
			continue
		}
		d.Image = container.Image
		d.Version = cmp.Or(deployment.Labels["app.kubernetes.io/version"], versionOf(container.Image))
		for _, arg := range append(container.Command, container.Args...) {
			key, value, given := strings.Cut(arg, "=")
			switch key {
			case "--provisioner-name":
				d.Provisioner = value
			case "--namespace":
				d.Namespace = value
			case "--lease-namespace":
				d.LeaseNamespace = value
			case "--flexctl-image":
				d.Cluster.FlexctlImage = value
			case "--flexctl-mount":
				d.Cluster.ImageVolumes = value == "image"
			case "--pod-kube-api":
				d.Cluster.KubeAPI = value
			case "--insecure-without-policies":
				d.Insecure = !given || value == "true"
			}
		}
	}
}

// podCluster reads the rest of what provisioner pods have in common, for render.
func (r reader) podCluster(ctx context.Context) error {
	c := &r.o.Dispatcher.Cluster
	if c.KubeAPI == "" {
		service, err := r.client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
		switch {
		case err == nil:
			c.KubeAPI = "https://" + service.Spec.ClusterIP + ":443"
		case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
			c.KubeAPI = "https://kubernetes.default.svc:443"
		default:
			return fmt.Errorf("get service default/kubernetes: %w", err)
		}
	}
	if c.FlexctlImage == "" {
		c.FlexctlImage = podspec.FlexctlImage
	}
	if !c.ImageVolumes {
		server, err := r.client.Discovery().ServerVersion()
		if err != nil {
			return fmt.Errorf("ask the API server for its version: %w", err)
		}
		c.ImageVolumes, _ = podspec.ImageVolumes(server.GitVersion) // without a version render shows an init container
	}
	return nil
}
