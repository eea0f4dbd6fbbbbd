package sdk

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
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
	delays := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 5 * time.Second}
	last := errors.New("no answer from the API server")
	for {
		err := client.Post().MaxRetries(0).Resource("persistentvolumes").Body(body).Do(ctx).Error()
		switch {
		case err == nil:
			return true, nil
		case apierrors.IsAlreadyExists(err):
			return false, nil
		case !isTransient(err):
			return false, fmt.Errorf("create persistentvolume %s: %w", volume.Name, err)
		case ctx.Err() == nil:
			last = err // and not the error that ctx made of a later call
		}
		if !sleep(ctx, max(delays.Step(), askedDelay(err))) {
			return false, TryAgain(fmt.Errorf("create persistentvolume %s: %w: %w", volume.Name, context.Cause(ctx), last))
		}
	}
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

// isTransient: an error without a status never reached the API server, or its answer never reached us. Only a certificate
// that is not trusted stays so.
func isTransient(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		var untrusted *tls.CertificateVerificationError
		return !errors.As(err, &untrusted)
	}
	code := status.Status().Code
	return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}

// askedDelay is what the API server asks for in Retry-After.
func askedDelay(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return time.Duration(seconds) * time.Second
}

// sleep is false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
