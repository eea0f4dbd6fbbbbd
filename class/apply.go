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

// Cluster is a client of a cluster. It applies objects without their Go types, so that it sends only the fields that the class owns.
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

// Apply applies an object server-side with the field manager of the class. It returns the object after that. A conflict with another field
// manager is an error, which names the manager and the field. With dry it is a dry run.
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
		return nil, fmt.Errorf("apply %s %s: %w", o.Kind, o.name(), statusError(answer, err))
	}
	return answer, nil
}

// manager is the field manager of a class. It is not the class's name, with which people apply a class from files: the command would then
// remove the fields of the files that it does not write. The API server allows 128 bytes.
func manager(class string) string {
	const prefix, limit, digits = "flexctl-class-", 128, 16
	if len(prefix+class) <= limit {
		return prefix + class
	}
	sum := sha256.Sum256([]byte(class))
	return (prefix + class)[:limit-digits-1] + "-" + hex.EncodeToString(sum[:])[:digits]
}

// statusError is the Status in the API server's response as an error. The client does not decode it without types.
func statusError(answer []byte, err error) error {
	var status metav1.Status
	if json.Unmarshal(answer, &status) == nil && status.Kind == "Status" && status.Message != "" {
		return &apierrors.StatusError{ErrStatus: status}
	}
	return err
}

// get reads an object, or with a selector a list. It is no error if the object does not exist.
func (c Cluster) get(ctx context.Context, path, selector string, into any) (there bool, err error) {
	request := c.client.Get().AbsPath(path).Timeout(requestTimeout)
	if selector != "" {
		request = request.Param("labelSelector", selector)
	}
	answer, err := request.DoRaw(ctx)
	if err = statusError(answer, err); apierrors.IsNotFound(err) {
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

// fields are the fields that the class owns: without the empty status and creationTimestamp that Go's types encode.
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
