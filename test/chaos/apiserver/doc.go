// Package apiserver is a double of the Kubernetes API server: in memory, without sockets, in whatever time its caller
// lives in. It keeps the semantics that a controller's correctness can hang on: one counter of resource versions,
// conflicts, the refusal of a resource version on create before the name is looked at, preconditions, finalizers,
// graceful deletion of pods, the status subresource, selectors, and watches that start from a version, fall behind,
// break, and find their version compacted away.
//
// It never draws a fault of its own: its caller does.
package apiserver
