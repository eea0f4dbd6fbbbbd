package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/audit"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// auditor reads the cluster and lists the storage for an audit.
type auditor struct {
	client                 kubernetes.Interface
	namespace, provisioner string
	storage                bool
	// patience is how long a pod that lists may not start for a cause that is known.
	patience time.Duration
	// notes takes messages that are no findings, of several classes at once.
	notes io.Writer
}

// oneByOne lets several write whole lines.
type oneByOne struct {
	mu sync.Mutex
	to io.Writer
}

// Write implements io.Writer.
func (w *oneByOne) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.to.Write(line)
}

func (a auditor) objects(ctx context.Context) (audit.Objects, error) {
	var o audit.Objects
	core := a.client.CoreV1()
	claims, err := core.PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return o, fmt.Errorf("list claims: %w", err)
	}
	volumes, err := core.PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return o, fmt.Errorf("list volumes: %w", err)
	}
	pods, err := core.Pods(a.namespace).List(ctx, metav1.ListOptions{LabelSelector: contract.LabelOperation})
	if err != nil {
		return o, fmt.Errorf("list pods of %s: %w", a.namespace, err)
	}
	saved, err := a.client.AppsV1().ControllerRevisions(a.namespace).List(ctx, metav1.ListOptions{LabelSelector: contract.LabelClaimUID})
	if err != nil {
		return o, fmt.Errorf("list controllerrevisions of %s: %w", a.namespace, err)
	}
	classes, err := a.client.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return o, fmt.Errorf("list storageclasses: %w", err)
	}
	for _, class := range classes.Items {
		if class.Provisioner == a.provisioner {
			o.Classes = append(o.Classes, class.Name)
		}
	}
	secrets, err := core.Secrets("").List(ctx, metav1.ListOptions{LabelSelector: contract.LabelClaimUID})
	switch {
	case apierrors.IsForbidden(err):
		a.note("Secrets are not looked at: %v", err)
		secrets = &corev1.SecretList{}
	case err != nil:
		return o, fmt.Errorf("list secrets: %w", err)
	}
	o.Saved = pointers(saved.Items)
	for _, record := range o.Saved {
		_ = podspec.DecodeSaved(record) // Compare finds those that have no pod then
	}
	o.Claims, o.Volumes, o.Pods, o.Secrets = pointers(claims.Items), pointers(volumes.Items), pointers(pods.Items), pointers(secrets.Items)
	return o, nil
}
