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

// CreateVolume creates the PersistentVolume, which commits the provision, and reports whether this call created it. It is a success if the
// volume exists already. Its name has the claim's UID, so only an earlier attempt for the claim can have created it. The pod may not
// read it to compare, but the dispatcher verifies it. Transient errors (429, 5xx, no connection, no response) are retried until ctx
// ends, and are a TryAgain error then. Every other error of the API server is final.
func CreateVolume(ctx context.Context, client rest.Interface, volume *corev1.PersistentVolume) (created bool, err error) {
	body, err := Encode(volume)
	if err != nil {
		return false, err
	}
	return bare.Create(ctx, volume.Name, func(ctx context.Context) error {
		return answer(client.Post().MaxRetries(0).Resource("persistentvolumes").Body(body).Do(ctx).Error())
	})
}

// answer turns a status of the API server into a *bare.Answer. Other errors stay as they are.
func answer(err error) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err
	}
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return &bare.Answer{Code: int(status.Status().Code), Exists: apierrors.IsAlreadyExists(err), RetryAfter: time.Duration(seconds) * time.Second, Err: err}
}

// Encode is the JSON that CreateVolume sends. It has no status, UID or resourceVersion: with these the API server would refuse a volume that
// was read from the API, instead of answering that it exists.
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
