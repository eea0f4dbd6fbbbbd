package dispatcher

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// The identity that hostile requests are tried with: a ServiceAccount of the provisioners' namespace that may do what
// provisioners may, and a pod that never exists. The dispatcher may impersonate this account with this pod name and
// nobody else, and the policies let it create nothing, since it has no line in the allow-list.
const (
	TrialAccount = "flex-policy-trial"
	TrialPod     = "prov-00000000-0000-4000-8000-000000000000-0"
	// PodNameKey is where the API server puts the name of the pod that a token is bound to.
	PodNameKey = "authentication.kubernetes.io/pod-name"
)

// TrialIdentity is for the client of Options.Trial.
func TrialIdentity(namespace string) rest.ImpersonationConfig {
	return rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + TrialAccount,
		Extra:    map[string][]string{PodNameKey: {TrialPod}},
	}
}

// Delays between trials. A policy that was written a moment ago is not in force yet, and one can stop to be without
// having been changed: an API server that was restarted without the admission of policies.
const (
	tryAgainAfter = 2 * time.Second
	tryAnyway     = 10 * time.Minute
)

// hostileRequest is one that a policy has to refuse. Each is wrong in one thing only, so that no other policy of the
// cluster is likely to refuse it first.
type hostileRequest struct {
	policy, what string
	send         func(context.Context) error
}

// hostileRequests has one for each policy that a request alone can show to be in force. flex-pv-create-only is not among
// them: it holds against rights that nobody should have, so that RBAC refuses first.
func hostileRequests(pod, dispatcher kubernetes.Interface, namespace string) []hostileRequest {
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	const foreign = "pvc-ffffffff-ffff-4fff-8fff-ffffffffffff"
	return []hostileRequest{
		{"flex-pv-by-provisioner-pod", "another claim's volume", func(ctx context.Context) error {
			_, err := pod.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: foreign},
				Spec: corev1.PersistentVolumeSpec{
					Capacity:    corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(1<<30, resource.BinarySI)},
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					PersistentVolumeSource: corev1.PersistentVolumeSource{
						NFS: &corev1.NFSVolumeSource{Server: "192.0.2.1", Path: "/trial"}},
				},
			}, dry)
			return err
		}},
		{"flex-secrets-by-provisioner-pod", "another volume's Secret", func(ctx context.Context) error {
			_, err := pod.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: foreign}}, dry)
			return err
		}},
		{"flex-provisioner-namespace", "a pod with a name of its own", func(ctx context.Context) error {
			_, err := dispatcher.CoreV1().Pods(namespace).Create(ctx, trialPod(namespace), dry)
			return err
		}},
	}
}

// trialPod meets every level of Pod Security, which judges before the policies do.
func trialPod(namespace string) *corev1.Pod {
	no, yes, user := false, true, int64(65532)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: TrialAccount, Namespace: namespace},
		Spec: corev1.PodSpec{
			ServiceAccountName: TrialAccount, AutomountServiceAccountToken: &no, RestartPolicy: corev1.RestartPolicyNever,
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{Name: "trial", Image: "example.com/trial",
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}},
		},
	}
}

// verdict is empty where the policy refused. known is false where the answer says nothing about it.
func (h hostileRequest) verdict(err error) (lacks string, known bool) {
	switch {
	case err == nil:
		return fmt.Sprintf("ValidatingAdmissionPolicy %s is not in force: a dry run that creates %s was accepted", h.policy, h.what), true
	// Another policy may refuse first. Then policies are enforced, and that this one is as shipped is known from its text.
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"):
		return "", true
	}
	return fmt.Sprintf("ValidatingAdmissionPolicy %s could not be tried: %v", h.policy, err), apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
}

// tryPolicies tries them again when one changed, and from time to time.
func (d *Dispatcher) tryPolicies(ctx context.Context) {
	for {
		pause := tryAnyway
		if d.lackingTrial() != "" {
			pause = tryAgainAfter
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-d.lacking.changed:
			timer.Stop()
		case <-timer.C:
		}
		d.tryPoliciesOnce(ctx)
	}
}

// tryPoliciesOnce keeps what was known where the API server gives no answer, and lets everything look again where the
// verdict changed.
func (d *Dispatcher) tryPoliciesOnce(ctx context.Context) {
	before, now := d.lackingTrial(), ""
	for _, h := range hostileRequests(d.options.Trial, d.client, d.cluster.Namespace) {
		lacks, known := h.verdict(h.send(ctx))
		if !known && before == "" {
			d.log.Info("A trial of the admission policies got no answer", "problem", lacks)
			return
		}
		if now == "" {
			now = lacks
		}
	}
	if now == before {
		return
	}
	d.lacking.Lock()
	d.lacking.trial = now
	d.lacking.Unlock()
	d.log.Info("Tried the admission policies", "lacks", now)
	d.lanes.pokeAll()
}

func (d *Dispatcher) lackingTrial() string {
	d.lacking.Lock()
	defer d.lacking.Unlock()
	return d.lacking.trial
}
