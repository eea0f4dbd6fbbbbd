// Package podspec turns a request into a provisioner pod, and a provisioner pod into its outcome.
//
// It owns the pods' names, their spec and what is read from their status, the skeleton with the dispatcher's record,
// and what is repaired or wrong about a volume. It may import skeleton, configmaps and contract, and the types of
// Kubernetes. It is pure, values in, values out: it never sees a client, a context, a clock, randomness or the
// environment, and never decides what is done about an outcome. It is not for import by other modules.
package podspec
