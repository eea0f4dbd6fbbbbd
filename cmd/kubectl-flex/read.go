package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
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
	// lists says how lists are read. Commands take what the API server's cache has. The audit does not.
	lists metav1.ListOptions
}

// step is a part of what is read, with the claims of a namespace, or of all namespaces if it is "".
type step func(r reader, ctx context.Context, namespace string) error

// What commands read, and what completion reads, which takes names from it.
var (
	ofNames = []step{reader.dispatcher, reader.claims, reader.volumes, reader.classes, reader.nodes, reader.pods, reader.configMaps,
		reader.revisions, reader.allowList, reader.snapshots}
	everything = append(ofNames, reader.policies, reader.events, reader.attachments)
)

// read reads objects of the cluster.
func (o *options) read(ctx context.Context, namespace string, steps ...step) (reader, error) {
	client, err := o.clientset()
	if err != nil {
		return reader{}, err
	}
	r := reader{o, client, &inspect.Objects{Now: o.now()}, metav1.ListOptions{ResourceVersion: "0"}}
	return r, r.more(ctx, namespace, steps...)
}

// more reads more objects.
func (r reader) more(ctx context.Context, namespace string, steps ...step) error {
	for _, read := range steps {
		if err := read(r, ctx, namespace); err != nil {
			return err
		}
	}
	return nil
}

// find reads the cluster, and finds the claim, volume or pod of a name. uid is that of its claim.
func (o *options) find(ctx context.Context, namespace, name string) (r reader, uid string, err error) {
	if r, err = o.read(ctx, namespace, everything...); err != nil {
		return r, "", err
	}
	if uid, err = r.o.Find(namespace, name); err != nil {
		return r, "", notFound(err)
	}
	return r, uid, nil
}

// findOwn is find for commands that use provisioner pods. It is an error if another provisioner serves the claim, or if pods may not be
// read.
func (o *options) findOwn(ctx context.Context, name string) (reader, string, error) {
	namespace, name, err := o.named(name)
	if err != nil {
		return reader{}, "", err
	}
	r, uid, err := o.find(ctx, namespace, name)
	if err != nil {
		return r, "", err
	}
	if s := r.o.StateOf(uid); s.NotOurs != "" {
		return r, "", exit{exitNotOurs, errors.New(otherProvisionerMessage(s))}
	}
	if why := r.o.NoPods(); why != "" {
		return r, "", errors.New(why)
	}
	return r, uid, nil
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
	list, err := r.client.CoreV1().PersistentVolumeClaims("").List(ctx, r.lists)
	if apierrors.IsForbidden(err) && namespace != "" {
		r.o.OneNamespace = true
		list, err = r.client.CoreV1().PersistentVolumeClaims(namespace).List(ctx, r.lists)
	}
	where := " in namespace " + namespace
	if namespace == "" {
		where = " in all namespaces"
	}
	return keep(r, &r.o.Claims, inspect.Claims, "list persistentvolumeclaims"+where, list.Items, err)
}

func (r reader) volumes(ctx context.Context, _ string) error {
	list, err := r.client.CoreV1().PersistentVolumes().List(ctx, r.lists)
	return keep(r, &r.o.Volumes, inspect.Volumes, "list persistentvolumes", list.Items, err)
}

// attachments reads the VolumeAttachments. Whoever may not is told less, and their absence hides nothing of a claim.
func (r reader) attachments(ctx context.Context, _ string) error {
	list, err := r.client.StorageV1().VolumeAttachments().List(ctx, r.lists)
	if apierrors.IsForbidden(err) {
		return nil
	}

	if err != nil {
		return fmt.Errorf("read VolumeAttachments: %w", err)
	}

	r.o.Attachments = pointers(list.Items)

	return nil
}

func (r reader) classes(ctx context.Context, _ string) error {
	list, err := r.client.StorageV1().StorageClasses().List(ctx, r.lists)
	return keep(r, &r.o.Classes, inspect.Classes, "list storageclasses", list.Items, err)
}

func (r reader) nodes(ctx context.Context, _ string) error { return r.nodesFor(ctx, r.o.Classes) }

// nodesFor reads the nodes where one of the classes depends on them.
func (r reader) nodesFor(ctx context.Context, classes []*storagev1.StorageClass) error {
	if !r.o.Restricted(classes) || len(r.o.Nodes) > 0 {
		return nil
	}
	list, err := r.client.CoreV1().Nodes().List(ctx, r.lists)
	return keep(r, &r.o.Nodes, inspect.Nodes, "list nodes", list.Items, err)
}

// attemptNode reads the node of the claim's attempt that has not ended. Whoever may not read it is told less.
func (r reader) attemptNode(ctx context.Context, uid string) error {
	name := r.o.AttemptNodeOf(uid)
	if name == "" {
		return nil
	}

	node, err := r.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read node %s: %w", name, err)
	}

	r.o.AttemptNode = node

	return nil
}

// consumers reads the pods that may use the claim, where it waits for them. Whoever may not read them is told less.
func (r reader) consumers(ctx context.Context, uid string) error {
	namespace := r.o.ConsumersNamespace(uid)
	if namespace == "" {
		return nil
	}

	list, err := r.client.CoreV1().Pods(namespace).List(ctx, r.lists)
	switch {
	case apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return fmt.Errorf("read pods of namespace %s: %w", namespace, err)
	}

	r.o.Consumers = pointers(list.Items)

	return nil
}

func (r reader) pods(ctx context.Context, _ string) error {
	namespace, lists := r.o.Dispatcher.Namespace, r.lists
	lists.LabelSelector = contract.LabelOperation
	list, err := r.client.CoreV1().Pods(namespace).List(ctx, lists)
	return keep(r, &r.o.Pods, inspect.Pods, "list pods in namespace "+namespace, list.Items, err)
}

func (r reader) configMaps(ctx context.Context, _ string) error {
	namespace := r.o.Dispatcher.Namespace
	list, err := r.client.CoreV1().ConfigMaps(namespace).List(ctx, r.lists)
	for _, cm := range pointers(list.Items) {
		switch {
		case cm.Name == contract.StopDeletes:
			r.o.Stop = cm
		case cm.Labels[configmaps.LabelType] == configmaps.TypeProvisioner:
			r.o.ConfigMaps = append(r.o.ConfigMaps, cm)
		case configmaps.ClassName(cm) != "" || configmaps.PluginName(cm) != "":
			r.o.Unlabelled = append(r.o.Unlabelled, cm)
		}
	}
	return r.noteForbidden(inspect.ConfigMaps, "list configmaps in namespace "+namespace, err)
}

func (r reader) revisions(ctx context.Context, _ string) error {
	namespace := r.o.Dispatcher.Namespace
	list, err := r.client.AppsV1().ControllerRevisions(namespace).List(ctx, r.lists)
	for _, revision := range pointers(list.Items) {
		switch {
		case revision.Labels[configmaps.LabelType] == configmaps.TypeProvisioner:
			r.o.Revisions = append(r.o.Revisions, revision)
		case revision.Labels[contract.LabelClaimUID] != "" && podspec.DecodeSaved(revision) == nil:
			r.o.Saved = append(r.o.Saved, revision)
		}
	}
	return r.noteForbidden(inspect.Revisions, "list controllerrevisions in namespace "+namespace, err)
}

func (r reader) allowList(ctx context.Context, _ string) error {
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
	policies, err := r.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, r.lists)
	var bindings *admissionv1.ValidatingAdmissionPolicyBindingList
	if err == nil {
		bindings, err = r.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().List(ctx, r.lists)
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
