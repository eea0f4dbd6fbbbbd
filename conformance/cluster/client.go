package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// requestTimeout limits requests without another timeout.
const requestTimeout = 30 * time.Second

// client is a client for the few kinds that the kit needs.
type client struct {
	host                  string
	core, storage, access rest.Interface
}

func connect(config *rest.Config) (_ *client, err error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 100
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), storagev1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c := &client{host: config.Host}
	for _, group := range []struct {
		version schema.GroupVersion
		path    string
		to      *rest.Interface
	}{
		{corev1.SchemeGroupVersion, "/api", &c.core},
		{storagev1.SchemeGroupVersion, "/apis", &c.storage},
		{authorizationv1.SchemeGroupVersion, "/apis", &c.access},
	} {
		one := rest.CopyConfig(config)
		one.GroupVersion, one.APIPath = &group.version, group.path
		if *group.to, err = rest.RESTClientFor(one); err != nil {
			return nil, fmt.Errorf("make a client for %s: %w", config.Host, err)
		}
	}
	return c, nil
}

// get reads an object of the core group; an empty namespace is for those that have none.
func (c *client) get(ctx context.Context, namespace, resource, name string, into runtime.Object) error {
	err := c.core.Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource).Name(name).Do(ctx).Into(into)
	return wrap("get", resource, name, err)
}

func (c *client) list(ctx context.Context, namespace, resource string, options metav1.ListOptions, into runtime.Object) error {
	err := c.core.Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource).
		VersionedParams(&options, metav1.ParameterCodec).Do(ctx).Into(into)
	return wrap("list", resource, namespace, err)
}

// create does not end with ctx: what was made has to be known, to be removed.
func (c *client) create(ctx context.Context, namespace, resource string, object, into runtime.Object) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	err := c.core.Post().NamespaceIfScoped(namespace, namespace != "").Resource(resource).Body(object).Do(ctx).Into(into)
	return wrap("create", resource, "", err)
}

// remove deletes the object with this UID. It is no error if the object is gone already.
func (c *client) remove(ctx context.Context, namespace, resource, name string, uid types.UID) error {
	return c.delete(ctx, namespace, resource, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
}

// kill deletes a pod without a grace period.
func (c *client) kill(ctx context.Context, pod *corev1.Pod) error {
	none := int64(0)
	return c.delete(ctx, pod.Namespace, "pods", pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &none, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
}

func (c *client) delete(ctx context.Context, namespace, resource, name string, options metav1.DeleteOptions) error {
	err := c.core.Delete().NamespaceIfScoped(namespace, namespace != "").Resource(resource).Name(name).Body(&options).Do(ctx).Error()
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return wrap("delete", resource, name, err)
}

// exists reads an object, and reports whether it exists.
func (c *client) exists(ctx context.Context, namespace, resource, name string, into runtime.Object) (bool, error) {
	err := c.get(ctx, namespace, resource, name, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

func wrap(verb, resource, name string, err error) error {
	if err == nil {
		return nil
	}
	if name != "" {
		resource += " " + name
	}
	return fmt.Errorf("%s %s: %w", verb, resource, err)
}
