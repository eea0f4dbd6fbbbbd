package main

import (
	"context"
	"fmt"
	"log"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/inspect"
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
	notes *log.Logger
}

// all reads objects of which none may be missing. The API server's cache may be older than the storage, and is not asked.
func (a auditor) all(ctx context.Context, steps ...step) (*inspect.Objects, error) {
	r := reader{client: a.client, o: &inspect.Objects{Dispatcher: inspect.DispatcherOptions{Namespace: a.namespace}}}
	if err := r.more(ctx, "", steps...); err != nil {
		return nil, err
	}
	if len(r.o.Unread) > 0 {
		return nil, fmt.Errorf("list %s: %s", r.o.Unread[0].Kind, r.o.Unread[0].Why)
	}
	return r.o, nil
}

func (a auditor) objects(ctx context.Context) (o audit.Objects, err error) {
	all, err := a.all(ctx, reader.claims, reader.volumes, reader.pods, reader.classes)
	if err != nil {
		return o, err
	}
	ofClaims := metav1.ListOptions{LabelSelector: contract.LabelClaimUID}
	saved, err := a.client.AppsV1().ControllerRevisions(a.namespace).List(ctx, ofClaims)
	if err != nil {
		return o, fmt.Errorf("list controllerrevisions of %s: %w", a.namespace, err)
	}
	secrets, err := a.client.CoreV1().Secrets("").List(ctx, ofClaims)
	switch {
	case apierrors.IsForbidden(err):
		a.note("Secrets are not looked at: %v", err)
		secrets = &corev1.SecretList{}
	case err != nil:
		return o, fmt.Errorf("list secrets: %w", err)
	}

	o = audit.Objects{Claims: all.Claims, Volumes: all.Volumes, Pods: all.Pods, Saved: pointers(saved.Items), Secrets: pointers(secrets.Items)}
	for _, class := range all.Classes {
		if class.Provisioner == a.provisioner {
			o.Classes = append(o.Classes, class.Name)
		}
	}
	for _, record := range o.Saved {
		_ = podspec.DecodeSaved(record) // Compare finds those that have no pod then
	}
	return o, nil
}
