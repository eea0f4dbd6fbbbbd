package main

import (
	"context"
	"crypto/rand"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// recordKeySecret is the Secret in the dispatcher's namespace with the key for the records on volumes, at data[recordKeyData].
// deploy/base installs it empty.
const (
	recordKeySecret = "flex-provisioner-record-key"
	recordKeyData   = "key"
)

// recordKey reads the key, and generates it if the Secret is empty. If two processes generate one at the same time, the update of the
// second fails by the resource version, and it reads the key of the first.
func recordKey(ctx context.Context, secrets clientcorev1.SecretInterface) (podspec.RecordKey, error) {
	for {
		secret, err := secrets.Get(ctx, recordKeySecret, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("get Secret %s with the key for the records on volumes (kubectl apply -k deploy/base makes it): %w", recordKeySecret, err)
		}
		key := podspec.RecordKey(secret.Data[recordKeyData])
		switch {
		case len(key) >= podspec.MinRecordKey:
			return key, nil
		case len(key) > 0:
			return nil, fmt.Errorf("read Secret %s: data[%s] has %d bytes, it needs %d or more; restore it from a backup, or empty it to have a new one made",
				recordKeySecret, recordKeyData, len(key), podspec.MinRecordKey)
		}
		key = make(podspec.RecordKey, podspec.MinRecordKey)
		rand.Read(key) // it never fails
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[recordKeyData] = key
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
		switch {
		case err == nil:
			return key, nil
		case !apierrors.IsConflict(err):
			return nil, fmt.Errorf("write the key for the records on volumes into Secret %s: %w", recordKeySecret, err)
		}
	}
}
