package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/inspect"
	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/configmaps/allowlist"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// deploymentName is the name of the dispatcher's Deployment, in its namespace.
const deploymentName = "flex-provisioner"

// clientset is a client for the cluster that the flags name.
func (o *options) clientset() (kubernetes.Interface, error) {
	if o.client != nil {
		return o.client, nil
	}
	config, err := o.kube.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 50, 100
	config.UserAgent = "kubectl-flex"
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return kubernetes.NewForConfig(config)
}

// reader reads the objects that the commands need. It notes a kind that may not be read, and reads the rest.
type reader struct {
	*options
	client kubernetes.Interface
	o      *inspect.Objects
}

// read reads the cluster's objects, with the claims of namespace, or of all namespaces if it is "".
func (o *options) read(ctx context.Context, namespace string) (*inspect.Objects, error) {
	client, err := o.clientset()
	if err != nil {
		return nil, err
	}
	r := reader{o, client, &inspect.Objects{Now: o.now()}}
	for _, step := range []func(context.Context, string) error{r.dispatcher, r.claims, r.cluster, r.namespaced, r.snapshots, r.policies, r.events} {
		if err := step(ctx, namespace); err != nil {
			return nil, err
		}
	}
	return r.o, nil
}

// find reads the cluster, and finds the claim, volume or pod of a name. uid is that of its claim.
func (o *options) find(ctx context.Context, namespace, name string) (objects *inspect.Objects, uid string, err error) {
	if objects, err = o.read(ctx, namespace); err != nil {
		return nil, "", err
	}
	if uid, err = objects.Find(namespace, name); err != nil {
		return nil, "", notFound(err)
	}
	return objects, uid, nil
}

// findOwn is find for commands that use provisioner pods. It is an error if another provisioner serves the claim, or if pods may not be
// read.
func (o *options) findOwn(ctx context.Context, name string) (*inspect.Objects, string, error) {
	namespace, name, err := o.named(name)
	if err != nil {
		return nil, "", err
	}
	objects, uid, err := o.find(ctx, namespace, name)
	if err != nil {
		return nil, "", err
	}
	if s := objects.StateOf(uid); s.NotOurs != "" {
		return nil, "", exit{exitNotOurs, errors.New(otherProvisionerMessage(s))}
	}
	if why := objects.NoPods(); why != "" {
		return nil, "", errors.New(why)
	}
	return objects, uid, nil
}

// dispatcherOnly reads no objects but the dispatcher's.
func (o *options) dispatcherOnly(ctx context.Context) (*inspect.Objects, error) {
	client, err := o.clientset()
	if err != nil {
		return nil, err
	}
	r := reader{o, client, &inspect.Objects{Now: o.now()}}
	return r.o, r.dispatcher(ctx, "")
}

// noteForbidden notes a kind that may not be read, and returns every other error.
func (r reader) noteForbidden(kind inspect.Kind, right string, err error) error {
	switch {
	case err == nil:
		return nil
	case !apierrors.IsForbidden(err):
		return fmt.Errorf("read %s: %w", kind, err)
	}

	noted := slices.ContainsFunc(r.o.Unread, func(u inspect.Unread) bool { return u.Kind == kind })
	if !noted {
		r.o.Unread = append(r.o.Unread, inspect.Unread{Kind: kind, Right: right, Why: podspec.Clean(err.Error())})
	}

	return nil
}

// keep adds what was listed of a kind, or notes that it may not be read.
func keep[T any](r reader, into *[]*T, kind inspect.Kind, right string, items []T, err error) error {
	if err == nil {
		*into = append(*into, pointers(items)...)
	}
	return r.noteForbidden(kind, right, err)
}

// claims reads the claims of all namespaces if that is allowed, since the pods and waiting claims of a class are counted over all of
// them.
func (r reader) claims(ctx context.Context, namespace string) error {
	list, err := r.client.CoreV1().PersistentVolumeClaims("").List(ctx, cached)
	if apierrors.IsForbidden(err) && namespace != "" {
		r.o.OneNamespace = true
		list, err = r.client.CoreV1().PersistentVolumeClaims(namespace).List(ctx, cached)
	}
	where := " in namespace " + namespace
	if namespace == "" {
		where = " in all namespaces"
	}
	return keep(r, &r.o.Claims, inspect.Claims, "list persistentvolumeclaims"+where, list.Items, err)
}

// cached makes the API server list from its cache.
var cached = metav1.ListOptions{ResourceVersion: "0"}

func (r reader) cluster(ctx context.Context, _ string) error {
	volumes, err := r.client.CoreV1().PersistentVolumes().List(ctx, cached)
	if err := keep(r, &r.o.Volumes, inspect.Volumes, "list persistentvolumes", volumes.Items, err); err != nil {
		return err
	}
	classes, err := r.client.StorageV1().StorageClasses().List(ctx, cached)
	if err := keep(r, &r.o.Classes, inspect.Classes, "list storageclasses", classes.Items, err); err != nil {
		return err
	}
	return r.nodes(ctx, r.o.Classes)
}

// nodes reads the nodes where one of the classes depends on them.
func (r reader) nodes(ctx context.Context, classes []*storagev1.StorageClass) error {
	if !r.o.Restricted(classes) || len(r.o.Nodes) > 0 {
		return nil
	}
	nodes, err := r.client.CoreV1().Nodes().List(ctx, cached)
	return keep(r, &r.o.Nodes, inspect.Nodes, "list nodes", nodes.Items, err)
}

// namespaced reads the objects of the provisioners' namespace.
func (r reader) namespaced(ctx context.Context, _ string) error {
	namespace := r.o.Dispatcher.Namespace
	pods, err := r.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: contract.LabelOperation, ResourceVersion: "0"})
	if err := keep(r, &r.o.Pods, inspect.Pods, "list pods in namespace "+namespace, pods.Items, err); err != nil {
		return err
	}
	maps, err := r.client.CoreV1().ConfigMaps(namespace).List(ctx, cached)
	var all []*corev1.ConfigMap
	right := "list configmaps in namespace " + namespace
	if err := keep(r, &all, inspect.ConfigMaps, right, maps.Items, err); err != nil {
		return err
	}
	for _, cm := range all {
		switch {
		case cm.Name == contract.StopDeletes:
			r.o.Stop = cm
		case cm.Labels[configmaps.LabelType] == configmaps.TypeProvisioner:
			r.o.ConfigMaps = append(r.o.ConfigMaps, cm)
		case configmaps.ClassName(cm) != "" || configmaps.PluginName(cm) != "":
			r.o.Unlabelled = append(r.o.Unlabelled, cm)
		}
	}
	revisions, err := r.client.AppsV1().ControllerRevisions(namespace).List(ctx, cached)
	right = "list controllerrevisions in namespace " + namespace
	var kept []*appsv1.ControllerRevision
	if err := keep(r, &kept, inspect.Revisions, right, revisions.Items, err); err != nil {
		return err
	}
	for _, revision := range kept {
		switch {
		case revision.Labels[configmaps.LabelType] == configmaps.TypeProvisioner:
			r.o.Revisions = append(r.o.Revisions, revision)
		case revision.Labels[contract.LabelClaimUID] != "" && podspec.DecodeSaved(revision) == nil:
			r.o.Saved = append(r.o.Saved, revision)
		}
	}
	list, err := r.client.CoreV1().ConfigMaps(r.system).Get(ctx, allowlist.Name, metav1.GetOptions{})
	if err == nil {
		r.o.AllowList = list
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return r.noteForbidden(inspect.AllowList, "get configmaps in namespace "+r.system, err)
}

func (r reader) policies(ctx context.Context, _ string) error {
	const right = "list validatingadmissionpolicies and validatingadmissionpolicybindings"
	policies, err := r.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, cached)
	var bindings *admissionv1.ValidatingAdmissionPolicyBindingList
	if err == nil {
		bindings, err = r.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().List(ctx, cached)
	}
	if err != nil {
		return r.noteForbidden(inspect.Policies, right, err)
	}
	r.o.Lacks, err = r.lacking(policies.Items, bindings.Items, r.system, r.o.Dispatcher.Namespace, r.o.Dispatcher.Provisioner)
	return err
}

// events reads the events about claims, about volumes, and about provisioner pods and ConfigMaps.
func (r reader) events(ctx context.Context, namespace string) error {
	read := func(kind inspect.Kind, in, about string) error {
		where := "in namespace " + in
		if in == "" {
			where = "in all namespaces"
		}
		list, err := r.client.CoreV1().Events(in).List(ctx, metav1.ListOptions{FieldSelector: about})
		return keep(r, &r.o.Events, kind, "list events "+where, list.Items, err)
	}
	if err := read(inspect.Events, namespace, "involvedObject.kind=PersistentVolumeClaim"); err != nil {
		return err
	}
	if err := read(inspect.VolumeEvents, metav1.NamespaceDefault, "involvedObject.kind=PersistentVolume"); err != nil {
		return err
	}
	if r.o.Snapshots.Served {
		if err := read(inspect.Events, namespace, "involvedObject.kind=VolumeSnapshot"); err != nil {
			return err
		}
		if err := read(inspect.VolumeEvents, metav1.NamespaceDefault, "involvedObject.kind=VolumeSnapshotContent"); err != nil {
			return err
		}
	}
	return read(inspect.PodEvents, r.o.Dispatcher.Namespace, "")
}

func pointers[T any](items []T) []*T {
	list := make([]*T, len(items))
	for i := range items {
		list[i] = &items[i]
	}
	return list
}
