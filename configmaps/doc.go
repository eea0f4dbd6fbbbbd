// Package configmaps turns a provisioner ConfigMap into a Config, a value that cannot be wrong in itself.
//
// The one idea: whoever may write such a ConfigMap decides what runs in the cluster, so nothing in it is ever ignored.
// Every key is either reserved, and then strictly parsed (the table in reserved.go), or a property of the provisioner,
// and then its environment name is checked (names.go). A key that only looks like a reserved one is neither: it is an
// error, because a lost node selector is a security hole (similar.go). Parse reports all faults at once, each with the
// path of its field, its value and the remedy. No fault ever shows the value of a property or of service-token: people
// keep credentials there.
//
// It may import quantity and contract. It is pure: no client, clock or file. It never asks whether what a ConfigMap
// names is there. docs/config-reference.md is its prose, and a test compares the two. It is not for import by other
// modules.
package configmaps
