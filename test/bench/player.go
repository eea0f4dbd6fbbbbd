package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/transport"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
	"github.com/flex-provisioner/flex-provisioner/test/kubelet"
)

// act is what becomes of a class's pods. Without one the pod creates its volume, under its own identity, and has succeeded.
type act string

const (
	// hang: the pod runs and never ends.
	hang act = "hang"
	// noImage: the pod waits for an image that cannot be pulled.
	noImage act = "no image"
)

// player does at once what a node does to a pod: it creates the volume as the pod would, and writes the pod's status. The
// bare program's pods and the dispatcher's are played alike.
type player struct {
	*workers
	pods    kubernetes.Interface // as the kubelet
	volumes kubernetes.Interface // as the pod
	acts    map[string]act       // by class

	mu     sync.Mutex
	played map[types.UID]bool
}

// players is how many pods are played at a time.
const players = 16

func startPlayer(ctx context.Context, p *plane, o *observer, acts map[string]act) *player {
	asPods := inProtobuf(p.server.Config(apiserver.Admin.Token()))
	asPods.Wrap(asPod)
	pl := &player{workers: startWorkers(ctx, "player", players), pods: p.admin, volumes: kubernetes.NewForConfigOrDie(asPods), acts: acts, played: map[types.UID]bool{}}
	o.onPod = append(o.onPod, pl.see)
	return pl
}

func (p *player) see(pod *corev1.Pod, deleted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if deleted {
		delete(p.played, pod.UID)
		return
	}
	if p.played[pod.UID] || pod.Status.Phase != corev1.PodPending {
		return
	}
	p.played[pod.UID] = true
	p.queue <- func(ctx context.Context) error { return p.play(ctx, pod) }
}

func (p *player) play(ctx context.Context, pod *corev1.Pod) error {
	var state corev1.ContainerState
	phase, now := corev1.PodSucceeded, metav1.Now()
	switch p.acts[pod.Annotations[contract.AnnClass]] {
	case hang:
		phase, state.Running = corev1.PodRunning, &corev1.ContainerStateRunning{StartedAt: now}
	case noImage:
		phase, state.Waiting = corev1.PodPending, &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image"}
	default:
		if pod.Labels[contract.LabelOperation] == string(contract.Provision) {
			if err := p.createVolume(ctx, pod); err != nil {
				return err
			}
		}
		state.Terminated = &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now}
	}
	err := kubelet.SetStatus(ctx, p.pods, pod, corev1.PodStatus{Phase: phase, StartTime: &now}, state)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func (p *player) createVolume(ctx context.Context, pod *corev1.Pod) error {
	volume, err := kubelet.Volume(pod, "10.99.0.1", "/"+pod.Name)
	if err != nil {
		return err
	}
	_, err = p.volumes.CoreV1().PersistentVolumes().Create(withPod(ctx, pod), volume, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create volume %s: %w", volume.Name, err)
	}
	return nil
}

type podKey struct{}

func withPod(ctx context.Context, pod *corev1.Pod) context.Context {
	return context.WithValue(ctx, podKey{}, pod)
}

// asPod makes requests as the pod of the context, by impersonation, so that the admission policies see what they would see
// of its token.
func asPod(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if pod, ok := r.Context().Value(podKey{}).(*corev1.Pod); ok {
			return transport.NewImpersonatingRoundTripper(transport.ImpersonationConfig(kubelet.Identity(pod)), next).RoundTrip(r)
		}
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (t roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// policiesBite waits until the admission policies are enforced: the API server compiles them a moment after they were
// written.
func (p *player) policiesBite(ctx context.Context, c class) error {
	ctx, cancel := within(ctx, 30*time.Second, "policies in force")
	defer cancel()
	stranger := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "stranger", Namespace: contract.ProvisionersNamespace}, Spec: corev1.PodSpec{ServiceAccountName: c.name}}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: podspec.VolumeName("none")}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: gibibyte}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "10.99.0.1", Path: "/"}}}}
	var last error
	err := poll(ctx, 50*time.Millisecond, func(ctx context.Context) (bool, error) {
		_, last = p.volumes.CoreV1().PersistentVolumes().Create(withPod(ctx, stranger), volume, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsForbidden(last) || apierrors.IsInvalid(last), nil
	})
	if err != nil {
		return fmt.Errorf("%w: the last answer was %w", err, last)
	}
	return nil
}
