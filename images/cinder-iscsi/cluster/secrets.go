package cluster

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// SecretType is what Kubernetes calls Secrets with CHAP credentials.
const SecretType = corev1.SecretType("kubernetes.io/iscsi-chap")

// PutSecret makes the Secret of a claim's volume. One that exists with the same content is as good; one with other content
// is from an attempt whose credentials the storage has replaced since, and is replaced as well. A foreign one is an error.
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
	// The second try is after the removal of an old one.
	for try := 0; ; try++ {
		err := c.rest.Post().Namespace(c.Namespace).Resource("secrets").Body(secret).Do(ctx).Error()
		if err == nil {
			return nil
		}
		if !apierrors.IsAlreadyExists(err) || try > 0 {
			return fmt.Errorf("create secret %s/%s: %w", c.Namespace, name, err)
		}
		there, err := c.getSecret(ctx, name, claimUID)
		switch {
		case err != nil:
			return err
		case there == nil:
			continue
		case there.Type == secret.Type && maps.EqualFunc(there.Data, secret.Data, bytes.Equal):
			return nil
		}
		if err := c.deleteSecret(ctx, there); err != nil {
			return err
		}
	}
}

// RemoveSecret removes the Secret of a claim's volume, if there is one.
func (c *Client) RemoveSecret(ctx context.Context, name, claimUID string) error {
	there, err := c.getSecret(ctx, name, claimUID)
	if err != nil || there == nil {
		return err
	}
	return c.deleteSecret(ctx, there)
}

// getSecret is nil where there is none.
func (c *Client) getSecret(ctx context.Context, name, claimUID string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := c.rest.Get().Namespace(c.Namespace).Resource("secrets").Name(name).Do(ctx).Into(secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get secret %s/%s: %w", c.Namespace, name, err)
	case secret.Labels[contract.LabelClaimUID] != claimUID:
		return nil, fmt.Errorf("secret %s/%s has not the label %s=%s, so it is not ours; rename or delete it", c.Namespace, name, contract.LabelClaimUID, claimUID)
	}
	return secret, nil
}

// deleteSecret deletes the object that was looked at, not one that has its name by now.
func (c *Client) deleteSecret(ctx context.Context, secret *corev1.Secret) error {
	err := c.rest.Delete().Namespace(c.Namespace).Resource("secrets").Name(secret.Name).
		Body(&metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(secret.UID))}).Do(ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete secret %s/%s: %w", c.Namespace, secret.Name, err)
	}
	return nil
}
