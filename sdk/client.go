package sdk

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// requestTimeout bounds one try, so that a connection that went dead is noticed and the next try made.
const requestTimeout = 30 * time.Second

// NewConfig is how the pod reaches the API server: FLEX_KUBE_API, else KUBERNETES_SERVICE_HOST and _PORT, with the pod's
// own token, which is read again as the kubelet renews it.
func NewConfig(root string) (*rest.Config, error) {
	host, err := apiServer()
	if err != nil {
		return nil, err
	}
	token, ca := filepath.Join(root, contract.TokenFile), filepath.Join(root, contract.CAFile)
	for _, file := range []string{token, ca} {
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("find the pod's identity: %w; only pods that provision have one", err)
		}
	}
	return &rest.Config{
		Host:            host,
		BearerTokenFile: token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: ca},
		Timeout:         requestTimeout,
		QPS:             -1,                                // one pod writes one object
		UserAgent:       rest.DefaultKubernetesUserAgent(), // begins with the binary's name, which managedFields keep
		WarningHandler:  rest.NewWarningWriter(os.Stderr, rest.WarningWriterOptions{}),
		// Proxies in the environment are for the way to the storage.
		Proxy: func(*http.Request) (*url.URL, error) { return nil, nil },
	}, nil
}

// NewClient is a client for CreateVolume. It knows PersistentVolumes and nothing else, which keeps binaries small; for
// more, build a client from NewConfig.
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

func apiServer() (string, error) {
	if api := os.Getenv("FLEX_KUBE_API"); api != "" {
		// The token is never sent in clear.
		if parsed, err := url.Parse(api); err != nil || parsed.Scheme != "https" || parsed.Host == "" {
			return "", fmt.Errorf("FLEX_KUBE_API is %q; it must be like https://10.96.0.1:443", api)
		}
		return api, nil
	}
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return "", errors.New("neither FLEX_KUBE_API nor KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are set; is this a provisioner pod?")
	}
	return "https://" + net.JoinHostPort(host, port), nil
}
