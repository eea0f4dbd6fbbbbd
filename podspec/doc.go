// Package podspec turns a request into a provisioner pod, and a provisioner pod into its outcome.
//
// It owns the pods' names, their spec and what is read from their status, the skeleton with the dispatcher's record,
// and the checks and repairs of a volume. It may import skeleton, configmaps and contract, and the types of Kubernetes.
// It is pure: it uses no client, context, clock, randomness or environment. Package reconcile decides what follows from
// an outcome.
package podspec
