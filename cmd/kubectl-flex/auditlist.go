package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/audit"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// listings lists the storage of every class whose provisioner can do so.
func (a auditor) listings(ctx context.Context) (listings []audit.Listing, unseen []error) {
	all, err := a.all(ctx, reader.configMaps, reader.classes)
	if err != nil {
		return nil, []error{err}
	}
	var asked []audit.Listing
	for _, cm := range all.ConfigMaps {
		if configmaps.PluginName(cm) != a.provisioner {
			continue
		}
		config, faults := configmaps.Parse(cm)
		switch {
		case len(faults) > 0:
			a.note("class %s: its storage is not looked at: ConfigMap %s: %v", configmaps.ClassName(cm), cm.Name, faults.ToAggregate())
		case !config.Listable:
			a.note("class %s: its storage is not looked at: ConfigMap %s does not say listable", config.StorageClass, cm.Name)
		default:
			asked = append(asked, listingsOf(config, all.Classes, a.provisioner)...)
		}
	}
	return a.sideBySide(ctx, asked)
}

// atOnce is how many classes are looked at at once.
const atOnce = 8

// sideBySide fills listings. One that has to wait holds up none of the others.
func (a auditor) sideBySide(ctx context.Context, asked []audit.Listing) (listings []audit.Listing, unseen []error) {
	var running sync.WaitGroup
	slots, faults := make(chan struct{}, atOnce), make([]error, len(asked))
	for i := range asked {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()

			faults[i] = a.class(ctx, &asked[i])
		})
	}
	running.Wait()
	for i, listing := range asked {
		if faults[i] != nil {
			unseen = append(unseen, fmt.Errorf("class %s: %w", listing.Classes[0], faults[i]))
			continue
		}
		listings = append(listings, listing)
	}
	return listings, unseen
}

// listingsOf are the listings that a ConfigMap's provisioner has to make: one for all classes with the same parameters. If the ConfigMap
// serves no class, for instance since the class was deleted, there is one for the class that it names.
func listingsOf(config *configmaps.Config, classes []*storagev1.StorageClass, provisioner string) (listings []audit.Listing) {
	for _, class := range classes {
		if served, _ := configmaps.ServedAs(class.Name, class.Parameters); served != config.StorageClass || class.Provisioner != provisioner {
			continue
		}
		parameters := configmaps.Parameters(class.Parameters)
		same := slices.IndexFunc(listings, func(l audit.Listing) bool { return maps.Equal(l.Parameters, parameters) })
		if same < 0 {
			same, listings = len(listings), append(listings, audit.Listing{Config: config, Parameters: parameters})
		}
		listings[same].Classes = append(listings[same].Classes, class.Name)
	}
	if len(listings) == 0 {
		listings = []audit.Listing{{Config: config, Classes: []string{config.StorageClass}}}
	}
	return listings
}

// class fills a listing, node by node for node-local storage.
func (a auditor) class(ctx context.Context, listing *audit.Listing) error {
	config := listing.Config
	listing.Began, listing.Complete, listing.Storage = time.Now(), true, map[string]contract.Storage{}
	places := []string{""}
	if config.NodeLocal {
		var err error
		if listing.Nodes, err = a.nodes(ctx, config); err != nil {
			return err
		}
		places = nil
		for _, node := range listing.Nodes {
			places = append(places, node.Name)
		}
	}
	for _, node := range places {
		log, err := a.runListPod(ctx, config, listing.Parameters, node)
		switch {
		case errors.Is(err, errNotHere):
			a.note("class %s: %v", listing.Classes[0], err)
			listing.Complete = false
		case err != nil:
			return err
		}
		maps.Copy(listing.Storage, audit.ParseListing(log))
	}
	a.note("class %s: its storage was looked at, in %s: %d volumes", listing.Classes[0],
		time.Since(listing.Began).Round(time.Second), len(listing.Storage))
	return nil
}

// nodes lists the nodes that take the class's pods.
func (a auditor) nodes(ctx context.Context, config *configmaps.Config) (take []*corev1.Node, err error) {
	nodes, err := a.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(config.NodeSelector).String()})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	for _, node := range pointers(nodes.Items) {
		repels := func(taint corev1.Taint) bool { return repels(klog.FromContext(ctx), taint, config.Tolerations) }
		if !node.Spec.Unschedulable && !slices.ContainsFunc(node.Spec.Taints, repels) {
			take = append(take, node)
		}
	}
	return take, nil
}

// repels reports whether a taint keeps the pods off a node. It does not support the operators Lt and Gt, which no ConfigMap may have.
func repels(logger klog.Logger, taint corev1.Taint, tolerations []corev1.Toleration) bool {
	return taint.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool {
		return t.ToleratesTaint(logger, &taint, false)
	})
}

// errNotHere says that the provisioner exited with contract.ExitNotHere: the node has no storage, or not all
// of it is mounted. What the log lists is there.
var errNotHere = errors.New("not here")

// maxListing is the limit in bytes on a listing, enough for a hundred thousand volumes with their commands.
const maxListing = 32 << 20

// runListPod runs a pod that lists, and returns its log.
func (a auditor) runListPod(ctx context.Context, config *configmaps.Config, parameters map[string]string, node string) (log string, err error) {
	pod, err := podspec.List(config, parameters, node, podspec.Cluster{Namespace: a.namespace, KubeAPI: "https://kubernetes.default.svc"})
	if err != nil {
		return "", err
	}
	pods := a.client.CoreV1().Pods(a.namespace)
	if pod, err = pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return "", fmt.Errorf("create pod that lists: %w", err)
	}
	limit := config.StartTimeout + config.Timeout
	at := &watcher{client: a.client, patience: a.patience, began: time.Now(), note: func(format string, args ...any) {
		a.note("class "+config.StorageClass+": "+format, args...)
	}}
	err = runToEnd(ctx, a.client, pod, time.Second/2, limit, at.look, func(pod *corev1.Pod, outcome podspec.Outcome) error {
		notHere := outcome.Reason == podspec.ReasonNotHere
		if !notHere && outcome.Phase != podspec.Succeeded {
			return fmt.Errorf("pod %s that lists: %s", pod.Name, failure(ctx, a.client, pod, outcome))
		}
		most := int64(maxListing)
		options := &corev1.PodLogOptions{Container: podspec.ContainerName, LimitBytes: &most}
		text, err := pods.GetLogs(pod.Name, options).DoRaw(ctx)
		if err != nil {
			return fmt.Errorf("read log of pod %s: %w", pod.Name, err)
		}
		if len(text) >= maxListing {
			return fmt.Errorf("the log of pod %s has %d bytes or more, and is not read: print less beside the names",
				pod.Name, maxListing)
		}
		log = string(text)
		if notHere {
			return fmt.Errorf("%w: %s", errNotHere, outcome.Message)
		}
		return nil
	})
	return log, err
}
