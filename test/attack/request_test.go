//go:build e2e || integration

package attack

import (
	"context"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// identity is who sends a request: a user, or the holder of a ServiceAccount's token.
type identity struct {
	User      string   `json:"user"`
	Groups    []string `json:"groups"`
	Account   string   `json:"account"`
	Namespace string   `json:"namespace"`
	Pod       string   `json:"pod"`
}

// client acts as the identity.
func (w *world) client(ctx context.Context, id identity) (kubernetes.Interface, error) {
	config := rest.CopyConfig(w.config)
	if id.User != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: id.User, Groups: id.Groups}
		return kubernetes.NewForConfig(config)
	}
	namespace := id.Namespace
	if namespace == "" {
		namespace = contract.ProvisionersNamespace
	}
	token, err := w.token(ctx, namespace, id.Account, filled(id.Pod, w.names))
	if err != nil {
		return nil, err
	}
	config = rest.AnonymousClientConfig(config)
	config.BearerToken, config.QPS, config.Burst = token, 100, 200
	return kubernetes.NewForConfig(config)
}

// token is one of the ServiceAccount, bound to the pod unless that has no name, as a thief finds it in the pod.
func (w *world) token(ctx context.Context, namespace, account, pod string) (string, error) {
	var request authenticationv1.TokenRequest
	if pod != "" {
		bound, err := w.admin.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod, UID: bound.UID}
	}
	answer, err := w.admin.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, &request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token of %s/%s: %w", namespace, account, err)
	}
	return answer.Status.Token, nil
}

// judge compares the answer to a request with what the case says of it.
func (a attempt) judge(answer map[string]any, err error) error {
	who, says := a.refuser()
	switch {
	case a.Answers != nil && err == nil:
		if lack := lacks(answer, a.Answers); lack != "" {
			return fmt.Errorf("went through: %s", lack)
		}
		return nil
	case a.RefusedBy == "" && err != nil:
		return fmt.Errorf("refused: %w, want accepted", err)
	case a.RefusedBy == "":
		return nil
	case err == nil:
		return fmt.Errorf("went through, want refused by %s", a.RefusedBy)
	}
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) && !apierrors.IsMethodNotSupported(err) ||
		strings.Contains(err.Error(), "pgrade request required") {
		return fmt.Errorf("went through: answer: %w, want refused by %s", err, a.RefusedBy)
	}
	byPolicy := strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
	right := strings.Contains(err.Error(), says)
	switch who {
	case "rbac":
		right = right && apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot ")
	case "apiserver":
		right = right && !byPolicy && !strings.Contains(err.Error(), " cannot ")
	default:
		right = right && strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+who)
	}
	if !right {
		return fmt.Errorf("refused: %w, want by %s", err, a.RefusedBy)
	}
	return nil
}
