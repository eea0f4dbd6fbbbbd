package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Client is a client for the provisioners' namespace.
type Client struct {
	rest rest.Interface
	// Namespace is the pod's namespace, which has the Secrets.
	Namespace string
}

// New makes a client with the pod's token. root is put before the contract's paths.
func New(root string) (*Client, error) {
	config, err := sdk.NewConfig(root)
	if err != nil {
		return nil, err
	}
	return NewForConfig(config, namespace(root))
}

// NewForConfig makes a client for a namespace. It completes the config.
func NewForConfig(config *rest.Config, namespace string) (*Client, error) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Secret{})
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", config.Host, err)
	}
	return &Client{client, namespace}, nil
}

// Version is the version of the API server, such as 1 and 30+. Everybody may ask for it.
func (c *Client) Version(ctx context.Context) (major, minor string, err error) {
	var info version.Info
	body, err := c.rest.Get().AbsPath("/version").DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(body, &info)
	}
	if err != nil {
		return "", "", fmt.Errorf("get the version of Kubernetes: %w", err)
	}

	return info.Major, info.Minor, nil
}

func namespace(root string) string {
	data, _ := os.ReadFile(filepath.Join(root, contract.TokenDir, "namespace"))
	if name := strings.TrimSpace(string(data)); name != "" {
		return name
	}
	return contract.ProvisionersNamespace
}
