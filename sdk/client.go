package sdk

import (
	"fmt"
	"net/http"
	"net/url"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/sdk/bare"
)

// NewConfig returns the configuration of a client for the API server of FLEX_KUBE_API, or else of KUBERNETES_SERVICE_HOST and _PORT. It has
// the pod's token, which is read again when the kubelet renews it.
func NewConfig(root string) (*rest.Config, error) {
	access, err := bare.FindAPIServer(root)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            access.URL,
		BearerTokenFile: access.TokenFile,
		TLSClientConfig: rest.TLSClientConfig{CAFile: access.CAFile},
		Timeout:         bare.RequestTimeout,
		QPS:             -1,                                // one pod writes one object
		UserAgent:       rest.DefaultKubernetesUserAgent(), // begins with the binary's name, the manager in managedFields
		WarningHandler:  rest.NewWarningWriter(os.Stderr, rest.WarningWriterOptions{}),
		// Proxies in the environment are for the storage.
		Proxy: func(*http.Request) (*url.URL, error) { return nil, nil },
	}, nil
}

// NewClient makes a client for CreateVolume. It supports PersistentVolumes only, which keeps binaries small. For other objects, build a
// client from NewConfig.
func NewClient(root string) (rest.Interface, error) {
	config, err := NewConfig(root)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.PersistentVolume{})
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	config.APIPath = "/api"
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", config.Host, err)
	}
	return client, nil
}
