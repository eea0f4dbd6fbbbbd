package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/audit"
	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// listings asks the provisioner of every class that can list.
func (l looker) listings(ctx context.Context) (listings []audit.Listing, unseen []error) {
	maps, err := l.client.CoreV1().ConfigMaps(l.namespace).List(ctx, metav1.ListOptions{LabelSelector: configmaps.LabelType + "=" + configmaps.TypeProvisioner})
	if err != nil {
		return nil, []error{fmt.Errorf("list configmaps of %s: %w", l.namespace, err)}
	}
	for i := range maps.Items {
		cm := &maps.Items[i]
		if configmaps.PluginName(cm) != l.provisioner {
			continue
		}
		config, faults := configmaps.Parse(cm, configmaps.Options{AllowedHostPaths: l.allowedHostPaths})
		switch {
		case len(faults) > 0:
			l.note("class %s: its storage is not looked at: ConfigMap %s: %v", configmaps.ClassName(cm), cm.Name, faults.ToAggregate())
		case !config.Listable:
			l.note("class %s: its storage is not looked at: ConfigMap %s does not say listable", config.StorageClass, cm.Name)
		default:
			listing, err := l.class(ctx, config)
			if err != nil {
				unseen = append(unseen, fmt.Errorf("class %s: %w", config.StorageClass, err))
				continue
			}
			listings = append(listings, listing)
		}
	}
	return listings, unseen
}

// class lists what one class has, node by node where its storage is the nodes'.
func (l looker) class(ctx context.Context, config *configmaps.Config) (audit.Listing, error) {
	listing := audit.Listing{Config: config, Began: time.Now(), Complete: true, Storage: map[string]contract.Storage{}}
	class, err := l.client.StorageV1().StorageClasses().Get(ctx, config.StorageClass, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return listing, fmt.Errorf("get storageclass: %w", err)
	}
	var parameters map[string]string
	if err == nil {
		listing.Class, parameters = class, class.Parameters
	}
	places := []string{""}
	if config.NodeLocal {
		if places, err = l.nodes(ctx, config); err != nil {
			return listing, err
		}
	}
	for _, node := range places {
		log, err := l.ask(ctx, config, parameters, node)
		switch {
		case errors.Is(err, errNotHere):
			l.note("class %s: %v", config.StorageClass, err)
			listing.Complete = false
		case err != nil:
			return listing, err
		}
		maps.Copy(listing.Storage, audit.ParseListing(log))
	}
	return listing, nil
}

// nodes are those that the class's pods may run on.
func (l looker) nodes(ctx context.Context, config *configmaps.Config) ([]string, error) {
	nodes, err := l.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(config.NodeSelector).String()})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var names []string
	for _, node := range nodes.Items {
		repels := func(taint corev1.Taint) bool { return repels(klog.FromContext(ctx), taint, config.Tolerations) }
		if !node.Spec.Unschedulable && !slices.ContainsFunc(node.Spec.Taints, repels) {
			names = append(names, node.Name)
		}
	}
	return names, nil
}

// repels leaves out the operators Lt and Gt, which no ConfigMap may have.
func repels(logger klog.Logger, taint corev1.Taint, tolerations []corev1.Toleration) bool {
	return taint.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool {
		return t.ToleratesTaint(logger, &taint, false)
	})
}

// errNotHere is a provisioner's word that it has nothing where it was asked, which it cannot tell from something amiss.
var errNotHere = errors.New("not here")

// maxListing bounds in bytes what an image may print: a hundred thousand volumes with their commands.
const maxListing = 32 << 20

// ask runs a pod that lists, and returns its log.
func (l looker) ask(ctx context.Context, config *configmaps.Config, parameters map[string]string, node string) (log string, err error) {
	pod, err := podspec.List(config, parameters, node, podspec.Cluster{Namespace: l.namespace, KubeAPI: "https://kubernetes.default.svc"})
	if err != nil {
		return "", err
	}
	pods := l.client.CoreV1().Pods(l.namespace)
	if pod, err = pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return "", fmt.Errorf("create pod that lists: %w", err)
	}
	name := pod.Name
	defer func() {
		none := int64(0)
		after := context.WithoutCancel(ctx) // an audit that is interrupted takes its pod away too
		if failed := pods.Delete(after, name, metav1.DeleteOptions{GracePeriodSeconds: &none}); failed != nil && !apierrors.IsNotFound(failed) {
			err = errors.Join(err, fmt.Errorf("delete pod %s: %w", name, failed))
		}
	}()
	var outcome podspec.Outcome
	err = wait.PollUntilContextTimeout(ctx, time.Second/2, config.StartTimeout+config.Timeout, true, func(ctx context.Context) (bool, error) {
		if pod, err = pods.Get(ctx, name, metav1.GetOptions{}); err != nil {
			return false, err
		}
		outcome = podspec.OutcomeOf(pod)
		return outcome.Final(), nil
	})
	switch {
	case err != nil:
		return "", fmt.Errorf("wait for pod %s, %s: %w", name, outcome.Message, err)
	case outcome.Reason == podspec.ReasonNotHere:
		return "", fmt.Errorf("%w: %s", errNotHere, outcome.Message)
	case outcome.Phase != podspec.Succeeded:
		return "", fmt.Errorf("pod %s that lists: %s", name, outcome.Message)
	}
	most := int64(maxListing)
	text, err := pods.GetLogs(name, &corev1.PodLogOptions{Container: podspec.ContainerName, LimitBytes: &most}).DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("read log of pod %s: %w", name, err)
	}
	if len(text) >= maxListing {
		return "", fmt.Errorf("the log of pod %s has %d bytes or more, and is not read: print less beside the names", name, maxListing)
	}
	return string(text), nil
}
