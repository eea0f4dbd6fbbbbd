package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// SecretType is Kubernetes' type of Secrets with CHAP credentials.
const SecretType = corev1.SecretType("kubernetes.io/iscsi-chap")

// PutSecret creates the Secret of a claim's volume, or updates the one of an earlier attempt with the present credentials. It does not
// read the Secret: the right to get one would be a right to get all Secrets of the namespace, including the credentials of clouds. The
// admission policy flex-secrets-by-provisioner-pod checks that the Secret is that of the pod's claim.
func (c *Client) PutSecret(ctx context.Context, name, claimUID string, data map[string]string) error {
	secret := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: c.Namespace, Labels: map[string]string{contract.LabelClaimUID: claimUID},
		},
		Type: SecretType,
		Data: map[string][]byte{},
	}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	err := c.createSecret(ctx, secret)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	err = c.rest.Put().Namespace(c.Namespace).Resource("secrets").Name(name).Body(secret).Do(ctx).Error()
	switch {
	case apierrors.IsNotFound(err): // removed in between
		return c.createSecret(ctx, secret)
	case err != nil:
		return fmt.Errorf("update secret %s/%s: %w", c.Namespace, name, err)
	}
	return nil
}

func (c *Client) createSecret(ctx context.Context, secret *corev1.Secret) error {
	if err := c.rest.Post().Namespace(c.Namespace).Resource("secrets").Body(secret).Do(ctx).Error(); err != nil {
		return fmt.Errorf("create secret %s/%s: %w", c.Namespace, secret.Name, err)
	}
	return nil
}

// RemoveSecret removes the Secret of a volume, if there is one. The name has the claim's UID, so it cannot be the Secret of another volume.
func (c *Client) RemoveSecret(ctx context.Context, name string) error {
	err := c.rest.Delete().Namespace(c.Namespace).Resource("secrets").Name(name).Do(ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete secret %s/%s: %w", c.Namespace, name, err)
	}
	return nil
}
