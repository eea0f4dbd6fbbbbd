package dispatcher

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// silent is a client for the library that writes no events. The library's own say only that the dispatcher was called;
// ours say what became of it, and a burst of ten thousand claims need not pay for both.
type silent struct{ kubernetes.Interface }

func (s silent) CoreV1() typedcorev1.CoreV1Interface { return silentCore{s.Interface.CoreV1()} }

type silentCore struct{ typedcorev1.CoreV1Interface }

func (c silentCore) Events(namespace string) typedcorev1.EventInterface {
	return silentEvents{c.CoreV1Interface.Events(namespace)}
}

// silentEvents overrides what event recorders call.
type silentEvents struct{ typedcorev1.EventInterface }

func (silentEvents) CreateWithEventNamespace(e *corev1.Event) (*corev1.Event, error) { return e, nil }

func (silentEvents) CreateWithEventNamespaceWithContext(_ context.Context, e *corev1.Event) (*corev1.Event, error) {
	return e, nil
}

func (silentEvents) UpdateWithEventNamespace(e *corev1.Event) (*corev1.Event, error) { return e, nil }

func (silentEvents) UpdateWithEventNamespaceWithContext(_ context.Context, e *corev1.Event) (*corev1.Event, error) {
	return e, nil
}

func (silentEvents) PatchWithEventNamespace(e *corev1.Event, _ []byte) (*corev1.Event, error) {
	return e, nil
}

func (silentEvents) PatchWithEventNamespaceWithContext(_ context.Context, e *corev1.Event, _ []byte) (*corev1.Event, error) {
	return e, nil
}
