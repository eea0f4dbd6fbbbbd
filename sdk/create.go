package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/sdk/bare"
)

// CreateVolume makes the PersistentVolume, the commit of a provision, and says whether it was this call that did. That it
// exists already is success: its name is the claim's UID, so only an earlier attempt for the same claim can have made it,
// and the pod may not read it to compare; the dispatcher verifies it. What passes by itself (429, 5xx, no connection, no
// answer) is tried again until ctx ends, and is a TryAgain error then. Everything else is the API server's last word.
func CreateVolume(ctx context.Context, client rest.Interface, volume *corev1.PersistentVolume) (created bool, err error) {
	body, err := Encode(volume)
	if err != nil {
		return false, err
	}
	return bare.Create(ctx, volume.Name, func(ctx context.Context) error {
		return answer(client.Post().MaxRetries(0).Resource("persistentvolumes").Body(body).Do(ctx).Error())
	})
}

// answer is what the API server says against a request, where it got there.
func answer(err error) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err
	}
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return &bare.Answer{Code: int(status.Status().Code), Exists: apierrors.IsAlreadyExists(err), RetryAfter: time.Duration(seconds) * time.Second, Err: err}
}

// Encode is the JSON that CreateVolume sends: no status, UID or resourceVersion, with which a volume that was read from
// the API would be refused rather than found to exist.
func Encode(volume *corev1.PersistentVolume) ([]byte, error) {
	body, err := json.Marshal(struct {
		metav1.TypeMeta
		Metadata metav1.ObjectMeta           `json:"metadata"`
		Spec     corev1.PersistentVolumeSpec `json:"spec"`
	}{
		metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		metav1.ObjectMeta{
			Name: volume.Name, Labels: volume.Labels, Annotations: volume.Annotations, Finalizers: volume.Finalizers,
		},
		volume.Spec,
	})
	if err != nil {
		return nil, fmt.Errorf("encode persistentvolume %s: %w", volume.Name, err)
	}
	return body, nil
}
