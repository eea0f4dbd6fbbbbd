package class

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// requestTimeout bounds one request.
const requestTimeout = 30 * time.Second

// Cluster is a cluster, by a client that knows no kinds: what is applied are the fields that the class owns, and no others.
type Cluster struct{ client rest.Interface }

// New makes a client for a cluster.
func New(config *rest.Config) (Cluster, error) {
	config = rest.CopyConfig(config)
	config.APIPath, config.ContentType, config.AcceptContentTypes = "/", "application/json", "application/json"
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return Cluster{}, fmt.Errorf("make a client for %s: %w", config.Host, err)
	}
	return Cluster{client}, nil
}

// Apply applies an object server-side, in the name of the class, whose fields alone it changes. It returns the object as it is then. A
// field that somebody else owns with another value is an error, which names both. With dry the API server only tries.
func (c Cluster) Apply(ctx context.Context, class string, o Object, dry bool) (applied []byte, err error) {
	manifest, err := o.fields()
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(manifest)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", o.Kind, o.Name, err)
	}
	request := c.client.Patch(types.ApplyPatchType).AbsPath(o.path).Param("fieldManager", manager(class)).Param("fieldValidation", "Strict").Timeout(requestTimeout).Body(body)
	if dry {
		request = request.Param("dryRun", metav1.DryRunAll)
	}
	answer, err := request.DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("apply %s %s: %w", o.Kind, o.name(), said(answer, err))
	}
	return answer, nil
}

// manager is the field manager of a class. It is not the class's name, as which people apply a class of files: what this command does
// not write it would take away from them. The API server takes 128 bytes at most.
func manager(class string) string {
	const prefix, most, digits = "flexctl-class-", 128, 16
	if len(prefix+class) <= most {
		return prefix + class
	}
	sum := sha256.Sum256([]byte(class))
	return (prefix + class)[:most-digits-1] + "-" + hex.EncodeToString(sum[:])[:digits]
}

// said is the API server's own word, which a client without kinds does not decode.
func said(answer []byte, err error) error {
	var status metav1.Status
	if json.Unmarshal(answer, &status) == nil && status.Kind == "Status" && status.Message != "" {
		return &apierrors.StatusError{ErrStatus: status}
	}
	return err
}

// get reads an object, or with a selector a list. That it is not there is no error.
func (c Cluster) get(ctx context.Context, path, selector string, into any) (there bool, err error) {
	request := c.client.Get().AbsPath(path).Timeout(requestTimeout)
	if selector != "" {
		request = request.Param("labelSelector", selector)
	}
	answer, err := request.DoRaw(ctx)
	if err = said(answer, err); apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, json.Unmarshal(answer, into)
}

func (o Object) name() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// fields are those that the class owns: what Go writes of a status and a time of creation is nobody's.
func (o Object) fields() (map[string]any, error) {
	text, err := json.Marshal(o.Manifest)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", o.Kind, o.name(), err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, fmt.Errorf("decode %s %s: %w", o.Kind, o.name(), err)
	}
	metadata, ok := fields["metadata"].(map[string]any)
	if !ok {
		return nil, errors.New("there is no metadata")
	}
	delete(metadata, "creationTimestamp")
	delete(fields, "status")
	return fields, nil
}

// YAML is the object as it is applied.
func (o Object) YAML() ([]byte, error) {
	fields, err := o.fields()
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(fields)
}

// String names the object as kubectl does.
func (o Object) String() string { return o.Kind + "/" + o.Name }
