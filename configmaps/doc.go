// Package configmaps parses a provisioner ConfigMap into a Config.
//
// Whoever may write such a ConfigMap decides what runs in the cluster, so nothing in it is ignored. Every key is either
// reserved, and then parsed strictly (reserved.go has the table), or a property of the provisioner, and then its
// environment name is checked (names.go). A key that resembles a reserved one is an error (similar.go): a node selector
// that is taken for a property is a security hole. Parse reports all faults at once, each with the path of its field,
// its value and the remedy. No fault shows the value of a property or of service-token, since they may be credentials.
//
// It may import documents, quantity and contract. It is pure: it uses no client, clock or file. It does not check
// whether the objects that a ConfigMap names exist. docs/config-reference.md describes the keys, and a test compares
// the two.
package configmaps
